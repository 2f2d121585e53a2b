"""A stream's last verdicts as they may be shown now: `status` and the pages ask here, so they never disagree. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.health.checks import CHECKS
from streamwarden.health.evaluations import STALE_AFTER
from streamwarden.health.verdict import ALARMS, Status, Verdict, worst_of

ESSENTIAL: Final = frozenset(check.name for check in CHECKS if check.essential)
"""Whether the stream lives, and whether its state and memory are seen."""


def overall(verdicts: Iterable[Verdict]) -> Status:
    """The worst alarm. Without one: UNKNOWN while an essential check or every check has no data, else OK.

    The other checks need rows or history that a quiet or a young stream does not have. If their UNKNOWN counted, such
    a stream would never be OK, and the person on call would learn to ignore UNKNOWN.
    """
    return worst_of(
        verdict.status for verdict in verdicts if verdict.status is not Status.UNKNOWN or verdict.check in ESSENTIAL
    )


@dataclass(frozen=True, slots=True)
class CurrentHealth:
    """Args:
    verdicts: of one stream; a stale OK is UNKNOWN, because no evaluation has judged the stream since. A stale alarm
        stays.
    judged_at: Unix seconds; None if the stream was never judged.
    stale: the evaluation is too old to describe the stream.
    """

    verdicts: tuple[Verdict, ...]
    judged_at: float | None
    stale: bool

    @property
    def status(self) -> Status:
        """OK if no check alarms and every essential check has data."""
        return overall(self.verdicts)


def current_health(verdicts: Iterable[Verdict], now: float, *, stopped: bool = False) -> CurrentHealth:
    """The last verdicts on one stream, as they may be shown at `now`.

    A verdict that the last evaluation did not renew is left out, because its check no longer exists.

    Args:
        stopped: the stream should be stopped, so no verdict alarms.
    """
    given = tuple(verdicts)
    judged_at = max((verdict.at for verdict in given), default=None)
    stale = judged_at is not None and now - judged_at > STALE_AFTER
    renewed = [verdict for verdict in given if judged_at is not None and verdict.at >= judged_at - STALE_AFTER]
    if stale:
        renewed = [
            replace(verdict, status=Status.UNKNOWN) if verdict.status is Status.OK else verdict for verdict in renewed
        ]
    return CurrentHealth(silenced(renewed) if stopped else tuple(renewed), judged_at, stale)


def silenced(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts of a stream that should be stopped: an alarm becomes UNKNOWN, without advice."""
    return tuple(
        replace(
            verdict, status=Status.UNKNOWN, reason=f"the stream was stopped on purpose: {verdict.reason}", advice=""
        )
        if verdict.status in ALARMS
        else verdict
        for verdict in verdicts
    )
