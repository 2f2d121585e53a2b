"""The status of a stream: the worst of its state, its checks, its open incidents and its newest drill. Pure.

Pages, API, metrics and the command line all take it from here: a stream that one of them calls CRITICAL is CRITICAL in
all of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.drills.state import was_declined
from streamwarden.health.check_relations import DRILL, DRIVER_DOWN
from streamwarden.health.incidents.consequences import folded
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.shown_verdicts import overall
from streamwarden.health.verdict import ALARMS, Status, Verdict, worst_of

LACKING: Final = ("down", "broken", "unresponsive", "unseen", "ended")
"""States in which the stream should run and does not, or may not run."""
SILENT: Final = ("stopped", "new")
"""States in which nothing alarms: a person stopped the stream, or nobody has started it yet."""
SHOWN: Final = 3
"""Causes that are named at most."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One fact that gives a stream its status.

    Args:
        name: the state, a check, or `drill_NAME`.
        reason: one sentence; empty for a state, which the stream's own sentence explains.
    """

    status: Status
    name: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """The status of a stream, and what gives it that status: each name once; empty unless it is an alarm."""

    status: Status
    causes: tuple[Cause, ...] = ()


def standing(
    state: str,
    verdicts: Iterable[Verdict],
    incidents: Sequence[Incident],
    drill: DrillRun | None,
    *,
    declared: bool = True,
) -> Standing:
    """The worst of the four.

    Args:
        verdicts: as they may be shown now.
        incidents: the open ones, consequences included: a consequence may be worse than its cause.
        drill: the newest one that has ended.
        declared: False: it runs, and could not be restarted, because its file is gone or cannot be used.
    """
    given = tuple(verdicts)
    alarms = [Cause(verdict.status, verdict.check, verdict.reason) for verdict in given if verdict.status in ALARMS]
    found = [*_of_state(state, declared), *alarms]
    if state not in SILENT:
        found += [Cause(incident.status, incident.check, incident.reason) for incident in incidents]
        found += _of_drill(drill)
    level = worst_of((overall(given), *(cause.status for cause in found)))
    worst = {cause.name: cause for cause in reversed(found) if cause.status is level}
    roots = folded((*told_by(state), *reversed(worst)))
    causes = tuple(cause for name, cause in reversed(worst.items()) if name in roots and name not in told_by(state))
    return Standing(level, causes if level in ALARMS else ())


def told_by(state: str) -> tuple[str, ...]:
    """The check that would only repeat what the state says. What follows from it follows from the state."""
    return (DRIVER_DOWN,) if state in LACKING else ()


def _of_state(state: str, declared: bool) -> Iterator[Cause]:
    if not declared:
        yield Cause(Status.CRITICAL, "undeclared", "it runs, and could not be restarted")
    if state in LACKING:
        yield Cause(Status.CRITICAL, state)


def _of_drill(drill: DrillRun | None) -> Iterator[Cause]:
    """A drill that did not complete leaves open what a crash does; one that no person approved is a decision."""
    if drill is None or drill.passed or was_declined(drill):
        return
    status = Status.CRITICAL if drill.status is DrillStatus.COMPLETED else Status.WARNING
    yield Cause(status, f"{DRILL}{drill.drill}", f"the newest drill {verdict_word(drill)}: {drill.reason}")
