"""The status of a stream is the worst of its state, its checks, its open incidents and its newest drill."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status, Verdict
from streamwarden.services.overview.standing import standing

FINE = Verdict(stream="s", check="progress_stalled", status=Status.OK, at=1.0)
LATE = replace(FINE, check="backlog", status=Status.WARNING, reason="2m behind")
STALLED = replace(FINE, status=Status.CRITICAL, reason="nothing for 1h")
DOWN = replace(STALLED, check="driver_down")
INCIDENT = Incident(
    incident_id="i", stream="s", check="audit_balance", status=Status.WARNING, opened_at=1.0, updated_at=1.0, reason="?"
)
PASSED = DrillRun(
    run_id="r", drill="kill", stream="s", started_at=1.0, status=DrillStatus.COMPLETED, deviated=False, reason="12 lost"
)
LOST = replace(PASSED, deviated=True)


@pytest.mark.parametrize(
    ("state", "verdicts", "incidents", "drill", "status", "causes"),
    [
        ("running", [FINE], [], PASSED, Status.OK, ()),
        ("running", [FINE], [], None, Status.OK, ()),
        ("running", [], [], None, Status.UNKNOWN, ()),
        ("running", [FINE, LATE], [], PASSED, Status.WARNING, ("backlog",)),
        ("running", [FINE], [INCIDENT], None, Status.WARNING, ("audit_balance",)),
        ("running", [FINE, LATE], [replace(INCIDENT, check="backlog")], None, Status.WARNING, ("backlog",)),
        ("running", [FINE, LATE], [INCIDENT], LOST, Status.CRITICAL, ("drill_kill",)),
        ("running", [FINE], [], replace(LOST, deviated=None), Status.CRITICAL, ("drill_kill",)),
        ("running", [FINE], [], replace(LOST, status=DrillStatus.FAILED), Status.WARNING, ("drill_kill",)),
        ("down", [DOWN, STALLED], [], None, Status.CRITICAL, ("down",)),
        ("running", [replace(DOWN, check="restart_loop"), STALLED], [], None, Status.CRITICAL, ("restart_loop",)),
        ("running", [STALLED, LATE], [], None, Status.CRITICAL, ("progress_stalled",)),
        ("completed", [FINE], [], LOST, Status.CRITICAL, ("drill_kill",)),
        ("down", [FINE, LATE], [], PASSED, Status.CRITICAL, ("down",)),
        ("broken", [], [], LOST, Status.CRITICAL, ("broken", "drill_kill")),
        ("stopped", [FINE], [INCIDENT], LOST, Status.OK, ()),
        ("new", [], [], None, Status.UNKNOWN, ()),
    ],
)
def test_the_worst_fact_gives_the_status_and_is_named(
    state: str,
    verdicts: list[Verdict],
    incidents: list[Incident],
    drill: DrillRun | None,
    status: Status,
    causes: tuple[str, ...],
) -> None:
    found = standing(state, verdicts, incidents, drill)
    assert (found.status, tuple(cause.name for cause in found.causes)) == (status, causes)


def test_a_stream_that_runs_without_a_file_is_critical() -> None:
    found = standing("running", [FINE], [], None, declared=False)
    assert (found.status, found.causes[0].name) == (Status.CRITICAL, "undeclared")


def test_the_reason_of_a_drill_has_its_verdict() -> None:
    assert standing("running", [FINE], [], LOST).causes[0].reason == "the newest drill DEVIATED: 12 lost"
