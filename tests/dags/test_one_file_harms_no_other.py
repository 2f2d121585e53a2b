"""What a file that a user copies, names badly or breaks does to the DAGs of the other files: nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamwarden.airflow.dags import docs
from streamwarden.airflow.dags.drills import drill_dags
from streamwarden.airflow.dags.streams import BROKEN, TASK_ID, stream_dags
from streamwarden.airflow.operators import STOPPED
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.streams.launches import launch

DRILL = "name: kill_driver\nstream: counted\nfault: {kind: kill_driver}\n"


@pytest.fixture
def dags(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Any]]:
    """Reads both DAG files, as Airflow's processor does; DAG id -> DAG."""
    monkeypatch.setenv("STREAMWARDEN_PROJECT", str(space.project))

    def read() -> dict[str, Any]:
        folder = space.project / "dags"
        return {**stream_dags(str(folder / "streams.py")), **drill_dags(str(folder / "drills.py"))}

    return read


@pytest.mark.parametrize("ended", [False, True], ids=["running", "stopped"])
def test_a_copied_file_leaves_the_original_built_and_supervised(
    space: Workspace, dags: Callable[[], dict[str, Any]], ended: bool
) -> None:
    launch(space.store, space.data, space.stream("counted"), ended=ended)
    original = space.project / "config/streams/counted.yaml"
    copy = original.read_text().replace("name: counted", "name: a_copy")
    (space.project / "config/streams/a_copy.yaml").write_text(copy)

    found = dags()
    assert BROKEN not in found["stream_counted"].tags
    assert BROKEN in found["stream_a_copy"].tags
    assert "which owns it" in found["stream_a_copy"].doc_md
    assert [task.task_id for task in found["stream_counted"].tasks] == [TASK_ID, STOPPED]

    report = space.health_monitor().evaluate(space.catalog().streams.values(), time.time())
    assert list(report.streams) == ["counted"], "its checks still run"


@pytest.mark.parametrize("name", ["x" * 239, "kill driver", "counted.old", "Ä"])
def test_a_file_with_a_bad_name_has_a_dag_of_its_own_and_replaces_no_other(
    space: Workspace, dags: Callable[[], dict[str, Any]], name: str
) -> None:
    (space.project / "config/streams" / f"{name}.yaml").write_text("what: is this\n")
    (space.project / "config/drills/kill_driver.yaml").write_text(DRILL)
    (space.project / "config/drills" / f"{name}.yaml").write_text(DRILL)
    found = dags()
    assert BROKEN not in found["stream_counted"].tags | found["drill_kill_driver"].tags
    broken = [dag for dag in found.values() if BROKEN in dag.tags]
    assert sorted(dag.dag_id.partition("_")[0] for dag in broken) == ["drill", "stream"]
    assert all(f"/{name}.yaml" in str(dag.doc_md) for dag in broken)


def test_a_dag_that_cannot_be_built_is_shown_as_broken_and_the_others_are_built(
    space: Workspace, dags: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_stream(space.project, "other")
    (space.project / "config/drills/kill_driver.yaml").write_text(DRILL)
    (space.project / "config/drills/another.yaml").write_text(DRILL.replace("kill_driver\nstream", "another\nstream"))
    described = docs.stream_doc

    def fail_for_counted(spec: Any, *rest: Any) -> str:
        return described(spec, *rest) if spec.name != "counted" else {}["no such key"]

    monkeypatch.setattr(docs, "stream_doc", fail_for_counted)
    found = dags()
    assert BROKEN not in found["stream_other"].tags
    broken = found["stream_counted"]
    assert BROKEN in broken.tags
    assert "KeyError while its DAG was built" in broken.doc_md
    assert [task.task_id for task in broken.tasks] == [TASK_ID, STOPPED]
    assert {"drill_kill_driver", "drill_another"} <= set(found)


def test_a_job_that_lint_cannot_read_breaks_no_other_stream(
    space: Workspace, dags: Callable[[], dict[str, Any]]
) -> None:
    add_stream(space.project, "other")
    deep: Path = space.project / "spark_jobs/deep.py"
    deep.write_text(f"x = {'-' * 200_000}1\ndef build(spark, spec): ...\n")
    path = space.project / "config/streams/counted.yaml"
    path.write_text(path.read_text().replace("counting.py", "deep.py"))
    found = dags()
    assert BROKEN not in found["stream_other"].tags
    assert "stream_counted" in found
