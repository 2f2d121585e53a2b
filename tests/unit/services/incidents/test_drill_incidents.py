"""Which drills are incidents: those that did not pass, do not end, or did not run when they were due."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.drills.production import AllowedHours, ProductionSpec
from streamwarden.drills.records.codec import encode
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.records.sections import DrillTarget
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import ConfigError
from streamwarden.health.evaluations import Evaluator
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState
from streamwarden.services.incidents.drill_incidents import (
    GRACE,
    drill_verdict,
    due_and_missed,
    follow_drills,
    scheduled,
)
from streamwarden.services.monitoring.rounds import run_round
from streamwarden.services.workspace import Workspace
from support.simulated.drill_specs import fault_of

HOUR, DAY = 3600.0, 86400.0
MIDNIGHT = datetime(2026, 11, 23, tzinfo=UTC).timestamp()
SPEC = DrillSpec(name="kill", stream="orders", fault=fault_of("kill_driver"), schedule="@daily")
PASSED = DrillRun(
    run_id="kill-1",
    drill="kill",
    stream="orders",
    started_at=MIDNIGHT,
    ended_at=MIDNIGHT + 300,
    status=DrillStatus.COMPLETED,
    deviated=False,
    reason="0 lost",
)


def judged(*runs: DrillRun, at: float = MIDNIGHT + HOUR) -> Verdict:
    return drill_verdict(SPEC, runs, at)


def missed(*runs: DrillRun, at: float = MIDNIGHT + HOUR, since: float | None = MIDNIGHT - 7 * DAY) -> float | None:
    return due_and_missed(SPEC, runs, since, at)


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({}, Status.OK, "passed"),
        ({"deviated": True, "reason": "3 lost"}, Status.CRITICAL, "the drill kill deviated: 3 lost"),
        ({"status": DrillStatus.FAILED, "deviated": None}, Status.WARNING, "the drill kill failed"),
        ({"status": DrillStatus.ABORTED, "deviated": None}, Status.WARNING, "the drill kill was aborted"),
        ({"status": DrillStatus.FAILED, "deviated": True}, Status.CRITICAL, "the drill kill failed"),
    ],
)
def test_a_drill_that_did_not_pass_is_an_incident(changes: dict[str, Any], status: Status, said: str) -> None:
    verdict = judged(replace(PASSED, **changes))
    assert (verdict.stream, verdict.check, verdict.status) == ("orders", "drill_kill", status)
    assert said in verdict.reason


def test_the_newest_run_that_ended_counts() -> None:
    """While a new run is under way, the result of the one before it stays."""
    failed = replace(PASSED, deviated=True)
    running = replace(PASSED, run_id="kill-2", started_at=MIDNIGHT + 600, ended_at=None, status=DrillStatus.RUNNING)
    assert judged(running, failed).status is Status.CRITICAL
    assert judged(replace(running, ended_at=MIDNIGHT + 900, status=DrillStatus.COMPLETED), failed).status is Status.OK


def test_a_drill_that_does_not_end_is_an_incident() -> None:
    running = replace(PASSED, ended_at=None, status=DrillStatus.RUNNING)
    longest = 2 * SPEC.longest_step + GRACE
    assert judged(running, at=MIDNIGHT + longest).status is Status.OK
    verdict = judged(running, at=MIDNIGHT + longest + 1)
    assert verdict.status is Status.WARNING
    assert "has not ended" in verdict.reason


def test_a_drill_is_overdue_when_its_time_and_the_grace_have_passed_without_a_run() -> None:
    """Due at midnight: at 00:30 it may still begin, a second later it is overdue. A run resolves that."""
    yesterday = replace(PASSED, started_at=MIDNIGHT - DAY, ended_at=MIDNIGHT - DAY + 300)
    assert missed(yesterday, at=MIDNIGHT + GRACE) is None
    assert missed(yesterday, at=MIDNIGHT + GRACE + 1) == MIDNIGHT
    assert missed(PASSED, yesterday) is None


def test_a_drill_that_never_ran_counts_from_when_it_was_unpaused() -> None:
    """It was unpaused at one in the morning: the midnight before is no time at which it had to run."""
    assert missed(since=MIDNIGHT + HOUR, at=MIDNIGHT + 2 * HOUR) is None
    assert missed(since=MIDNIGHT + HOUR, at=MIDNIGHT + DAY + GRACE + 1) == MIDNIGHT + DAY


def test_a_drill_that_is_paused_or_has_no_schedule_is_never_overdue() -> None:
    assert missed(since=None, at=MIDNIGHT + 30 * DAY) is None
    assert due_and_missed(replace(SPEC, schedule=None), (), 0.0, MIDNIGHT + 30 * DAY) is None


def test_only_drills_that_airflow_runs_are_scheduled() -> None:
    """A DAG that Airflow does not know counts as paused."""
    drills = [
        SPEC,
        replace(SPEC, name="paused"),
        replace(SPEC, name="new"),
        replace(SPEC, name="manual", schedule=None),
    ]
    paused = {"drill_kill": False, "drill_paused": True, "drill_manual": False}
    assert scheduled(drills, paused.get) == {"kill": "@daily"}


def test_an_incident_of_a_drill_is_resolved_when_the_drill_passes(store: Store) -> None:
    store.journals.save(replace(PASSED, deviated=True, reason="3 lost"))
    follow_drills(store, {"kill": SPEC}, {}, MIDNIGHT + HOUR)
    follow_drills(store, {"kill": SPEC}, {}, MIDNIGHT + HOUR + 60)
    (incident,) = store.incidents.open("orders")
    assert (incident.status, incident.opened_at) == (Status.CRITICAL, MIDNIGHT + HOUR)
    store.journals.save(
        replace(PASSED, run_id="kill-2", started_at=MIDNIGHT + 2 * HOUR, ended_at=MIDNIGHT + 2.1 * HOUR)
    )
    follow_drills(store, {"kill": SPEC}, {}, MIDNIGHT + 3 * HOUR)
    assert store.incidents.open("orders") == ()


def test_the_drills_of_a_stream_that_was_stopped_on_purpose_are_silent(store: Store) -> None:
    store.journals.save(replace(PASSED, deviated=True))
    store.stops.set_desired(
        DesiredState(stream="orders", desired=Desired.STOPPED, changed_by="eve", reason="repair", changed_at=MIDNIGHT)
    )
    follow_drills(store, {"kill": SPEC}, {}, MIDNIGHT + HOUR)
    assert store.incidents.open() == ()


def test_a_drill_without_a_file_has_no_incident(store: Store) -> None:
    store.journals.save(replace(PASSED, deviated=True))
    follow_drills(store, {"kill": SPEC}, {}, MIDNIGHT + HOUR)
    follow_drills(store, {}, {}, MIDNIGHT + HOUR + 60)
    assert store.incidents.open() == ()


def test_the_incident_of_a_drill_whose_stream_has_no_file_stays_one_incident(space: Workspace) -> None:
    """The rounds neither resolve it nor open it again each minute."""
    space.store.journals.save(replace(PASSED, stream="gone", deviated=True))
    (space.project / "config/drills/kill.yaml").write_text("name: kill\nstream: gone\nfault: {kind: kill_driver}\n")
    for minute in range(3):
        run_round(space, Evaluator.WATCH, clock=lambda minute=minute: MIDNIGHT + 60 * minute)  # type: ignore[misc]
    assert len(space.store.incidents.recent()) == 1


def test_a_drill_that_ran_on_its_schedule_until_its_file_broke_is_an_incident(store: Store) -> None:
    """A file that a person is writing is not: it has never run."""
    broken = {"kill": ConfigError("unknown key"), "draft": ConfigError("empty")}
    store.journals.save(PASSED)
    store.drill_schedules.follow({"kill": "@daily"}, MIDNIGHT)
    follow_drills(store, {}, broken, MIDNIGHT + HOUR)
    (incident,) = store.incidents.open()
    assert incident.check == "drill_kill"
    assert "its file is broken: unknown key" in incident.reason


def test_overdue_drills_are_one_incident_of_their_stream_which_names_each(store: Store) -> None:
    """One never ran, the other ran yesterday: the incident ends when both have begun."""
    drills = {"kill": SPEC, "stop": replace(SPEC, name="stop")}
    store.drill_schedules.follow({"kill": "@daily", "stop": "@daily"}, MIDNIGHT - 2 * DAY)
    store.journals.save(replace(PASSED, started_at=MIDNIGHT - DAY, ended_at=MIDNIGHT - DAY + 300))
    follow_drills(store, drills, {}, MIDNIGHT + HOUR)
    (incident,) = store.incidents.open("orders")
    assert (incident.check, incident.status) == ("drill_overdue", Status.WARNING)
    assert incident.reason.startswith("no run began of 2 drills kill (due at 2026-11-23 00:00 UTC), stop (due at ")
    store.journals.save(replace(PASSED, run_id="stop-1", drill="stop"))
    follow_drills(store, drills, {}, MIDNIGHT + 2 * HOUR)
    assert "of the drill kill (due" in store.incidents.open("orders")[0].reason
    store.journals.save(replace(PASSED, run_id="kill-2"))
    follow_drills(store, drills, {}, MIDNIGHT + 3 * HOUR)
    assert store.incidents.open() == ()


def test_an_overdue_drill_does_not_hide_that_its_last_run_deviated(store: Store) -> None:
    store.drill_schedules.follow({"kill": "@daily"}, MIDNIGHT - 2 * DAY)
    store.journals.save(replace(PASSED, started_at=MIDNIGHT - DAY, ended_at=MIDNIGHT - DAY + 300, deviated=True))
    follow_drills(store, {"kill": SPEC}, {}, MIDNIGHT + HOUR)
    assert {(each.check, each.status) for each in store.incidents.open()} == {
        ("drill_kill", Status.CRITICAL),
        ("drill_overdue", Status.WARNING),
    }


def test_the_incident_of_an_overdue_drill_ends_with_the_drills_file(store: Store) -> None:
    store.drill_schedules.follow({"kill": "@daily"}, MIDNIGHT - 2 * DAY)
    follow_drills(store, {"kill": SPEC}, {}, MIDNIGHT + HOUR)
    assert len(store.incidents.open()) == 1
    follow_drills(store, {}, {}, MIDNIGHT + 2 * HOUR)
    assert store.incidents.open() == ()


def test_a_drill_that_a_person_did_not_approve_is_no_incident() -> None:
    """It is a decision. Negative control: one that was aborted for another reason is."""
    halt = {"status": "aborted", "step": "approval", "reason": "ada rejected the drill"}
    approval = {"asked_at": MIDNIGHT, "until": MIDNIGHT + HOUR, "granted": False, "by": "ada", "at": MIDNIGHT + 60}
    facts = {"drill": encode(SPEC), "halt": halt, "approval": approval}
    declined = replace(PASSED, status=DrillStatus.ABORTED, deviated=None, reason="ada rejected the drill", facts=facts)
    assert judged(declined).status is Status.OK
    granted = {**facts, "approval": {**approval, "granted": True}}
    assert judged(replace(declined, facts=granted)).status is Status.WARNING


def test_a_run_that_waits_for_a_person_is_not_late() -> None:
    """Negative control: a drill on a fork that began as long ago is."""
    hours = AllowedHours(start="00:00", end="24:00")
    asks = replace(
        SPEC, target=DrillTarget.PRODUCTION, production=ProductionSpec(allowed_hours=hours, approval_within=DAY)
    )
    waiting = replace(PASSED, status=DrillStatus.RUNNING, deviated=None, ended_at=None)
    assert drill_verdict(asks, (waiting,), MIDNIGHT + 20 * HOUR).status is Status.OK
    assert drill_verdict(SPEC, (waiting,), MIDNIGHT + 20 * HOUR).status is Status.WARNING
