"""All checks on one stream's window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streamwarden.health.check import Check, Thresholds
from streamwarden.health.checks import CHECKS
from streamwarden.health.steady import steady
from streamwarden.health.stopped import is_interrupted
from streamwarden.health.verdict import ALARMS, Status, Verdict
from streamwarden.health.window import Window


def evaluate(window: Window, thresholds: Thresholds, checks: Sequence[Check] = CHECKS) -> tuple[Verdict, ...]:
    """One verdict from each check that judges this part of a stream, in the checks' order.

    Never raises: a check that fails gives UNKNOWN with the reason.

    Args:
        thresholds: the project's; the stream's own (`spec.health.thresholds`) override them here.
    """
    in_force = thresholds.with_overrides(window.spec.health.thresholds)
    return tuple(_run(check, window, in_force) for check in checks if window.part in check.judges)


def _run(check: Check, window: Window, thresholds: Thresholds) -> Verdict:
    try:
        verdict = check.judge(window, thresholds)
        if check.while_running and verdict.status in ALARMS and is_interrupted(window):
            return replace(verdict, status=Status.UNKNOWN, reason=f"not running; before: {verdict.reason}", advice="")
        return steady(check, window, verdict)
    except Exception as error:  # one check's defect must not hide what the others see
        reason = f"the check itself failed: {type(error).__name__}: {error}"
        return check.verdict(window, Status.UNKNOWN, reason)
