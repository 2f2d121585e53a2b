"""Hysteresis for values that each evaluation measures once: a value near a threshold does not make its verdict flap.

The statuses that the newest evaluations measured pass from verdict to verdict in the evidence. `settle` does the same
for checks that judge each batch or sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from streamwarden.health.check import Check
from streamwarden.health.signals.hysteresis import RAISE, RECENT
from streamwarden.health.verdict import ALARMS, Status, Verdict
from streamwarden.health.window import Window

APART: Final = 30.0
"""Seconds between two evaluations that count: a person may run the checks as often as they like."""
LONGEST_PAUSE: Final = 600.0
"""Seconds without an evaluation after which the earlier ones no longer count."""

LOWER_AFTER: Final = 10
"""Evaluations in a row that lower a status. A value that swings around its threshold is below it five times in a row
every hour, and thirteen times (the last three resolve the incident) once in some weeks."""

_KEY: Final = "measured"


@dataclass(frozen=True, slots=True)
class _Memory:
    """Memory of earlier evaluations; it passes from verdict to verdict.

    Args:
        query_id: a new query (a new checkpoint) is a new beginning.
        held: the status that the last one of them gave; None before the first.
        measured: (Unix seconds, status that was measured), oldest first.
    """

    query_id: str
    held: Status | None = None
    measured: tuple[tuple[float, Status], ...] = ()

    def evidence(self) -> dict[str, object]:
        return {
            "query_id": self.query_id,
            "held": self.held,
            "statuses": [[at, status.value] for at, status in self.measured],
        }


def steady(check: Check, window: Window, verdict: Verdict) -> Verdict:
    """`verdict`, raised and lowered only after several evaluations agree.

    An alarm is raised when `check.raise_after` of the five newest evaluations reach it, and lowered when ten in a row
    are below it. Until it is raised, the verdict is UNKNOWN. Until three evaluations are known, the newest one counts.
    A verdict that is UNKNOWN itself stays so, and counts as one without an alarm.
    """
    if check.raise_after is None:
        return verdict
    memory = _remembered(check, window)
    apart = [sample for sample in memory.measured if window.now - sample[0] >= APART]
    measured = [*apart, (window.now, verdict.status)][-LOWER_AFTER:]
    level = settled(memory.held, [status for _, status in measured], check.raise_after)
    if len(apart) == len(memory.measured):  # one that follows another too closely is judged, but not remembered
        memory = replace(memory, held=level, measured=tuple(measured))
    remembered = replace(verdict, evidence={**verdict.evidence, _KEY: memory.evidence()})
    if verdict.status is Status.UNKNOWN or level is verdict.status:
        return remembered
    if level is Status.OK:
        why = f"{verdict.status} needs {check.raise_after} of the {RECENT} newest evaluations"
        return replace(remembered, status=Status.UNKNOWN, reason=f"{verdict.reason}; not raised yet: {why}", advice="")
    why = f"held at {level} until {LOWER_AFTER} evaluations in a row are below it"
    if level.rank < verdict.status.rank:
        why = f"{verdict.status} needs {check.raise_after} of the {RECENT} newest evaluations"
    return replace(remembered, status=level, reason=f"{verdict.reason}; {why}", advice=verdict.advice or check.advice)


def settled(held: Status | None, statuses: Sequence[Status], raise_after: int) -> Status:
    """The alarm after these measurements, oldest first and not empty; OK for none. `held`: the result after all but the
    newest of them."""
    alarms = [status if status in ALARMS else Status.OK for status in statuses]
    if held is None or len(alarms) < RAISE:
        return alarms[-1]
    raised = sorted(alarms[-RECENT:], key=attrgetter("rank"), reverse=True)[raise_after - 1]
    highest = max(alarms[-LOWER_AFTER:], key=attrgetter("rank"))
    if raised.rank > held.rank:
        return raised
    return highest if len(alarms) >= LOWER_AFTER and highest.rank < held.rank else held


def _remembered(check: Check, window: Window) -> _Memory:
    """The memory of the same query, or an empty one."""
    query = (window.log.query_id if window.log is not None else None) or ""
    before = window.previous.get(check.name)
    kept = before.evidence.get(_KEY) if before is not None else None
    try:
        measured = tuple((float(at), Status(status)) for at, status in kept["statuses"])  # type: ignore[index]
        memory = _Memory(kept["query_id"], kept["held"] and Status(kept["held"]), measured)  # type: ignore[index]
    except (KeyError, TypeError, ValueError):  # there is none, or another version wrote it
        return _Memory(query)
    recent = bool(measured) and window.now - measured[-1][0] <= LONGEST_PAUSE
    return memory if recent and memory.query_id == query else _Memory(query)
