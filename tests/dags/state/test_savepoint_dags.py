"""The DAGs of savepoints: which streams have one, what the form asks for, and what the tasks do with the result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from streamwarden.airflow.dags.state import savepoints
from streamwarden.airflow.dags.state.dags import state_dags
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec
from support.airflow.project import add_stream, make_project
from support.checkpoints.recorded import Archives, stream_of


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = make_project(tmp_path / "project")
    monkeypatch.setenv("STREAMWARDEN_PROJECT", str(root))
    monkeypatch.delenv("STREAMWARDEN_DATA", raising=False)
    path = add_stream(root, "counted")
    path.write_text(f'{path.read_text()}\nsavepoints: {{schedule: "30 3 * * *", keep: 2}}\n')
    path = add_stream(root, "other")
    path.write_text(f"{path.read_text()}\nqueries: {{one: checkpoints/one, two: checkpoints/two}}\n")
    return root


@pytest.fixture
def saved(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamSpec:
    """The stream with a checkpoint that a real Spark wrote."""
    Archives(tmp_path / "archives").unpack("spark-4.3.0-changelog", tmp_path / "origin")
    recorded = stream_of(tmp_path / "origin", files=0)
    spec = replace(recorded, name="counted", data=str(tmp_path / "data"))
    monkeypatch.setattr(Workspace, "queries", lambda self, stream: (spec,))
    monkeypatch.setattr(Workspace, "query", lambda self, stream: spec)
    return spec


def context_of(project: Path, dag: str, **params: Any) -> dict[str, Any]:
    file = str(project / "dags" / "a.py")
    task = (savepoints.savepoint_dags(file) | state_dags(file))[dag].tasks[0]
    run = SimpleNamespace(triggering_user_name="ann")
    return {"task": task, "ti": None, "params": params, "dag_run": run}


def test_a_stream_with_a_schedule_has_a_dag_and_a_person_has_a_form(project: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(project / "dags"))
    assert bag.import_errors == {}
    assert {name for name in bag.dags if "savepoint" in name} == {
        "savepoint_counted",
        "create_savepoint",
        "verify_savepoint",
    }
    dag, form = bag.dags["savepoint_counted"], bag.dags["create_savepoint"]
    assert dag.timetable.expression == "30 3 * * *"
    assert (dag.max_active_runs, [task.task_id for task in dag.tasks]) == (1, ["take"])
    assert form.params.get_param("stream").schema["enum"] == ["counted", "other/one", "other/two"]
    assert not form.params.get_param("stream").has_value
    assert form.params["batch"] is None


def test_a_savepoint_that_is_due_is_taken_and_without_a_new_batch_the_task_is_skipped(
    project: Path, saved: StreamSpec, notes: dict[str, list[str]]
) -> None:
    context = context_of(project, "savepoint_counted")
    savepoints.take_all("counted", str(project), context)
    taken = Savepoints.of(saved).get()
    assert (taken.by, taken.scheduled) == ("savepoint_counted (Airflow)", True)
    assert notes["run"] == [f"{taken.id} has batch {taken.batch}"]
    with pytest.raises(AirflowSkipException, match="has the newest batch"):
        savepoints.take_all("counted", str(project), context)


def test_a_savepoint_that_cannot_be_taken_is_a_failed_task_with_all_four_parts(
    project: Path, notes: dict[str, list[str]]
) -> None:
    """The stream has no checkpoint yet. One query that fails keeps no other from its savepoint."""
    with pytest.raises(AirflowException, match=r"no batch is committed yet.*expected.*next: wait") as failed:
        savepoints.take_all("other", str(project), context_of(project, "savepoint_counted"))
    assert all(query in str(failed.value) for query in ("other/one: ", "other/two: "))
    assert notes["run"] == [str(failed.value)]


def test_a_person_takes_one_by_hand(project: Path, saved: StreamSpec, notes: dict[str, list[str]]) -> None:
    context = context_of(project, "create_savepoint", stream="counted", batch=10, reason="before the upgrade")
    context["task"].execute(context)
    taken = Savepoints.of(saved).get()
    assert (taken.batch, taken.by, taken.reason, taken.scheduled) == (
        10,
        "ann (Airflow)",
        "before the upgrade",
        False,
    )
    context = context_of(project, "create_savepoint", stream="counted", batch=99, reason="x")
    with pytest.raises(AirflowFailException, match="batch 99"):
        context["task"].execute(context)
    assert notes["run"] == [f"{taken.id} has batch 10"]
