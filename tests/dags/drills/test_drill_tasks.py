"""The tasks of a drill: what is tried again, what a broken file leaves, what a run that a user ends still does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from streamwarden.airflow.dags import drills
from streamwarden.airflow.dags.drills import DrillReportOperator, DrillStepOperator, drill_dags
from streamwarden.airflow.links import drill_run_id
from streamwarden.drills.engine import Engine
from streamwarden.drills.records.journal import FORK_STEPS, DrillStep
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import ConfigError
from support.airflow.project import add_stream, make_project
from support.simulated.drill_specs import drill
from support.simulated.drill_world import Killed, World

STEPS = [step.value for step in FORK_STEPS]


class Space:
    """A workspace over a simulated world. `broken`: what is wrong with the drill's file."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = self
        self.journals = world.journals
        self.broken: ConfigError | None = None
        self.published: list[tuple[str, ...]] = []

    def drill_engine(self, **_: Any) -> Engine:
        return self.world.engine(*([] if self.broken else [drill()]))

    def drill(self, name: str) -> DrillSpec:
        if self.broken:
            raise self.broken
        return drill()

    def stream(self, name: str) -> Any:
        raise ConfigError("a stream without connections")


@pytest.fixture
def space(monkeypatch: pytest.MonkeyPatch) -> Space:
    space = Space(World())
    monkeypatch.setattr(drills, "workspace", lambda project: space)
    monkeypatch.setattr(drills, "published", lambda names: space.published.append(names) or nullcontext())
    return space


def execute(step: DrillStep, run: str = "manual__1") -> None:
    kind = DrillReportOperator if step is DrillStep.REPORT else DrillStepOperator
    kind(task_id=step.value, drill="kill_driver", project="/p", step=step.value).execute({"run_id": run})


def test_a_healing_that_failed_is_tried_again_and_no_other_step_is(space: Space) -> None:
    """AirflowFailException ends all tries."""
    space.world.clear_failures = 1
    for step in FORK_STEPS[:4]:
        execute(step)
    with pytest.raises(AirflowException, match="the broker does not answer") as failed:
        execute(DrillStep.HEAL)
    assert not isinstance(failed.value, AirflowFailException)
    execute(DrillStep.HEAL)
    execute(DrillStep.REPORT)
    assert space.world.cleared == 1


def test_a_file_that_breaks_in_the_middle_of_a_drill_keeps_no_step_of_it(space: Space) -> None:
    execute(DrillStep.STEADY_STATE)
    space.broken = ConfigError("fault.kind is 'kill_drivr'")
    for step in FORK_STEPS[1:]:
        execute(step)
    assert space.world.cleared == 1
    assert space.published == [(), *[("events", "warehouse")] * 5], "without its connections no topic is deleted"


def test_a_drill_whose_file_is_broken_begins_nothing_and_says_what_is_wrong(space: Space) -> None:
    space.broken = ConfigError("fault.kind is 'kill_drivr'")
    for step in FORK_STEPS:
        with pytest.raises(AirflowFailException, match="kill_drivr"):
            execute(step)
    assert space.journals.runs == {}


def test_the_first_task_heals_the_abandoned_run_before_it(space: Space) -> None:
    """Also if nothing can begin, for the file is broken."""
    space.world.die_at = "after_start"
    with pytest.raises(Killed):
        execute(DrillStep.STEADY_STATE)
    space.broken = ConfigError("broken")
    with pytest.raises(AirflowFailException):
        execute(DrillStep.FAULT, run="manual__2")
    assert space.world.cleared == 0, "the other tasks do not heal it"
    with pytest.raises(AirflowFailException):
        execute(DrillStep.STEADY_STATE, run="manual__2")
    assert space.world.cleared == 1
    assert space.world.drivers["d1"].exit is not None
    assert space.journals.runs[drill_run_id("kill_driver", "manual__1")].ended_at is not None


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = make_project(tmp_path / "project")
    add_stream(root, "counted")
    (root / "config/drills/kill.yaml").write_text("name: kill\nstream: counted\nfault: {kind: kill_driver}\n")
    (root / "config/drills/bad.yaml").write_text("name: bad\nstream: counted\nfault: {kind: kill_drivr}\n")
    return root


def test_a_broken_drill_keeps_its_tasks_so_that_a_run_of_it_is_healed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow takes the tasks that a DAG no longer has out of its runs."""
    monkeypatch.setenv("STREAMWARDEN_PROJECT", str(project))
    dags = drill_dags(str(project / "dags" / "drills.py"))
    assert [task.task_id for task in dags["drill_bad"].tasks] == STEPS
    assert dags["drill_bad"].tags >= {"broken-config"}
    assert "kill_drivr" in str(dags["drill_bad"].doc_md)
    for dag in dags.values():
        assert dag.get_task("heal").retries > dag.get_task("fault").retries


MARK = """
import json, sys
from airflow import models, settings
from airflow._shared.timezones import timezone
from airflow.api.common.mark_tasks import set_dag_run_state_to_failed, set_dag_run_state_to_success
from airflow.models.base import Base
from airflow.models.dagbundle import DagBundleModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from airflow.utils.db import synchronize_log_template
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from streamwarden.airflow.dags.drills import drill_dags

models.import_all_models()
Base.metadata.create_all(settings.engine)
mark = {"failed": set_dag_run_state_to_failed, "success": set_dag_run_state_to_success}[sys.argv[2]]
with create_session() as session:
    synchronize_log_template(session=session)
    session.add(DagBundleModel(name="one"))
    session.commit()
    lazy = LazyDeserializedDAG.from_dag(drill_dags(sys.argv[1])["drill_kill"])
    SerializedDAG.bulk_write_to_db("one", None, [lazy], session=session)
    SerializedDagModel.write_dag(lazy, bundle_name="one", session=session)
    session.commit()
    dag = SerializedDagModel.get_dag("drill_kill", session=session)
    now = timezone.utcnow()
    run = dag.create_dagrun(
        run_id="one", run_after=now, logical_date=now, data_interval=(now, now), run_type=DagRunType.MANUAL,
        triggered_by=DagRunTriggeredByType.TEST, state="running", session=session,
    )

    def put(task, state):
        run.get_task_instance(task, session=session).set_state(state, session=session)
        session.commit()

    put("steady_state", "success")
    put("fault", "running")
    mark(dag=dag, run_id="one", commit=True, session=session)
    session.commit()
    ran = []
    for _ in range(3):
        session.expire_all()
        run.dag = dag
        for task in run.update_state(session=session, execute_callbacks=False)[0]:
            ran.append(task.task_id)
            put(task.task_id, "failed" if task.task_id == "report" else "success")
    print("RESULT" + json.dumps({"ran": ran, "state": run.state}))
"""


@pytest.mark.parametrize("mark", ["failed", "success"])
def test_a_run_that_somebody_marks_is_healed_and_reported_all_the_same(
    project: Path, tmp_path: Path, mark: str
) -> None:
    """Airflow's own code marks the run while its fault is at work; the report, which fails, decides what it becomes."""
    env = {**os.environ, "STREAMWARDEN_PROJECT": str(project), "AIRFLOW_HOME": str(tmp_path / "airflow")}
    env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{tmp_path}/airflow.db"
    command = [sys.executable, "-c", MARK, str(project / "dags" / "drills.py"), mark]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    assert json.loads(line.removeprefix("RESULT")) == {"ran": ["heal", "report"], "state": "failed"}
