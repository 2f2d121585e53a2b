"""What Airflow's grid shows for a stream that runs, waits for a restart, is stopped, is down, or is complete.

The store, the operators and Airflow's rules for the state of a run are real; no component of Airflow runs.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    DownstreamTasksSkipped,
    TaskDeferred,
)
from airflow.triggers.base import BaseTrigger

from streamwarden.airflow import notes as notes_module
from streamwarden.airflow import operators
from streamwarden.airflow.operators import StoppedOperator, StreamOperator
from streamwarden.airflow.triggers import DriverTrigger, StandbyTrigger, StoppedTrigger
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.supervisor import Launch
from streamwarden.services.fleet.starting import Starter
from streamwarden.services.workspace import Workspace
from support.airflow.database import run_with_database
from support.airflow.project import add_stream, living_driver, make_project

Notes = dict[str, list[str]]


def driver(space: Workspace, driver_id: str, ended: ExitKind | None = None, **exit: Any) -> DriverRecord:
    """A driver that lives (this very process stands for it), or that has ended like this."""
    record = living_driver(space, driver_id)
    if ended is not None:
        space.store.drivers.exited(driver_id, ExitRecord(kind=ended, ended_at=time.time(), **exit))
    return record


def run(space: Workspace, event: dict[str, Any] | None = None) -> BaseTrigger:
    """One try of the task `run`, or its return from a trigger; the trigger that it waits for. Raises what it raises."""
    with pytest.raises(TaskDeferred) as deferred:
        attempt(space, event)
    return deferred.value.trigger


def attempt(space: Workspace, event: dict[str, Any] | None = None) -> None:
    ti = SimpleNamespace(dag_id="stream_counted", run_id="r", task_id="run", try_number=1)
    context = {"ti": ti, "dag_run": SimpleNamespace(start_date=datetime.fromtimestamp(time.time() - 60, UTC))}
    operator = StreamOperator(task_id="run", stream="counted", project=str(space.project))
    operator.execute(context) if event is None else operator.resume(context, event)


def test_a_stream_that_runs_is_deferred_without_a_note(space: Workspace, notes: Notes) -> None:
    driver(space, "counted-1")
    assert isinstance(run(space), DriverTrigger)
    assert notes == {"task": [], "run": []}


def test_a_stream_whose_file_is_broken_meanwhile_is_followed(space: Workspace) -> None:
    """A person edits the file and clears the task: the driver that lives goes on."""
    driver(space, "counted-1")
    file = space.project / "config" / "streams" / "counted.yaml"
    file.write_text(f"{file.read_text()}bogus: 1\n")
    trigger = run(space)
    assert isinstance(trigger, DriverTrigger)
    assert trigger.driver_id == "counted-1"


def test_a_stream_that_waits_for_its_restart_says_so_in_a_note(space: Workspace, notes: Notes) -> None:
    """It is deferred as a running stream is; the mark of the note on its cell is the difference."""
    driver(space, "counted-1", ExitKind.KILLED, signal=9)
    assert isinstance(run(space), StandbyTrigger)
    (note,) = notes["task"]
    assert note.startswith("DOWN until ")
    assert "killed by signal 9" in note


def test_a_back_off_leaves_no_note_when_the_stream_runs_again(space: Workspace, notes: Notes) -> None:
    """A person starts the stream from a shell during the back-off: nothing is wrong with the task any more."""
    driver(space, "counted-1", ExitKind.KILLED, signal=9)
    run(space)
    driver(space, "counted-2")
    assert isinstance(run(space, {"resume": "wanted running by ann: now"}), DriverTrigger)
    assert notes["task"][-1] == ""


def test_a_restart_is_a_note_on_the_run(space: Workspace, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream runs, so its task has none; that its driver was killed at night is not lost."""
    driver(space, "counted-1", ExitKind.KILLED, signal=9, committed=True)
    order = SimpleNamespace(spec=space.stream("counted"), command=[], env={})
    monkeypatch.setattr(operators, "submission", lambda *_: order)
    launched = SimpleNamespace(record=driver(space, "counted-2"), reattached=False)
    monkeypatch.setattr(Starter, "start", lambda *_, **__: launched)
    monkeypatch.setattr(operators, "next_move", lambda *_, **__: Launch(reason="killed by signal 9", attempt=1))
    assert isinstance(run(space, {"driver_id": "counted-1"}), DriverTrigger)
    assert notes["task"] == []
    (note,) = notes["run"]
    assert note.startswith("Restarted at ")
    assert note.endswith("attempt 1. The driver before ended: killed by signal 9")


def test_a_stopped_stream_is_skipped_and_its_other_task_waits(space: Workspace, notes: Notes) -> None:
    """Neither red, as a stream that is down, nor a success, as one that is complete."""
    driver(space, "counted-1", ExitKind.STOPPED)
    space.fleet.request_stop("counted", requested_by="ann", reason="moving the data")
    with pytest.raises(AirflowSkipException, match="stopped by ann: moving the data"):
        run(space, {"driver_id": "counted-1"})
    assert isinstance(wait_stopped(space), StoppedTrigger)
    (note,) = notes["task"]
    assert "stopped by ann" in note
    assert "moving the data" in note
    assert "`streamwarden start counted`" in note


def test_a_stream_that_was_started_meanwhile_is_not_waited_for(space: Workspace) -> None:
    """Between the two tasks a person starts the stream: the run ends, and the next one launches a driver."""
    space.fleet.set_running("counted", "ann", "moved")
    with pytest.raises(AirflowSkipException, match="next run"):
        wait_stopped(space)


def wait_stopped(space: Workspace) -> BaseTrigger:
    """The task `stopped`; the trigger that it waits for."""
    ti = SimpleNamespace(dag_id="stream_counted", run_id="r", task_id="stopped", try_number=1)
    with pytest.raises(TaskDeferred) as deferred:
        StoppedOperator(task_id="stopped", stream="counted", project=str(space.project)).execute({"ti": ti})
    return deferred.value.trigger


def test_a_stream_that_stays_down_fails_with_the_next_step_in_its_note(space: Workspace, notes: Notes) -> None:
    driver(space, "counted-1", ExitKind.FAILED, message="no column `price`", curable=False, next_step="correct the job")
    with pytest.raises(AirflowFailException, match="stays down"):
        run(space)
    (note,) = notes["task"]
    assert note.startswith("DOWN: ")
    assert note.endswith("next: correct the job")


def test_a_stream_that_is_complete_skips_the_task_of_a_stopped_one(space: Workspace, notes: Notes) -> None:
    driver(space, "counted-1", ExitKind.COMPLETED)
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        run(space, {"driver_id": "counted-1"})
    assert skipped.value.tasks == ["stopped"]
    assert notes == {"task": [], "run": []}


def test_a_note_that_airflow_refuses_stops_no_stream(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes_module, "annotate", lambda ti, note, **_: "the API answered 403")
    driver(space, "counted-1", ExitKind.KILLED, signal=9)
    assert isinstance(run(space), StandbyTrigger)


OUTCOMES = """
from datetime import datetime, timezone
from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.utils.types import DagRunTriggeredByType, DagRunType
result = {}
for outcome in ("deferred", "skipped", "failed", "success"):
    with create_session() as session:
        dag = DBDagBag().get_latest_version_of_dag("stream_counted", session=session)
        now = datetime.now(timezone.utc)
        run = dag.create_dagrun(
            run_id=outcome, logical_date=None, run_after=now, run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST, state="running", session=session,
        )
        tasks = {task.task_id: task for task in run.get_task_instances(session=session)}
        tasks["run"].state = outcome
        if outcome == "success":
            tasks["stopped"].state = "skipped"
        session.flush()
        due = []
        for _ in range(2):  # as the scheduler does, until nothing changes
            due = [task.task_id for task in run.update_state(session=session)[0]]
        result[outcome] = {"run": str(run.state), "stopped": tasks["stopped"].state, "due": due}
"""


def test_a_stopped_stream_is_not_red_and_one_that_is_down_is(tmp_path: Path) -> None:
    """The state of the whole run, and what is scheduled next, by the state in which the task `run` ended."""
    project = make_project(tmp_path / "project")
    add_stream(project, "counted")
    (tmp_path / "airflow").mkdir()
    seen = run_with_database(OUTCOMES, tmp_path / "airflow", project)
    assert seen["deferred"] == {"run": "running", "stopped": None, "due": []}
    assert seen["skipped"] == {"run": "running", "stopped": None, "due": ["stopped"]}
    assert seen["failed"] == {"run": "failed", "stopped": "upstream_failed", "due": []}
    assert seen["success"] == {"run": "success", "stopped": "skipped", "due": []}


def test_a_refused_launch_stays_down_and_is_not_repeated(space: Workspace, notes: Notes) -> None:
    """The output has batches that no checkpoint has planned: a retry of the task launches nothing."""
    folder = Path(str(space.stream("counted").sink.path), "_spark_metadata")
    folder.mkdir(parents=True)
    (folder / "3").write_text("v1")
    for _ in range(2):
        with pytest.raises(AirflowFailException, match="has batches up to 3"):
            attempt(space)
    (driver_record,) = space.store.drivers.history("counted", 0.0)
    assert driver_record.exit is not None
    assert driver_record.exit.cause == "launch_refused"
    (incident,) = space.store.incidents.open("counted")
    assert "--begin-anew REASON" in incident.advice
    assert any("has batches up to 3" in note for note in notes["task"])
