"""Decides whether a stream whose driver ended is started again, when, or whether it stays down.

Pure: the same history, policy and time give the same decision, in an Airflow task, in the CLI and in a test.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.stream.spec import RestartPolicy
from streamwarden.units import Seconds, format_count, format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Start the stream again in `after` seconds. `attempt`: how many failures in a row led here; 0 if none did."""

    after: Seconds
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Leave the stream down until a person acts. `exhausted`: out of budget; else a restart cannot cure the reason."""

    reason: str
    next_step: str
    exhausted: bool


Decision = Restart | GiveUp

_UNRECORDED = "the driver vanished and its exit was not recorded"


def decide(history: Sequence[DriverRecord], policy: RestartPolicy, now: float) -> Decision:
    """Decide what to do after the newest driver of `history` ended.

    Only failures use up the budget and lengthen the back-off. A stop on request is not a failure, even if it had to be
    forced. The n-th failure in a row waits `initial * factor**(n - 1)` seconds, at most `cap`, counted from the exit,
    so a supervisor that was itself restarted does not wait twice. The first failure does not wait if the stream worked
    until then: a batch was committed since the failure before, or the query ran for `healthy_after` seconds. It counts
    all the same, so a crash loop skips only its first wait. A driver whose query lived `healthy_after` seconds forgives
    every failure before it. More than `budget.count` failures within `budget.per` seconds, or an exit that a restart
    cannot cure: the stream stays down.

    Args:
        history: the stream's drivers that count, in any order. What a person forgave (by starting the stream again)
            is left out by the caller. A driver with no exit that is not the newest one vanished, and counts as killed.
        now: Unix seconds.
    """
    drivers = sorted(history, key=lambda driver: driver.launched_at)
    if not drivers or (last := drivers[-1].exit) is None:
        return Restart(after=0.0, attempt=0, reason="no driver ended before")
    if not last.curable and last.is_failure:
        return GiveUp(
            reason=f"a restart cannot cure this: {describe(last)}",
            next_step=last.next_step or "fix the cause, then start the stream again",
            exhausted=False,
        )
    if last.kind is ExitKind.FENCED:
        # Another driver writes: there is no hurry, and an immediate launch would fence that driver in turn.
        return Restart(after=max(0.0, last.ended_at + policy.initial - now), attempt=0, reason=describe(last))
    if not last.is_failure:
        return Restart(after=0.0, attempt=0, reason=describe(last))
    lives = _lives(drivers)
    failures = _failures_in_a_row(lives, policy)
    recent = [exit for exit in failures if exit.ended_at > now - policy.budget.per]
    if len(recent) > policy.budget.count:
        return GiveUp(
            reason=f"gave up after {len(recent)} failures in {format_duration(policy.budget.per)}: the budget is "
            f"{format_count(policy.budget.count, 'restart')}; the last failure: {describe(last)}",
            next_step=last.next_step or "read the driver's log, fix the cause, then start the stream again",
            exhausted=True,
        )
    if len(failures) == 1 and _worked(lives, policy):
        # Whatever `now` is: the end may have been recorded after it was taken, or by a clock that is ahead.
        return Restart(after=0.0, attempt=1, reason=describe(last))
    delay = backoff(policy, len(failures))
    return Restart(after=max(0.0, last.ended_at + delay - now), attempt=len(failures), reason=describe(last))


def backoff(policy: RestartPolicy, attempt: int) -> Seconds:
    """Seconds between the `attempt`-th failure in a row (from 1) and the launch that follows it."""
    delay = policy.initial
    for _ in range(attempt - 1):
        delay *= policy.factor
        if delay >= policy.cap:
            break
    return min(delay, policy.cap)


def describe(exit: ExitRecord) -> str:
    """One line: what kind of exit it was and why."""
    cause = ": ".join(part for part in (exit.error_class, exit.message.partition("\n")[0]) if part)
    how = f"{exit.kind} by signal {exit.signal}" if exit.signal is not None else str(exit.kind)
    if cause.startswith(f"{how} "):  # `stopped by NAME: REASON` says the kind itself
        return cause
    return f"{how} ({cause})" if cause else how


@dataclass(frozen=True, slots=True)
class _Life:
    """A driver that has ended: when its query started, if it did, and how it ended."""

    started_at: float | None
    exit: ExitRecord

    def is_healthy(self, policy: RestartPolicy) -> bool:
        """Health begins with the query: a driver that needed an hour to start was never healthy."""
        return self.started_at is not None and self.exit.ended_at - self.started_at >= policy.healthy_after


def _lives(drivers: Sequence[DriverRecord]) -> list[_Life]:
    """The drivers that have ended, oldest first. One without an exit was killed at the latest when the next began."""
    followers = [driver.launched_at for driver in drivers[1:]] + [None]
    lives = []
    for driver, next_launch in zip(drivers, followers, strict=True):
        exit = driver.exit
        if exit is None and next_launch is not None:
            exit = ExitRecord(kind=ExitKind.KILLED, ended_at=next_launch, message=_UNRECORDED)
        if exit is not None:
            lives.append(_Life(driver.started_at, exit))
    return lives


def _failures_in_a_row(lives: Sequence[_Life], policy: RestartPolicy) -> list[ExitRecord]:
    """The failures since the last driver that was healthy for long enough, oldest first."""
    failures: list[ExitRecord] = []
    for life in lives:
        if life.is_healthy(policy):
            failures.clear()
        if life.exit.is_failure:
            failures.append(life.exit)
    return failures


def _worked(lives: Sequence[_Life], policy: RestartPolicy) -> bool:
    """Whether the stream worked between the last two failures, or until the only one."""
    since = next((index for index in range(len(lives) - 2, -1, -1) if lives[index].exit.is_failure), -1)
    return any(life.exit.committed or life.is_healthy(policy) for life in lives[since + 1 :])
