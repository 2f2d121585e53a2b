"""Four streams side by side under one Airflow, each on the Spark that its output has connectors for: 3.5 into parquet,
4.1 into Iceberg, 4.2 into Delta, and the Spark of Streamwarden into a topic. Each is drilled by its DAG while the
others run, judged by its twin, and audited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamwarden.adapters.connections import variable
from streamwarden.adapters.jvm.environments import environment_of
from streamwarden.airflow.links import drill_run_id
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.services.workspace import Workspace
from streamwarden.verification.comparing.balance import Outcome
from support.airflow.harness import CLOCKED, REPOSITORY, Airflow, running, wait_for
from support.airflow.project import make_project
from support.command_line import in_process
from support.servers.kafka_broker import broker
from support.spark.drivers import QUICK
from support.spark.environments import environment, key_of, spark_with

pytestmark = [pytest.mark.full, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

LONG, DRILLED = 400.0, 1200.0
OWN = {"master": "local[2]", "driver_memory": "1 GB", "conf": QUICK}
KEY = ["window_start", "origin", "carrier"]
SINKS: dict[str, dict[str, Any]] = {
    "parquet": {"kind": "parquet", "path": "output/parquet"},
    "iceberg": {"kind": "iceberg", "path": "lake/flights/departures"},
    "delta": {"kind": "delta", "path": "output/delta"},
    "topic": {"kind": "kafka", "connection": "events", "topic": "departures", "key": KEY},
}
RUNS_ON = {"parquet": "3.5", "iceberg": "4.1", "delta": "4.2", "topic": version("pyspark")}
AUDITED = [name for name in SINKS if name != "parquet"]
"""Spark 3.5 has no reader of state, so that no audit can follow its streams."""


def spark_of(name: str) -> dict[str, Any]:
    """The `spark` of the stream's file."""
    if name == "topic":
        return OWN
    return OWN | key_of(environment("3.5.9")) if name == "parquet" else dict(json.loads(spark_with(name)))


def stream(name: str, flights: Path) -> dict[str, Any]:
    """The stream's file. Its DAG `audit_NAME` is there to be triggered, and its drill keeps the live stream apart."""
    return {
        "name": name,
        "job": "spark_jobs/flight_departures.py",
        "source": {"path": str(flights), "format": "json", "max_files_per_trigger": 1},
        "sink": SINKS[name],
        "checkpoint": f"checkpoints/{name}",
        "trigger": {"processing_time": "1 second"},
        "state": {"shuffle_partitions": 1},
        "spark": spark_of(name),
        **({"audit": {"schedule": "@yearly", "share": 1}} if name in AUDITED else {}),
    }


def drill(name: str) -> dict[str, Any]:
    return {
        "name": f"kill_{name}",
        "stream": name,
        "fault": {"kind": "kill_driver", "strikes": 1, "attempts": 2, "within": "4m"},
        "fork": {"rewind": "all", "batches": 12},
        "steady_state": {"min_batches": 2, "within": "8m"},
        "recovery": {"target": "8m", "deadline": "8m"},
        "verification": {"min_records": 1000, "oracle": "twin"},
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, flights: Path) -> Iterator[tuple[Airflow, Workspace]]:
    """Airflow over the four streams, all of which run."""
    root = tmp_path_factory.mktemp("four")
    project = make_project(root / "project")
    (project / "spark_jobs" / "flight_departures.py").write_text(
        (REPOSITORY / "spark_jobs" / "flight_departures.py").read_text()
    )
    for name in SINKS:
        (project / f"config/streams/{name}.yaml").write_text(yaml.safe_dump(stream(name, flights)))
        (project / f"config/drills/kill_{name}.yaml").write_text(yaml.safe_dump(drill(name)))
    with broker() as kafka, pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable("events"), kafka.connection)
        kafka.create("departures", partitions=3)
        airflow = Airflow(root / "airflow", project, project / "var")
        airflow.env[variable("events")] = kafka.connection
        space = Workspace.open(project, project / "var", environ={})
        try:
            with running(airflow, CLOCKED):
                wanted = {f"{what}_{name}" for name in SINKS for what in ("stream", "drill_kill")}
                wanted |= {f"audit_{name}" for name in AUDITED}
                wait_for(f"the DAGs {sorted(wanted)}", lambda: wanted <= airflow.dag_ids(), timeout=LONG)
                assert airflow.import_errors() == []
                for name in SINKS:
                    airflow.pause(f"stream_{name}", False)
                yield airflow, space
        finally:
            for name in SINKS:
                space.fleet.stop(name, requested_by="test", reason="the end", batch_deadline=5, term_deadline=5)
            space.close()


def story(airflow: Airflow, dag_id: str) -> str:
    """Each task of the DAG's newest run, with the end of its log."""
    runs = airflow.runs(dag_id)
    tasks = airflow.tasks(dag_id, runs[0]["dag_run_id"]) if runs else []
    logs = [
        f"{task['task_id']} {task['state']}\n{airflow.log(dag_id, task, task['try_number'])[-1500:]}" for task in tasks
    ]
    return "\n".join(logs)


def drivers(space: Workspace) -> dict[str, DriverRecord]:
    """The driver of each stream that runs."""
    latest = {name: space.store.drivers.latest(name) for name in SINKS}
    return {name: driver for name, driver in latest.items() if driver is not None and driver.exit is None}


def ends_well(airflow: Airflow, dag_id: str) -> str:
    """Run the DAG to its end; the id of the run. It fails unless every task succeeds."""
    airflow.pause(dag_id, False)
    run: str = airflow.trigger(dag_id)

    def ended() -> Any:
        return next((one for one in airflow.runs(dag_id) if one["dag_run_id"] == run and one["end_date"]), None)

    found = wait_for(f"the end of {dag_id}", ended, timeout=DRILLED, poll=1, explain=lambda: story(airflow, dag_id))
    assert found["state"] == "success", story(airflow, dag_id)
    assert {task["state"] for task in airflow.tasks(dag_id, run)} == {"success"}, story(airflow, dag_id)
    return run


@pytest.mark.parametrize("name", SINKS)
def test_each_stream_commits_on_its_spark(name: str, site: tuple[Airflow, Workspace]) -> None:
    airflow, space = site
    assert environment_of(space.stream(name).spark).version.startswith(RUNS_ON[name])
    wait_for(
        f"three batches of {name}",
        lambda: space.store.batches.summary(name).batches >= 3,
        timeout=LONG,
        explain=lambda: story(airflow, f"stream_{name}"),
    )


@pytest.mark.parametrize("name", SINKS)
def test_each_stream_is_drilled_while_the_others_run(name: str, site: tuple[Airflow, Workspace]) -> None:
    airflow, space = site
    before = drivers(space)
    assert set(before) == set(SINKS)
    run = space.store.journals.get(drill_run_id(f"kill_{name}", ends_well(airflow, f"drill_kill_{name}")))
    assert run is not None
    assert run.passed, run.reason
    assert run.facts["twin"]["alone"]
    assert run.facts["twin"]["outcome"]["exactly_once"]
    assert {name: driver.driver_id for name, driver in drivers(space).items()} == {
        name: driver.driver_id for name, driver in before.items()
    }


@pytest.mark.parametrize("name", AUDITED)
def test_each_stream_is_audited(name: str, site: tuple[Airflow, Workspace]) -> None:
    airflow, space = site
    ends_well(airflow, f"audit_{name}")
    (evidence,) = (space.data / "audits" / name).iterdir()
    assert json.loads(evidence.read_text())["outcome"] == Outcome.BALANCED


def test_the_audit_of_a_spark_without_a_reader_of_state_is_refused(site: tuple[Airflow, Workspace]) -> None:
    _, space = site
    answer = in_process(space.project, "audit", "parquet")
    assert answer.code != 0
    assert "not in Spark 3.5" in answer.err
