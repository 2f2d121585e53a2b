"""Streams whose Spark needs a connector's jars, on older versions of Spark: from topic to topic, and in an object
store. Each is killed in mid-batch and judged by its twin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.connections import connection, variable
from streamwarden.services.replay.topic import replay_to_topic
from support.servers import kafka_broker, object_store
from support.spark.drill_project import drill_project, run_drill
from support.spark.drivers import QUICK
from support.spark.environments import RELEASES, environment, fetch, key_of

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(1200)]

RECORDS = 6_000
BUCKET = f"s3a://{object_store.BUCKET}"


def spark_on(release: str, *names: str) -> str:
    """The `spark` of a stream's file: the environment with this release, whose jars of these connectors are fetched."""
    fetch(release, *names)
    python = environment(release, "kafka", "verify")
    return json.dumps({"master": "local[2]", "driver_memory": "1 GB", "conf": QUICK} | key_of(python))


@pytest.fixture(scope="module")
def events() -> Iterator[kafka_broker.Broker]:
    """A broker with flights in a topic."""
    with kafka_broker.broker(secured=True) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable("events"), made.connection)
        assert replay_to_topic(connection("events"), "flights", limit=RECORDS).sent == RECORDS
        made.create("departures", partitions=3)
        yield made


@dataclass(frozen=True)
class Judged:
    """The verdict of a drill `kill_driver`, and what its twin counted."""

    passed: bool
    reason: str
    counts: dict[str, Any]


def killed(root: Path, **stream: Any) -> Judged:
    with drill_project(root, fault="kill_driver", oracle="twin", batches=12, min_records=1000, **stream) as workspace:
        run = run_drill(workspace)
    assert "twin" in run.facts, run.reason
    assert run.facts["twin"]["alone"]
    return Judged(run.passed, run.reason, run.facts["twin"]["outcome"])


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("release", RELEASES)
def test_a_stream_from_topic_to_topic(release: str, tmp_path: Path) -> None:
    judged = killed(
        tmp_path,
        inputs=tmp_path,
        source="{{kind: kafka, connection: events, topic: flights, max_offsets_per_trigger: 500}}",
        sink="{kind: kafka, connection: events, topic: departures, key: [window_start, origin, carrier]}",
        spark=spark_on(release, "kafka"),
    )
    assert judged.passed, judged.reason
    assert judged.counts["exactly_once"]


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize(
    ("release", "names", "sink"),
    [
        ("4.1.4", ["s3"], f"{{path: {BUCKET}/flights/output}}"),
        ("4.2.1", ["s3"], f"{{path: {BUCKET}/flights/output}}"),
        ("4.2.1", ["s3", "delta"], f"{{kind: delta, path: {BUCKET}/flights/table}}"),
    ],
)
def test_a_stream_in_an_object_store(release: str, names: list[str], sink: str, flights: Path, tmp_path: Path) -> None:
    judged = killed(
        tmp_path,
        inputs=flights,
        source="{{path: {inputs}, format: json, max_files_per_trigger: 1}}",
        sink=sink,
        checkpoint=f"{BUCKET}/flights/checkpoint",
        at=f"{BUCKET}/drills/{release}-{len(names)}",
        spark=spark_on(release, *names),
        more="storage: {connection: lake}",
    )
    assert judged.passed, judged.reason
    assert judged.counts["exactly_once"]
