"""From a topic of a real broker into a table of a real PostgreSQL: what the stream lives on is
killed in turn: its driver between the two commits, an executor of a real cluster, the broker."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.connections import connection, variable
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.lifecycle.forks.places import SCHEMA
from streamwarden.services.replay.topic import replay_to_topic
from support.oracles.sink_tables import Base
from support.servers.kafka_broker import Broker, broker
from support.servers.postgres_server import running
from support.servers.spark_cluster import CALLED, Cluster, cluster
from support.spark.drill_project import TWIN_WITH_FULL, drill_project, run_drill
from support.spark.drivers import QUICK
from support.spark.twins import assert_both_agree

pytestmark = pytest.mark.spark

RECORDS = 4_000
SOURCE = "{{kind: kafka, connection: events, topic: flights, max_offsets_per_trigger: 2000}}"
SINK = "{kind: postgresql, connection: warehouse, table: flights.departures, key: [window_start, origin, carrier]}"
STREAM = {"source": SOURCE, "sink": SINK, "min_records": RECORDS}


@pytest.fixture(scope="module")
def base() -> Iterator[Base]:
    with running() as server, pytest.MonkeyPatch.context() as patch:
        made = Base(server, "warehouse")
        patch.setenv(variable("warehouse"), server.connection(made.name))
        yield made


@pytest.fixture(scope="module")
def kafka(base: Base) -> Iterator[Broker]:
    """With the flights in its topic, beside a database; each drill forks a stream between the two."""
    with broker() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable("events"), made.connection)
        assert replay_to_topic(connection("events"), "flights", limit=RECORDS).sent == RECORDS
        yield made


def assert_exactly_once(run: DrillRun) -> None:
    assert run.passed, run.reason
    fork, counts = run.facts["fork"], run.facts["reconciliation"]
    assert (fork["unseen"], fork["what"]) == (RECORDS, "record")
    assert counts["records"] == RECORDS
    assert counts["expected"] == counts["actual"] > 800
    assert counts["exactly_once"]
    assert run.facts["judgement"]["success"]
    assert all(prediction["seconds"] is not None for prediction in run.facts["predicted"])


@TWIN_WITH_FULL
def test_a_driver_killed_between_the_two_commits_loses_and_doubles_nothing(
    tmp_path: Path, kafka: Broker, base: Base, oracle: str
) -> None:
    fault = "kill_after_database_commit"
    with drill_project(tmp_path, inputs=tmp_path, fault=fault, attempts=3, oracle=oracle, **STREAM) as workspace:
        run = run_drill(workspace)
    assert_exactly_once(run)
    if oracle == "auto":
        assert_both_agree(run, of="departures_to_warehouse")
    proof = run.facts["fault"]
    assert proof["evidence"]["signal"] == signal.SIGKILL
    assert proof["evidence"]["database_batch"] == proof["planned"] == proof["committed"] + 1
    assert any(SCHEMA in each for each in run.facts["healing"]["removed"])
    left = base.ask(f"SELECT nspname FROM pg_namespace WHERE nspname = 'flights' OR nspname LIKE '{SCHEMA}%'")
    assert left == [], "neither the fork's schema, nor one for the stream, which never ran"


def on(spark: Cluster) -> str:
    """Two cores in one executor, whose JVM starts fast."""
    conf = {
        **QUICK,
        **CALLED,
        "spark.executor.memory": "700m",
        "spark.executor.extraJavaOptions": QUICK["spark.driver.extraJavaOptions"],
    }
    return json.dumps({"master": spark.url, "driver_memory": "1 GB", "conf": conf})


@pytest.mark.full  # in the first tier spark/drivers/test_standalone_cluster kills an executor and a worker in mid-batch
def test_an_executor_killed_in_mid_batch_loses_and_doubles_nothing(tmp_path: Path, kafka: Broker) -> None:
    """Spark replaces it; the driver lives on and is not started again."""
    with cluster() as spark:
        fault = "kill_executor"
        with drill_project(tmp_path, inputs=tmp_path, fault=fault, batches=8, spark=on(spark), **STREAM) as workspace:
            run = run_drill(workspace)
            assert_exactly_once(run)
            drivers = workspace.store.drivers.history(run.facts["fork"]["stream"], 0.0)
        assert spark.launched() == run.facts["fault"]["attempts"] + 1
        proof, recovery = run.facts["fault"], run.facts["recovery"]
        assert [driver.driver_id for driver in drivers] == [proof["driver_id"]] == [recovery["driver_id"]]
        assert proof["evidence"]["gone"]
        assert proof["planned"] == proof["committed"] + 1 == recovery["first_new_batch"]


def test_without_a_cluster_an_executor_cannot_be_killed_and_nothing_passes(tmp_path: Path, kafka: Broker) -> None:
    with drill_project(tmp_path, inputs=tmp_path, fault="kill_executor", **STREAM) as workspace:
        run = run_drill(workspace)
        assert run.status is DrillStatus.ABORTED
        assert "not applicable: flights runs on the master local[2], which has no executors" in run.reason
        assert "fork" not in run.facts  # refused before anything was made


@pytest.mark.full  # in the first tier spark/storage/test_kafka_source kills the broker under a stream
def test_a_broker_killed_and_started_again_loses_and_doubles_nothing(tmp_path: Path, kafka: Broker) -> None:
    down, up = kafka.commands()
    outage = {"outage": json.dumps({"service": "source", "down": down, "up": up, "lasts": "6s"})}
    fault = "service_outage"
    with drill_project(tmp_path, inputs=tmp_path, fault=fault, batches=8, options=outage, **STREAM) as workspace:
        run = run_drill(workspace)
    assert_exactly_once(run)
    seen = run.facts["fault"]["evidence"]
    assert kafka.servers in seen["service"]
    assert seen["hung"]
    assert seen["back_at"] - seen["gone_at"] >= 6
    assert seen["still_seconds"] >= 2 * seen["batch_seconds"]
