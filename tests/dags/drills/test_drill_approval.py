"""The DAG of a drill on a live stream: who is asked, when, and what becomes of the run without an approval."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import TriggerRule
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from streamwarden.airflow.dags import approvals, drills
from streamwarden.airflow.dags.approvals import DrillApprovalOperator, answer_of
from streamwarden.airflow.dags.drills import DrillReportOperator, DrillStepOperator, drill_dags
from streamwarden.airflow.links import drill_run_id
from streamwarden.drills.engine import Engine
from streamwarden.drills.records.journal import PRODUCTION_STEPS, DrillRun, DrillStatus, DrillStep
from streamwarden.drills.spec import DrillSpec
from streamwarden.drills.state import RunState
from support.airflow.project import add_stream, make_project
from support.simulated.drill_live import live_drill, live_world
from support.simulated.drill_world import World

ASKED = "manual__1"
RUN = drill_run_id("kill_driver", ASKED)


class Space:
    """A workspace over a simulated live stream."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = self
        self.journals = world.journals

    def drill_engine(self, **_: Any) -> Engine:
        return self.world.engine(live_drill())

    def drill(self, name: str) -> DrillSpec:
        return live_drill()

    def stream(self, name: str) -> Any:
        return self.world.streams.declared(name)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    space = Space(live_world())
    for module in (drills, approvals):
        monkeypatch.setattr(module, "workspace", lambda project: space)
    monkeypatch.setattr(drills, "published", lambda names: nullcontext())
    # What waits, and what skips the tasks after a rejection, is Airflow's own.
    monkeypatch.setattr(ApprovalOperator, "execute", lambda self, context: None)
    monkeypatch.setattr(ApprovalOperator, "execute_complete", lambda self, context, event: event)
    return space.world


def execute(step: DrillStep) -> None:
    kind = DrillReportOperator if step is DrillStep.REPORT else DrillStepOperator
    kind(task_id=step.value, drill="kill_driver", project="/p", step=step.value).execute({"run_id": ASKED})


def operator() -> DrillApprovalOperator:
    return DrillApprovalOperator(task_id="approval", drill=live_drill(), project="/p")


def event(option: str, world: World, **more: Any) -> dict[str, Any]:
    """As Airflow resumes the task."""
    return {
        "chosen_options": [option],
        "params_input": {},
        "responded_at": datetime.fromtimestamp(world.time + 60, UTC),
        "responded_by_user": {"id": "7", "name": "ada"},
        **more,
    }


def stored(world: World) -> DrillRun:
    run = world.journals.get(RUN)
    assert run is not None
    return run


def test_a_person_approves_and_the_journal_names_them(world: World) -> None:
    execute(DrillStep.PREFLIGHT)
    task = operator()
    task.execute({"run_id": ASKED})
    assert task.subject == "Hit the live stream flights with kill_driver?"
    assert "An answer counts until" in str(task.body)
    assert task.response_timeout == timedelta(seconds=1), "the clock of the simulated world is in the past"
    task.execute_complete({"run_id": ASKED}, event("Approve", world))
    for step in PRODUCTION_STEPS[2:]:
        execute(step)
    state = RunState.of(stored(world))
    assert stored(world).passed
    assert state.approval is not None
    assert state.approval.by == "ada (7)"
    assert state.approval.at == pytest.approx(state.approval.asked_at + 60)


@pytest.mark.parametrize("answered", ["rejected", "too late", "not at all"])
def test_a_run_without_an_approval_is_aborted_and_its_dag_run_is_not_red(world: World, answered: str) -> None:
    execute(DrillStep.PREFLIGHT)
    task = operator()
    task.execute({"run_id": ASKED})
    if answered == "not at all":
        with pytest.raises(AirflowSkipException, match="nobody approved the drill in time"):
            task.execute_complete({"run_id": ASKED}, {"error": "time is up", "error_type": "timeout"})
    else:
        late = {"responded_at": datetime.fromtimestamp(world.time + 5 * 3600, UTC)} if answered == "too late" else {}
        option = "Approve" if answered == "too late" else "Reject"
        task.execute_complete({"run_id": ASKED}, event(option, world, **late))
    for step in PRODUCTION_STEPS[2:-2]:
        with pytest.raises(AirflowSkipException):
            execute(step)
    execute(DrillStep.HEAL)
    execute(DrillStep.REPORT)  # does not fail: a decision is no failure
    assert stored(world).status is DrillStatus.ABORTED
    assert world.signals == []


def test_a_refused_drill_asks_nobody_and_its_dag_run_is_red(world: World) -> None:
    world.streams.stopped = True
    with pytest.raises(AirflowFailException, match="was stopped by a person"):
        execute(DrillStep.PREFLIGHT)
    with pytest.raises(AirflowSkipException, match="nothing to approve"):
        operator().execute({"run_id": ASKED})
    for step in PRODUCTION_STEPS[2:-2]:
        with pytest.raises(AirflowSkipException):
            execute(step)
    execute(DrillStep.HEAL)
    with pytest.raises(AirflowFailException, match="was stopped by a person"):
        execute(DrillStep.REPORT)


def test_who_answered_is_what_airflow_says() -> None:
    at = datetime(2026, 11, 23, tzinfo=UTC)
    given = {"chosen_options": ["Approve"], "responded_at": at, "responded_by_user": {"id": "admin", "name": "admin"}}
    answer = answer_of(given)
    assert answer is not None
    assert (answer.approved, answer.by, answer.at) == (True, "admin", at.timestamp())
    assert answer_of({**given, "responded_by_user": None}) is None, "a default that Airflow chose is nobody's answer"
    rejected = answer_of({**given, "chosen_options": ["Reject"]})
    assert rejected is not None
    assert not rejected.approved


LIVE = """
name: live
stream: counted
fault: {kind: kill_driver}
target: production
production:
  allowed_hours: {start: "09:00", end: "16:00"}
  approval_within: 2h
  approvers: [ada, "7"]
"""


def test_the_dag_asks_after_the_preflight_and_before_the_strike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "project")
    add_stream(project, "counted")
    (project / "config/drills/live.yaml").write_text(LIVE)
    monkeypatch.setenv("STREAMWARDEN_PROJECT", str(project))
    dag = drill_dags(str(project / "dags" / "drills.py"))["drill_live"]
    assert [task.task_id for task in dag.topological_sort()] == [step.value for step in PRODUCTION_STEPS]
    asked = dag.get_task("approval")
    assert isinstance(asked, ApprovalOperator)
    assert asked.upstream_task_ids == {"preflight"}
    assert asked.downstream_task_ids == {"steady_state"}
    assert asked.response_timeout == timedelta(hours=2)
    assert asked.execution_timeout is None
    assert asked.trigger_rule is TriggerRule.ALL_DONE
    assert [user["id"] for user in asked.assigned_users or []] == ["ada", "7"]
    assert operator().assigned_users is None, "every user whom Airflow lets answer"
    assert not asked.fail_on_reject
    assert "the live stream **counted**" in str(dag.doc_md)
