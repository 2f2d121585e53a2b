"""How long a service that the stream needs has not answered: what the checks of each service have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from streamwarden.health.check import DRIVERS, Check, Thresholds, ValueUnit, limits
from streamwarden.health.services import CHECK_OF, GAP, Outage, evidence_of, needs, outages
from streamwarden.health.stopped import never_ran, stopped
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Answer, Service, Window
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.units import format_duration

WARNING = 180.0
CRITICAL = 600.0


@dataclass(frozen=True, slots=True)
class _Away:
    """A service that did not answer this evaluation; `seconds`: since the first attempt of the row that failed."""

    answer: Answer
    seconds: float
    status: Status
    attempts_since: float
    committed: bool


Judge = Callable[[Window, Thresholds], Verdict]


def declare(service: Service, *, title: str, advice: str, judge: Judge, also: str = "") -> Check:
    """The check of one service; `also`: what else counts as no answer of it."""
    return Check(
        name=CHECK_OF[service],
        title=title,
        unit=ValueUnit.SECONDS,
        target=f"the {service} answers",
        thresholds=limits(WARNING, CRITICAL, ValueUnit.SECONDS, f"time for which the {service} has not answered"),
        judge=judge,
        judges=DRIVERS,
        reads=(
            f"One attempt of each evaluation to reach the {service}, through the connections that `source.connection` "
            f"and `sink.connection` name, once for all streams of a connection; kept as the measurement "
            f"`{service.measurement}` (1 or 0). {also}The value is the time since the first failed attempt of a row "
            f"without a success; attempts more than {format_duration(GAP)} apart make no row. A batch that was "
            f"committed meanwhile shows that the driver reaches the {service}: the time begins again with it. One "
            "attempt alone never alarms. A stream that was stopped on request, or is wanted stopped, is OK."
        ),
        unknown=(
            f"The {service} did not answer for less than `warning`; or it was not asked, because its connection is not "
            f"known where the checks run or the {service} refuses this user; or the job is a script with a source or "
            f"sink that its file does not describe; or the stream has never run. Of a stream without a {service}, "
            "until its first batch is planned."
        ),
        advice=advice,
        source=(
            "Design of Streamwarden: a failover takes about a minute, so three minutes are no blip, and an outage of "
            "five minutes is an incident with its name even if one evaluation was late."
        ),
    )


def verdict(check: Check, service: Service, window: Window, thresholds: Thresholds) -> Verdict:
    """The worst of what holds of the services of this kind that the stream needs."""
    wanted = [each for each in needs(window.spec) if each.service is service]
    found = outages(window, service)
    evidence = evidence_of(window, service)
    if not wanted:
        return _without(check, service, window)
    if stopped(window):
        return check.verdict(window, Status.OK, f"not running: nothing needs the {service} now", 0.0, evidence)
    if never_ran(window):
        return check.verdict(window, Status.UNKNOWN, "the stream has never run", None, evidence)
    answers = [each for each in window.answers if each.service is service]
    limits_in_force = thresholds.of(check.name)
    away = [_away(check, window, each, found, limits_in_force) for each in answers if each.reached is False]
    if away:
        worst = max(away, key=lambda each: each.seconds)
        return _unreachable(check, service, window, worst, evidence, limits_in_force)
    silent = [each for each in answers if each.reached is None]
    if silent or len(answers) < len(wanted):
        why = "; ".join(f"{each.connection}: {each.problem}" for each in silent) or "no attempt was made"
        reason = f"whether the {service} answers is not known: {why}"
        return check.verdict(window, Status.UNKNOWN, reason, None, evidence)
    named = ", ".join(f"{each.address} (connection {each.connection})" for each in answers)
    return check.verdict(window, Status.OK, f"the {service} answers: {named}", 0.0, evidence)


def _without(check: Check, service: Service, window: Window) -> Verdict:
    if not (window.spec.source.DECLARED and window.spec.sink.DECLARED):
        reason = f"the job is a script: whether it needs a {service}, its file does not say"
        return check.verdict(window, Status.UNKNOWN, reason)
    if window.log is None or window.log.planned is None:
        return check.verdict(window, Status.UNKNOWN, "no batch is known to have been planned")
    return check.verdict(window, Status.OK, f"the stream needs no {service}", 0.0)


def _away(
    check: Check, window: Window, answer: Answer, found: Sequence[Outage], limits_in_force: Mapping[str, float]
) -> _Away:
    first = max((each.since for each in found if each.source == answer.source), default=window.now)
    committed_at = (window.log.committed_at if window.log is not None else None) or 0.0
    since = min(window.now, max(first, committed_at))
    seconds = round(window.now - since, 6)
    return _Away(answer, seconds, check.grade(seconds, limits_in_force), first, committed_at > first)


def _unreachable(
    check: Check,
    service: Service,
    window: Window,
    worst: _Away,
    evidence: dict[str, object],
    limits_in_force: Mapping[str, float],
) -> Verdict:
    answer = worst.answer
    ended = [each for each in window.drivers if _ended_since(each, worst.attempts_since)]
    place = f"the {service} {answer.address} (connection {answer.connection})"
    said = f": {answer.problem}" if answer.problem else ""
    reason = f"{place} has not answered for {format_duration(worst.seconds)}{said}"
    if worst.committed:
        reason += ". The driver has committed a batch since the first failed attempt, so it reaches the service"
    if ended:
        reason += f". Since then {len(ended)} drivers of the stream ended"
    evidence |= {
        "connection": answer.connection,
        "address": answer.address,
        "first_failed_at": worst.attempts_since,
        "drivers_ended": [each.driver_id for each in ended],
    }
    # short of an alarm it is not well either: the next attempt tells a blip from an outage
    status = Status.UNKNOWN if worst.status is Status.OK else worst.status
    return check.verdict(window, status, f"{reason} ({check.limits_text(limits_in_force)})", worst.seconds, evidence)


def _ended_since(driver: DriverRecord, at: float) -> bool:
    return driver.exit is not None and driver.exit.ended_at >= at
