"""Hysteresis: turns a series of observations into one status that neither follows a single value nor flaps.

A pure function of the series: it replays the last 20 observations, so no state is kept between two evaluations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.health.check import Check, Thresholds
from streamwarden.health.signals.freshness import still_holds
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window

MEMORY: Final = 20
"""Observations that are replayed: a status that is held was reached within them."""
RECENT: Final = 5
RAISE: Final = 3
"""A status is raised when 3 of the 5 newest observations reach it and lowered when all 5 are below it."""

_GRADES: Final = (Status.OK, Status.WARNING, Status.CRITICAL)
_RANK: Final = {status: rank for rank, status in enumerate(_GRADES)}


@dataclass(frozen=True, slots=True)
class SettledStatus:
    """Args:
    status: None while there are too few observations for an alarm and not all of them are good.
    value: the judged number: the third largest of the five newest (all of them, if fewer).
    held: the status is worse than `value` alone would give, until five observations in a row are below it.
    """

    status: Status | None
    value: float
    held: bool


def settle(values: Sequence[float], grade: Callable[[float], Status]) -> SettledStatus:
    """Replay `values` (not empty, oldest first; larger is worse).

    The first one or two observations never alarm: they are OK if good, otherwise undecided (None).
    """
    values = values[-MEMORY:]
    newest = sorted(values[-RECENT:])
    judged = newest[-RAISE] if len(newest) >= RAISE else newest[-1]
    if grade(max(values)) is Status.OK:
        return SettledStatus(Status.OK, judged, False)
    ranks = [_RANK[grade(value)] for value in values]
    now: int | None = None
    for end in range(1, len(ranks) + 1):
        recent = sorted(ranks[max(0, end - RECENT) : end])
        if len(recent) < RAISE:
            now = 0 if recent[-1] == 0 else None
        elif now is None or recent[-RAISE] > now:
            now = recent[-RAISE]
        elif len(recent) == RECENT and recent[-1] < now:
            now = recent[-1]
    if now is None:
        return SettledStatus(None, judged, False)
    return SettledStatus(_GRADES[now], judged, now > _RANK[grade(judged)])


def judge_series(
    check: Check,
    window: Window,
    thresholds: Thresholds,
    observations: Sequence[tuple[int | float, float]],
    *,
    what: str,
    where: str = "batch",
    evidence: dict[str, object] | None = None,
    lasting: bool = False,
) -> Verdict:
    """The verdict on `observations`, pairs of (batch id or Unix time, value), oldest first and not empty.

    Args:
        what: the quantity, as the subject of the reason's sentence.
        where: what the first number of a pair is, for the evidence.
        lasting: the newest value is valid until the next commit (a size), or was measured now. Any other value
            describes past batches: while work waits and none is committed, it is out of date, and the verdict is
            UNKNOWN instead of OK.
    """
    limits = thresholds.of(check.name)
    values = [value for _, value in observations]
    settled = settle(values, check.grader(limits))
    latest_at, latest = observations[-1]
    proof: dict[str, object] = {
        "observations": len(observations),
        f"first_{where}": observations[0][0],
        f"latest_{where}": latest_at,
        "latest": latest,
        "recent": values[-RECENT:],
        **(evidence or {}),
    }
    if settled.status is None:
        reason = f"{what} {check.shown(latest, limits)}; measured only {len(values)} time(s), an alarm needs {RAISE}"
        return check.verdict(window, Status.UNKNOWN, reason, settled.value, proof)
    reason = f"{what} {check.shown(settled.value, limits)} ({check.limits_text(limits)})"
    if settled.held:
        reason += f"; held at {settled.status} until {RECENT} observations in a row are below it"
    verdict = check.verdict(window, settled.status, reason, settled.value, proof)
    return verdict if lasting else still_holds(window, thresholds, verdict)
