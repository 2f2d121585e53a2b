"""Decide the next step of one stream: watch its driver, launch one, wait, hold, or leave it down.

Airflow's task and `streamwarden start --supervise` both ask `next_move` and differ only in how they wait.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from streamwarden.errors import HostUnfit, LeaseHeld, StoreError
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, DriverRepository, ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.restart import GiveUp, decide
from streamwarden.lifecycle.supervision.restarter import GAVE_UP, Supervisor, supervised
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState, StopRepository
from streamwarden.stream.spec import RestartPolicy, StreamSpec

HISTORY: Final = 24 * 3600.0
"""Seconds of drivers that are read for a decision: longer than any sensible budget."""


class Observed(Protocol):
    """An observation of a driver."""

    @property
    def alive(self) -> bool: ...
    @property
    def exit(self) -> ExitRecord | None: ...


class Launched(Protocol):
    """The outcome of a launch: a new driver, or the living one that was found."""

    @property
    def record(self) -> DriverRecord: ...
    @property
    def reattached(self) -> bool: ...


class Launcher(Protocol):
    """Starts and observes drivers. `start` finds a living driver instead of starting a second one."""

    def start(self, spec: StreamSpec, *, launched_by: str) -> Launched: ...
    def observe(self, driver_id: str) -> Observed: ...
    def request_stop(self, stream: str, *, requested_by: str, reason: str) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A driver is alive: follow it."""

    driver_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """No driver is alive and one should be: launch now. `attempt`: failures in a row before this launch."""

    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Back off until `until` (Unix seconds), then ask again."""

    until: float
    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The stream should be stopped: do nothing until its desired state is running."""

    state: DesiredState


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """The stream stays down until a person acts; this was decided at `at` (Unix seconds)."""

    driver_id: str
    verdict: GiveUp
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The query that was watched ended by itself, all its input processed."""

    driver_id: str
    exit: ExitRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Another host has to launch the driver: wait until one did, or until this host may."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """The store does not answer: nothing is decided, and a living driver continues."""

    reason: str


Move = Watch | Launch | Wait | Hold | Down | Finished


def next_move(
    stream: str,
    policy: RestartPolicy,
    *,
    drivers: DriverRepository,
    stops: StopRepository,
    observe: Callable[[str], Observed],
    now: float,
    since: float,
    watched: str | None = None,
) -> Move:
    """Decide about `stream`. Raises StoreError if the store is down: no decision is made on incomplete facts.

    Args:
        observe: observes a driver and records its exit if it has ended.
        since: when the caller's supervision began (Unix seconds), whichever process carried it out until now. A
            decision that the stream stays down is valid until a person starts the stream; a supervision that begins
            later is such a start.
        watched: the driver that the caller was following when it ended; None for a new caller.
    """
    latest = drivers.latest(stream)
    if latest is not None and latest.exit is None:
        view = observe(latest.driver_id)
        if view.alive:
            return Watch(driver_id=latest.driver_id)
        latest = drivers.latest(stream)
    state = stops.desired(stream)
    if state is not None and state.desired is Desired.STOPPED:
        return Hold(state=state)
    if latest is None:
        return Launch(reason="first launch")
    if latest.exit is not None and latest.exit.kind is ExitKind.COMPLETED and latest.driver_id == watched:
        return Finished(driver_id=latest.driver_id, exit=latest.exit)
    left = _left_down(latest.driver_id, drivers, since)
    if left is not None and (state is None or state.changed_at <= left.at):
        return left
    history = drivers.history(stream, now - HISTORY) or (latest,)  # it may have ended before that
    decision = decide(unforgiven(history, state, drivers.events), policy, now)
    if isinstance(decision, GiveUp):
        return Down(driver_id=latest.driver_id, verdict=decision, at=now)
    if decision.after > 0:
        return Wait(until=now + decision.after, reason=decision.reason, attempt=decision.attempt)
    return Launch(reason=decision.reason, attempt=decision.attempt)


def unforgiven(
    history: Sequence[DriverRecord],
    state: DesiredState | None,
    events_of: Callable[[str], Sequence[DriverEvent]],
) -> Sequence[DriverRecord]:
    """The drivers that count: those launched after a person last started the stream, or after it was last left down.

    A `restart` of a running stream does not change the desired state, so it forgives nothing.
    """
    ordered = sorted(history, key=lambda driver: driver.launched_at)
    if state is not None and state.desired is Desired.RUNNING:
        ordered = [driver for driver in ordered if driver.exit is None or driver.exit.ended_at > state.changed_at]
    for index in range(len(ordered) - 1, -1, -1):
        if any(event.kind == GAVE_UP for event in events_of(ordered[index].driver_id)):
            return ordered[index + 1 :]
    return ordered


def gave_up(down: Down) -> DriverEvent:
    """The event to record when `down` is carried out, so that the next start begins with a fresh budget."""
    verdict = down.verdict
    detail = {
        "reason": verdict.reason,
        "next_step": verdict.next_step,
        "exhausted": str(verdict.exhausted).lower(),
    }
    return DriverEvent(driver_id=down.driver_id, at=down.at, kind=GAVE_UP, detail=detail)


def _left_down(driver_id: str, drivers: DriverRepository, since: float) -> Down | None:
    """The decision that was made after this driver, later than `since`: a retry of the same supervision repeats it."""
    events = [event for event in drivers.events(driver_id) if event.kind == GAVE_UP and event.at > since]
    if not events:
        return None
    newest = max(events, key=lambda event: event.at)
    verdict = GiveUp(
        reason=newest.detail["reason"],
        next_step=newest.detail["next_step"],
        exhausted=newest.detail["exhausted"] == "true",
    )
    return Down(driver_id=driver_id, verdict=verdict, at=newest.at)


def missed_stop(stream: str, driver_id: str, stops: StopRepository) -> DesiredState | None:
    """The desired state `stopped` that did not reach a living driver, because the driver was still being launched.

    Call this after each launch. A stop records the desired state and then looks for a driver; a launch records the
    driver and then reads the desired state: one of them sees the other.
    """
    state = stops.desired(stream)
    wanted_stopped = state is not None and state.desired is Desired.STOPPED
    return state if wanted_stopped and stops.pending(driver_id) is None else None


def supervise(
    declared: Callable[[], StreamSpec],
    *,
    launcher: Launcher,
    drivers: DriverRepository,
    stops: StopRepository,
    launched_by: str,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    announce: Callable[[Move | Blind | Elsewhere], None],
    poll: float = 1.0,
) -> Down | Finished:
    """Keep a stream running in the foreground until it finished or stays down; waits while the store is down.

    Raises ConfigError or ProcessError for a driver that cannot be launched.

    Args:
        declared: reads the stream's file, once for each launch: an upgrade changes the job meanwhile.
        sleep: sleeps for so many seconds, or until the driver that was announced last has ended.
        announce: receives each move that differs from the one before.
        poll: seconds between two observations; a dead driver is noticed within two of them.
    """
    began, watched, spec, unfit = clock(), None, declared(), ""
    before: Move | Blind | None = None
    while True:
        move: Move | Blind
        try:
            move = next_move(
                spec.name,
                spec.restart,
                drivers=drivers,
                stops=stops,
                observe=launcher.observe,
                now=clock(),
                since=began,
                watched=watched,
            )
            if not _same(move, before):
                announce(move)
            before = move
            if isinstance(move, Down):
                drivers.event(gave_up(move))
            if isinstance(move, Down | Finished):
                return move
            followed = watched
            if isinstance(move, Launch):
                spec = declared()
                watched, unfit = launcher.start(spec, launched_by=launched_by).record.driver_id, ""
            elif isinstance(move, Watch):
                watched = move.driver_id
            if watched is not None and watched != followed:
                drivers.event(supervised(watched, Supervisor.SHELL, clock()))
            if isinstance(move, Watch):
                missed = missed_stop(spec.name, move.driver_id, stops)
                if missed is not None:
                    launcher.request_stop(spec.name, requested_by=missed.changed_by, reason=missed.reason)
        except LeaseHeld:
            # A claim whose launch is still under way, or a driver that another host follows: decide again.
            watched = None
        except HostUnfit as here:
            if str(here) != unfit:
                announce(Elsewhere(reason=str(here)))
            watched, unfit = None, str(here)
        except StoreError as error:
            move = Blind(reason=str(error))
            if not _same(move, before):
                announce(move)
            before = move
        sleep(poll)


def _same(move: Move | Blind, before: Move | Blind | None) -> bool:
    if isinstance(move, Blind):
        return isinstance(before, Blind)
    if isinstance(move, Wait) and isinstance(before, Wait):
        return move.attempt == before.attempt
    return move == before
