"""How long a service that the stream needs has not answered: the common part of the checks of each service."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from streamwarden.health.check import DRIVERS, Check, Thresholds, ValueUnit, limits
from streamwarden.health.signals.services import CHECK_OF, GAP, Outage, evidence_of, needs, outages
from streamwarden.health.signals.stopped import is_stopped, never_ran
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Answer, Service, Window
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.units import format_count, format_duration

WARNING = 180.0
CRITICAL = 600.0


@dataclass(frozen=True, slots=True)
class _Silent:
    """A service that did not answer this evaluation; `seconds`: since the first of the consecutive failed attempts."""

    answer: Answer
    seconds: float
    status: Status
    attempts_since: float
    committed: bool


Judge = Callable[[Window, Thresholds], Verdict]


def declare(service: Service, *, title: str, advice: str, judge: Judge, also: str = "") -> Check:
    """The check of one service; `also`: what else counts as unreachable."""
    return Check(
        name=CHECK_OF[service],
        title=title,
        unit=ValueUnit.SECONDS,
        target=f"the {service} answers",
        thresholds=limits(WARNING, CRITICAL, ValueUnit.SECONDS, f"time for which the {service} has not answered"),
        judge=judge,
        judges=DRIVERS,
        reads=(
            f"Each evaluation tries once to reach the {service}, through the connections that `source.connection` and "
            "`sink.connection` name, once for all streams of a connection. The result is stored as the measurement "
            f"`{service.measurement}` (1 or 0). {also}The value is the time since the first of the consecutive failed "
            f"attempts. Attempts more than {format_duration(GAP)} apart are not consecutive. A batch that was "
            f"committed meanwhile shows that the driver reaches the {service}: the time starts again with it. One "
            "attempt alone never alarms. If `progress_stalled` alarms too, the outage is a WARNING at once. A stream "
            "that was stopped on request, or should be stopped, is OK."
        ),
        unknown=(
            f"The {service} did not answer for less than `warning`. Or it could not be queried, because its connection "
            f"is not defined where the checks run or the {service} rejects this user. Or the job is a script with a "
            f"source or sink that its file does not describe. Or the stream has never run. For a stream without a "
            f"{service} it is UNKNOWN until the first batch is planned."
        ),
        advice=advice,
        source=(
            "Design of Streamwarden: a failover takes about a minute, so three minutes are more than that, and an "
            "outage of five minutes is an incident with its name even if one evaluation was late."
        ),
    )


def verdict(check: Check, service: Service, window: Window, thresholds: Thresholds) -> Verdict:
    """The worst verdict of the services of this kind that the stream needs."""
    wanted = [need for need in needs(window.spec) if need.service is service]
    periods = outages(window, service)
    evidence = evidence_of(window, service)
    if not wanted:
        return _without(check, service, window)
    if is_stopped(window):
        return check.verdict(window, Status.OK, f"not running: the {service} is not needed now", 0.0, evidence)
    if never_ran(window):
        return check.verdict(window, Status.UNKNOWN, "the stream has never run", None, evidence)
    answers = [answer for answer in window.answers if answer.service is service]
    limits_in_force = thresholds.of(check.name)
    silent = [_silent(check, window, answer, periods, limits_in_force) for answer in answers if answer.reached is False]
    if silent:
        worst = max(silent, key=lambda outage: outage.seconds)
        return _unreachable(check, service, window, worst, evidence, limits_in_force)
    undecided = [answer for answer in answers if answer.reached is None]
    if undecided or len(answers) < len(wanted):
        why = "; ".join(f"{answer.connection}: {answer.problem}" for answer in undecided) or "no attempt was made"
        reason = f"it is unknown whether the {service} answers: {why}"
        return check.verdict(window, Status.UNKNOWN, reason, None, evidence)
    named = ", ".join(f"{answer.address} (connection {answer.connection})" for answer in answers)
    return check.verdict(window, Status.OK, f"the {service} answers: {named}", 0.0, evidence)


def _without(check: Check, service: Service, window: Window) -> Verdict:
    if not (window.spec.source.DECLARED and window.spec.sink.DECLARED):
        reason = f"the job is a script, and its file does not say whether it needs a {service}"
        return check.verdict(window, Status.UNKNOWN, reason)
    if window.log is None or window.log.planned is None:
        return check.verdict(window, Status.UNKNOWN, "no batch was planned yet")
    return check.not_applicable(window, f"the stream needs no {service}", 0.0)


def _silent(
    check: Check, window: Window, answer: Answer, found: Sequence[Outage], limits_in_force: Mapping[str, float]
) -> _Silent:
    first = max((outage.since for outage in found if outage.source == answer.source), default=window.now)
    committed_at = (window.log.committed_at if window.log is not None else None) or 0.0
    since = min(window.now, max(first, committed_at))
    seconds = round(window.now - since, 6)
    return _Silent(answer, seconds, check.grade(seconds, limits_in_force), first, committed_at > first)


def _unreachable(
    check: Check,
    service: Service,
    window: Window,
    worst: _Silent,
    evidence: dict[str, object],
    limits_in_force: Mapping[str, float],
) -> Verdict:
    answer = worst.answer
    ended = [driver for driver in window.drivers if _ended_since(driver, worst.attempts_since)]
    place = f"the {service} {answer.address} (connection {answer.connection})"
    said = f": {answer.problem}" if answer.problem else ""
    reason = f"{place} has not answered for {format_duration(worst.seconds)}{said}"
    if worst.committed:
        reason += ". The driver has committed a batch since the first failed attempt, so it reaches the service"
    if ended:
        reason += f". Since then {format_count(len(ended), 'driver')} of the stream ended"
    evidence |= {
        "connection": answer.connection,
        "address": answer.address,
        "first_failed_at": worst.attempts_since,
        "drivers_ended": [driver.driver_id for driver in ended],
    }
    # below the threshold the service is not well either: the next attempt distinguishes a glitch from an outage
    status = Status.UNKNOWN if worst.status is Status.OK else worst.status
    return check.verdict(window, status, f"{reason} ({check.limits_text(limits_in_force)})", worst.seconds, evidence)


def _ended_since(driver: DriverRecord, at: float) -> bool:
    return driver.exit is not None and driver.exit.ended_at >= at
