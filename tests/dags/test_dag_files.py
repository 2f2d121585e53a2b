"""The DAG files as Airflow's processor reads them: what they make, what they say, what they do not import."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamwarden.services.local.airflow import DAGS
from support.airflow.project import add_stream, make_project

REPOSITORY = Path(__file__).resolve().parents[2]

CONTROLS = {"stop_stream", "restart_stream", "start_stream"}

PARSE = """
import json, sys, time
from airflow.dag_processing.dagbag import DagBag
began = time.process_time()
bag = DagBag(dag_folder=sys.argv[1])
took = time.process_time() - began
heavy = ("pyspark", "pandas", "great_expectations", "apprise", "pyarrow", "duckdb")
heavy = [name for name in heavy if name in sys.modules]
print("RESULT" + json.dumps({"dags": sorted(bag.dag_ids), "errors": bag.import_errors, "took": took, "heavy": heavy}))
"""


def parse_as_airflow_does(folder: Path, project: Path) -> dict[str, Any]:
    """Read a DAGs folder in a process of its own."""
    env = {**os.environ, "STREAMWARDEN_PROJECT": str(project)}
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(folder)], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    result: dict[str, Any] = json.loads(line.removeprefix("RESULT"))
    return result


def test_the_airflow_of_one_machine_has_the_dags_of_every_file() -> None:
    makers = re.compile(r"^from (streamwarden\.airflow\.dags\S*) import (\w+_dags)$", re.MULTILINE)
    files = {maker for file in (REPOSITORY / "dags").glob("*.py") for maker in makers.findall(file.read_text())}
    assert len(files) == len(list((REPOSITORY / "dags").glob("*.py")))
    assert set(makers.findall(DAGS)) == files
    assert re.findall(r"^    (\w+_dags),$", DAGS, re.MULTILINE) == sorted(name for _, name in files)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with two good streams and one broken file."""
    root = make_project(tmp_path / "project")
    add_stream(root, "counted", description="Counts <b>events</b> | per key")
    with add_stream(root, "other").open("a") as file:
        file.write("queue: streams\n")
    (root / "config/streams/bad.yaml").write_text("name: bad\njob: spark_jobs/nope.py\nbogus: 1\n")
    return root


@pytest.fixture
def dags(project: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """DAG id -> DAG of the small project."""
    monkeypatch.setenv("STREAMWARDEN_PROJECT", str(project))
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(project / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


def test_the_repositorys_own_dags_import_and_nothing_heavy_comes_with_them() -> None:
    """Neither Spark, pandas nor Great Expectations is imported to read a DAG file."""
    result = parse_as_airflow_does(REPOSITORY / "dags", REPOSITORY)
    assert result["errors"] == {}
    assert result["heavy"] == []
    assert {"stream_flight_departures", "drill_kill_driver", "drill_controlled_restart"} <= set(result["dags"])
    assert CONTROLS | {"health", "housekeeping", "advice"} <= set(result["dags"])


def test_a_hundred_streams_are_read_in_seconds(tmp_path: Path) -> None:
    """One generating file: 0.02 s a stream on an idle machine. Processor time: a busy machine does not count."""
    root = make_project(tmp_path / "project")
    for index in range(100):
        add_stream(root, f"s{index:03d}")
    result = parse_as_airflow_does(root / "dags", root)
    assert len([dag for dag in result["dags"] if dag.startswith("stream_s")]) == 100
    assert result["took"] < 20


def test_a_broken_file_breaks_its_own_stream_only(dags: dict[str, Any]) -> None:
    """Its DAG stays, under the same id and with the same task, and the UI shows which file, key and value."""
    bad = dags["stream_bad"]
    assert "broken" in bad.dag_display_name
    assert "broken-config" in bad.tags
    assert "config/streams/bad.yaml" in bad.doc_md
    assert "bogus" in bad.doc_md
    assert [task.task_id for task in bad.tasks] == [task.task_id for task in dags["stream_counted"].tasks]
    for name in ("stream_counted", "stream_other"):
        assert "broken-config" not in dags[name].tags
        assert dags[name].dag_display_name == name


def test_every_dag_has_docs_an_owner_and_tags_and_catches_nothing_up(dags: dict[str, Any]) -> None:
    """What a person sees first in the UI."""
    for dag in dags.values():
        assert dag.doc_md, dag.dag_id
        assert dag.description, dag.dag_id
        assert "streamwarden" in dag.tags
        assert dag.owner.strip()
        assert dag.catchup is False


def test_a_streams_dag_says_what_it_runs(dags: dict[str, Any]) -> None:
    """Owner and tags from the file; specification and thresholds in the docs; nothing in it is HTML."""
    dag = dags["stream_counted"]
    assert dag.owner == "integration"
    assert {"stream", "tiny"} <= dag.tags
    assert "spark_jobs/counting.py" in dag.doc_md
    assert "| `state_size` | warning 1 GB; critical 5 GB |" in dag.doc_md
    assert "<b>" not in dag.doc_md
    assert "&lt;b&gt;events" in dag.doc_md


def test_a_streams_dag_always_has_one_run_and_retries_only_to_reattach(dags: dict[str, Any]) -> None:
    """One active run, paused by its first failed run, many quick retries, no time limit."""
    dag = dags["stream_counted"]
    assert type(dag.timetable).__name__ == "ContinuousTimetable"
    assert dag.max_active_runs == 1
    assert dag.max_consecutive_failed_dag_runs == 1
    assert dag.dagrun_timeout is None
    assert [task.task_id for task in dag.tasks] == ["run", "stopped"]
    for task in dag.tasks:
        assert task.retries >= 10_000
        assert task.retry_delay.total_seconds() <= 10
        assert task.execution_timeout is None


def test_the_queue_of_a_stream_is_that_of_its_tasks(dags: dict[str, Any]) -> None:
    """The workers that read it are on the hosts that may run the stream."""
    queues = {name: {task.queue for task in dags[f"stream_{name}"].tasks} for name in ("counted", "other")}
    assert queues == {"counted": {"default"}, "other": {"streams"}}


@pytest.mark.parametrize("dag_id", ["stream_counted", "stream_bad"])
def test_a_tasks_process_reads_its_own_stream_alone(
    dags: dict[str, Any], project: Path, monkeypatch: pytest.MonkeyPatch, dag_id: str
) -> None:
    """It parses the DAG file between a driver's end and its restart: a thousand other streams must not delay that."""
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", dag_id)
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", "run")
    (own,) = DagBag(dag_folder=str(project / "dags/streams.py")).dags.values()
    assert own.dag_id == dag_id
    for task, known in zip(own.tasks, dags[dag_id].tasks, strict=True):
        for attribute in ("task_id", "stream", "project", "conn_id", "retries", "retry_delay", "trigger_rule"):
            assert getattr(task, attribute, None) == getattr(known, attribute, None), attribute


def test_the_task_of_a_stream_without_a_file_finds_no_dag(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that was removed has none; the others are read as ever."""
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "stream_removed")
    found = DagBag(dag_folder=str(project / "dags/streams.py")).dags
    assert set(found) == {"stream_counted", "stream_other", "stream_bad"}


def test_the_health_dag_never_piles_up(dags: dict[str, Any]) -> None:
    """One run at a time, no catching up, short time limits."""
    dag = dags["health"]
    assert dag.max_active_runs == 1
    assert dag.dagrun_timeout is not None
    assert all(task.execution_timeout.total_seconds() < 60 for task in dag.tasks)
    assert {task.task_id for task in dag.tasks} == {"evaluate", "stream", "notify"}
    assert dag.get_task("notify").trigger_rule.value == "all_done"


def test_the_forms_insist_on_a_stream(dags: dict[str, Any]) -> None:
    """Each control DAG lists the streams, the broken one too, and preselects none."""
    for name in CONTROLS:
        stream = dags[name].params.get_param("stream")
        assert stream.schema["enum"] == ["bad", "counted", "other"]
        assert not stream.has_value
        assert dags[name].params["reason"]


def test_a_drills_steps_are_its_tasks_and_the_report_links_to_its_page() -> None:
    """Every step runs whatever became of the one before: the engine decides what is left out."""
    os.environ.setdefault("STREAMWARDEN_PROJECT", str(REPOSITORY))
    from streamwarden.airflow.dags.drills import drill_dags

    dag = drill_dags(str(REPOSITORY / "dags" / "drills.py"))["drill_kill_driver"]
    order = [task.task_id for task in dag.topological_sort()]
    assert order == ["steady_state", "fault", "recovery", "verification", "heal", "report"]
    assert [task.trigger_rule.value for task in dag.tasks[:4]] == ["all_done"] * 4
    assert [task.trigger_rule.value for task in dag.tasks[4:]] == ["all_done_setup_success"] * 2, (
        "and there is no setup"
    )
    assert [link.name for link in dag.get_task("report").operator_extra_links] == ["Drill report"]
    assert "flight_departures" in str(dag.doc_md)


def test_every_dag_survives_serialization(dags: dict[str, Any]) -> None:
    """The scheduler knows a DAG only in its serialized form."""
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in dags.values():
        again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        assert {task.task_id for task in again.tasks} == {task.task_id for task in dag.tasks}


SECRETS = {
    "description": "planted-description-4f1c",
    "conf": "planted-conf-4f1c",
    "option": "planted-option-4f1c",
    "argument": "planted-argument-4f1c",
    "broken": "planted-broken-4f1c",
}
LEAKY = f"""
name: leaky
job: spark_jobs/counted.py
description: "reads https://ann:{SECRETS["description"]}@host and password={SECRETS["description"]}"
args: [--db-password, {SECRETS["argument"]}]
source: {{path: input/leaky, options: {{sasl.jaas.config: {SECRETS["option"]}}}}}
sink: {{path: output/leaky}}
checkpoint: checkpoints/leaky
spark: {{conf: {{spark.ssl.keyPassword: {SECRETS["conf"]}}}}}
"""


def test_nothing_that_airflow_stores_or_shows_of_a_stream_holds_a_secret(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the serialized DAG, which Airflow's database keeps, nor its documentation, also of a broken file."""
    job = next((project / "spark_jobs").glob("*.py"))
    job.write_text("def build(spark, spec, *args): ...\n")
    (project / "config/streams/leaky.yaml").write_text(LEAKY.replace("counted.py", job.name))
    wrong = f"conf: {{my.token: [{SECRETS['broken']}], "
    broken = LEAKY.replace("name: leaky", "name: spoilt").replace("conf: {", wrong)
    (project / "config/streams/spoilt.yaml").write_text(broken + "bogus: 1\n")
    monkeypatch.setenv("STREAMWARDEN_PROJECT", str(project))
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization

    bag = DagBag(dag_folder=str(project / "dags"))
    shown = {name: json.dumps(DagSerialization.to_dict(dag), default=str) for name, dag in bag.dags.items()}
    assert "redacted" in shown["stream_leaky"]
    assert "spark.ssl.keyPassword" in shown["stream_leaky"]
    assert "my.token" in shown["stream_spoilt"]
    assert [(name, secret) for name, text in shown.items() for secret in SECRETS.values() if secret in text] == []


def test_every_dag_reports_its_failure(dags: dict[str, Any], project: Path) -> None:
    """A drill: its report, which fails unless the drill passed. Health: not the red task of a CRITICAL stream."""
    from streamwarden.airflow.notifying import StreamwardenNotifier

    reporting = {
        dag_id: {
            task.task_id
            for task in dag.tasks
            if any(isinstance(each, StreamwardenNotifier) for each in task.on_failure_callback or ())
        }
        for dag_id, dag in dags.items()
    }
    assert {dag_id for dag_id, tasks in reporting.items() if not tasks} == set()
    assert reporting["health"] == {"evaluate"}
    assert {tuple(tasks) for dag_id, tasks in reporting.items() if dag_id.startswith("drill_")} <= {("report",)}
    assert reporting["stop_stream"] == {"stop"}
