"""All checks on one stream's window."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from streamwarden.health.check import Check, Thresholds
from streamwarden.health.check_relations import PROGRESS_STALLED, SERVICES
from streamwarden.health.checks import CHECKS
from streamwarden.health.resting import as_measured_last, measured_now
from streamwarden.health.signals.sampled_hysteresis import steady
from streamwarden.health.signals.stopped import is_interrupted
from streamwarden.health.verdict import ALARMS, Status, Verdict
from streamwarden.health.window import Window


def evaluate(window: Window, thresholds: Thresholds, checks: Sequence[Check] = CHECKS) -> tuple[Verdict, ...]:
    """One verdict from each check that judges this part of a stream, in the checks' order.

    Never raises: a check that fails gives UNKNOWN with the reason.

    Args:
        thresholds: the project's; the stream's own (`spec.health.thresholds`) override them here.
    """
    in_force = thresholds.with_overrides(window.spec.health.thresholds)
    verdicts = [(check, _run(check, window, in_force)) for check in checks if window.part in check.judges]
    stalled = window.driver_alive is not False and any(
        verdict.check == PROGRESS_STALLED and verdict.status in ALARMS for _, verdict in verdicts
    )
    return tuple(_confirmed(check, verdict) if stalled else verdict for check, verdict in verdicts)


def named_checks(names: Collection[str]) -> tuple[Check, ...]:
    """The checks with these names, and the one whose verdict decides about theirs (`_confirmed`)."""
    deciding = {PROGRESS_STALLED} if {*SERVICES} & {*names} else set()
    return tuple(check for check in CHECKS if check.name in deciding or check.name in names)


def _confirmed(check: Check, verdict: Verdict) -> Verdict:
    """A service that does not answer, while the stream that needs it is stalled, is a WARNING at once.

    Otherwise the stall alone would alarm for the first minutes of each outage, without its cause.
    """
    if check.name not in SERVICES or verdict.status is not Status.UNKNOWN or verdict.value is None:
        return verdict
    reason = f"{verdict.reason}; the stream already stands still"
    return replace(verdict, status=Status.WARNING, reason=reason, advice=check.advice)


def _run(check: Check, window: Window, thresholds: Thresholds) -> Verdict:
    if check.name in window.resting:
        return as_measured_last(check, window)
    verdict = _judged(check, window, thresholds)
    return measured_now(window, verdict) if check.rests else verdict


def _judged(check: Check, window: Window, thresholds: Thresholds) -> Verdict:
    try:
        verdict = check.judge(window, thresholds)
        if check.while_running and verdict.status in ALARMS and is_interrupted(window):
            return replace(verdict, status=Status.UNKNOWN, reason=f"not running; before: {verdict.reason}", advice="")
        return steady(check, window, verdict)
    except Exception as error:  # one check's defect must not hide what the others see
        reason = f"the check itself failed: {type(error).__name__}: {error}"
        return check.verdict(window, Status.UNKNOWN, reason)
