"""The DAGs of audits: which streams have one, and what its task does with the result."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from streamwarden.airflow.dags.audits import audit_dags, run_audit
from support.airflow.project import add_stream, make_project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = make_project(tmp_path / "project")
    monkeypatch.setenv("STREAMWARDEN_PROJECT", str(root))
    monkeypatch.delenv("STREAMWARDEN_DATA", raising=False)
    path = add_stream(root, "counted")
    path.write_text(f'{path.read_text()}\naudit: {{schedule: "30 3 * * *", batches: 50}}\n')
    add_stream(root, "other")
    return root


def test_a_stream_with_a_schedule_has_a_dag_with_one_task(project: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(project / "dags"))
    assert bag.import_errors == {}
    assert {name for name in bag.dags if name.startswith("audit_")} == {"audit_counted"}
    dag = bag.dags["audit_counted"]
    assert [task.task_id for task in dag.tasks] == ["balance"]
    assert dag.max_active_runs == 1
    assert dag.timetable.expression == "30 3 * * *"


def test_an_audit_that_cannot_balance_is_skipped_and_leaves_its_document_and_a_note(
    project: Path, notes: dict[str, list[str]]
) -> None:
    context = {"task": audit_dags(str(project / "dags" / "a.py"))["audit_counted"].tasks[0], "ti": None}
    with pytest.raises(AirflowSkipException, match="no batch was committed yet"):
        run_audit("counted", str(project), context)
    (note,) = notes["run"]
    assert "no batch was committed yet" in note
    assert len(list((project / "var/audits/counted").glob("*.json"))) == 1
