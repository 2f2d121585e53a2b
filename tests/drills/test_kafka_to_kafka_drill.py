"""From a topic of a real broker into another one: a batch is written twice, by a driver and its successor, and a reader
that drops event ids has each row once. Also how a topic holds each type, and what a driver reports whose topic is
deleted."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from pathlib import Path

import pytest

from streamwarden.adapters.connections import connection, variable
from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.drills.records.journal import FORK_STEPS, DrillStep
from streamwarden.errors import VerificationError
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.driver_folder import read_outcome
from streamwarden.services.replay.topic import replay_to_topic
from streamwarden.services.verifying.verification import verify
from streamwarden.sinks.json_values import typed
from streamwarden.sinks.kafka.output import read_events
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.stream.spec import OutputMode
from streamwarden.units import format_count
from streamwarden.verification.comparing.events import event_id
from support.servers.kafka_broker import PASSWORD, Broker, broker
from support.spark.drill_project import TWIN_WITH_FULL, drill_project, run_drill
from support.spark.drivers import project
from support.spark.every_type import EVERY_TYPE

pytestmark = pytest.mark.spark

RECORDS = 4_000
SOURCE = "{{kind: kafka, connection: events, topic: flights, max_offsets_per_trigger: 800}}"
SINK = "{kind: kafka, connection: events, topic: departures, key: [window_start, origin, carrier]}"

LATEST = f"""{EVERY_TYPE}
    from streamwarden.sinks.json_values import JSON

    typed = typed.withColumn("note", F.lit("two\\nlines"))
    row = F.struct(*(f"`{{name}}`" for name in typed.columns))
    again = F.from_json(F.to_json(row, JSON), typed.schema)  # as a stream does that reads the topic
    return typed.withColumn("reads_back", F.to_json(again, JSON) == F.to_json(row, JSON))
"""


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with broker(secured=True) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable("events"), made.connection)
        assert replay_to_topic(connection("events"), "flights", limit=RECORDS).sent == RECORDS
        made.create("departures", partitions=3)
        yield made


@TWIN_WITH_FULL
def test_a_batch_that_is_written_again_is_there_once_for_a_reader_that_drops_event_ids(
    kafka: Broker, tmp_path: Path, oracle: str
) -> None:
    with drill_project(
        tmp_path,
        inputs=tmp_path,
        fault="kill_after_topic_write",
        attempts=3,
        batches=9,
        min_records=RECORDS,
        source=SOURCE,
        sink=SINK,
        oracle=oracle,
    ) as workspace:
        engine = workspace.drill_engine()
        run_id = engine.begin("drill")
        for step in FORK_STEPS[:4]:
            run = engine.step(run_id, step, park=False)
        try:
            naive = verify(spec_from_dict(run.facts["fork"]["spec"]), deduplicated=False)
        finally:
            engine.step(run_id, DrillStep.HEAL)
            run = engine.step(run_id, DrillStep.REPORT)
        assert run.passed, run.reason
        fork, proof, counts = (run.facts[name] for name in ("fork", "fault", "reconciliation"))
        assert proof["evidence"]["signal"] == signal.SIGKILL
        assert proof["evidence"]["topic_batch"] == proof["planned"] == proof["committed"] + 1
        assert counts["records"] == RECORDS
        assert counts["expected"] == counts["actual"] > 800
        assert counts["exactly_once"]
        assert counts["repeated"] > 0, "the batch was in the topic when its driver was killed"
        assert str(proof["planned"]) in counts["notes"]["repeated_records"]
        delivery = f"at-least-once: {format_count(counts['repeated'], 'record')}"
        assert delivery in run.reason
        assert delivery in Path(run.facts["journal"]).with_name("report.md").read_text()
        assert (naive.lost, naive.unexpected, naive.wrong) == (0, 0, 0)
        assert naive.duplicated == counts["repeated"], "the same reader, but that it does not drop what it has seen"
        assert not naive.exactly_once
        if oracle == "auto":
            twin = run.facts["twin"]
            assert (twin["key_from"], twin["outcome"]["expected"]) == ("the sink's key", counts["expected"])
            assert twin["outcome"]["repeated"] == counts["repeated"], "of the fork"
        topics = [name for name in run.facts["healing"]["removed"] if name.startswith("the topic ")]
        assert len(topics) == (2 if oracle == "auto" else 1), "the fork's, and its twin's"
        assert f"the topic {fork['output']}" in run.facts["healing"]["removed"]
        with pytest.raises(VerificationError, match="Unknown topic"):
            verify(spec_from_dict(fork["spec"]))
    assert kafka.ends("departures", 3) == [0, 0, 0], "the stream's own topic"


@pytest.mark.full  # in the first tier test_crash_and_damage_drills replaces a driver, on files
def test_what_a_replaced_driver_still_writes_is_dropped_by_its_event_ids(kafka: Broker, tmp_path: Path) -> None:
    """Nothing in a topic refuses records: what it still writes before it ends is there twice."""
    with drill_project(
        tmp_path,
        inputs=tmp_path,
        fault="freeze_driver",
        batches=8,
        min_records=RECORDS,
        source=SOURCE,
        sink=SINK,
    ) as workspace:
        run = run_drill(workspace)
        assert run.passed, run.reason
        proof, counts = run.facts["fault"], run.facts["reconciliation"]
        outcome = read_outcome(Path(workspace.store.drivers.get(proof["driver_id"]).folder))
    seen = proof["evidence"]
    assert seen["stood_still"]
    assert seen["redone"]
    assert seen["successor"]["token"] > seen["token"]
    assert outcome is not None
    assert outcome.kind is ExitKind.FENCED
    assert counts["records"] == RECORDS
    assert counts["expected"] == counts["actual"] > 800
    assert counts["exactly_once"]


def test_every_type_is_read_back_and_a_driver_reports_that_its_topic_was_deleted(kafka: Broker, tmp_path: Path) -> None:
    kafka.create("latest", partitions=2)
    impatient = {"kafka.max.block.ms": "2000", "kafka.delivery.timeout.ms": "3000", "kafka.request.timeout.ms": "2000"}
    with project(tmp_path) as made:
        made.publish(2)
        spec = made.spec(
            "latest",
            LATEST,
            sink=KafkaSink(
                connection="events",
                topic="latest",
                key=("key",),
                mode=OutputMode.UPDATE,
                options={**impatient, "kafka.linger.ms": "0"},
            ),
        )
        driver = made.start(spec)
        made.await_batches(spec, 2)
        events = list(read_events(connection("events"), "latest"))
        query = json.loads((Path(spec.checkpoint) / "metadata").read_text())["id"]
        assert sorted((each.batch, each.key) for each in events) == [
            (batch, json.dumps({"key": key}, separators=(",", ":")).encode()) for batch in (0, 1) for key in range(5)
        ]
        assert {each.query for each in events} == {query}
        assert all(each.id == event_id(each.key, each.value, each.written_by) for each in events)
        (newest,) = [json.loads(each.value, parse_float=Decimal) for each in events if each.batch == 1][:1]
        at = datetime(2026, 1, 1, 0, 1, 15 + newest["key"], tzinfo=UTC)
        like = {
            "at": at,
            "wall": datetime(1, 1, 1),
            "day": date(1, 1, 1),
            "quarter": Decimal(),
            "times": [at],
            "numbers": [1.0],
            "of": {"at": at},
            "raw": b"",
        }
        row = {name: typed(value, like.get(name)) for name, value in newest.items()}
        one, nan, none = row.pop("numbers")
        assert (one, isnan(nan), none) == (1.5, True, None)
        identity = 35 + row["key"]
        assert row == {
            "key": row["key"],
            "n": 8,
            "at": at,
            "wall": datetime(1582, 10, 15, 1, 2, 3, 4),
            "day": date(1, 1, 1),
            "quarter": Decimal(2),
            "times": [at],
            "of": {"id": identity, "at": at, "none": None},
            "by name": {"ключ": [identity]},
            "raw": b"\x00\xff",
            "note": "two\nlines",
            "reads_back": True,
        }
        kafka.delete("latest")
        made.publish()
        record = made.await_end(driver)
        assert record.kind is ExitKind.FAILED
        assert (record.error_class, record.curable) == ("SinkError", True), record
        assert "topic latest (connection events): the topic is not there" in record.message
        assert "create it, or correct sink.topic" in record.next_step
        left = [path for path in (made.data / "drivers").rglob("*") if path.is_file()]
        assert [path for path in left if PASSWORD.encode() in path.read_bytes()] == []
        assert made.committed(spec) == 2, "the batch that was cut is not committed: it runs at the next start"
