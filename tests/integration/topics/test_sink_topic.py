"""The topic of a sink on a real broker that wants a password: is it there, a fork's own, and what is read of it.

The records are written here as the sink writes them; the sink itself is in tests/drills/test_kafka_to_kafka_drill.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import ConfigResource, ResourceType

from streamwarden.adapters.connections import Connection, connection, variable
from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.drills.records.sections import ForkSpec
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import CheckpointError, ConfigError, SinkError, VerificationError
from streamwarden.lifecycle.forks.places import SCHEMA
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.services.drilling.ports.sink import ForkSink
from streamwarden.services.forks.forks import fork
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.previewing import preview_restore
from streamwarden.services.savepoints.restoring import Request, restore
from streamwarden.sinks.kafka import topic
from streamwarden.sinks.kafka.output import read_topic
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.kafka.topic import require_topic
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.events import BATCH, EVENT_ID, event_id
from support.checkpoints.recorded import Archives, stream_of
from support.servers.kafka_broker import Broker, broker
from support.spark.drivers import until

QUERY = "5ca1ab1e-0000-4000-8000-000000000001"
NEWEST = 13


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with broker(secured=True) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable("events"), made.connection)
        yield made


def stream(checkpoint: Path, topic: str) -> StreamSpec:
    """A stream whose query has an id and nothing else."""
    (checkpoint / "metadata").write_text(json.dumps({"id": QUERY}))
    sink = KafkaSink(connection="events", topic=topic, key=("k",))
    return StreamSpec(name="counts", job="/j.py", checkpoint=str(checkpoint), sink=sink)


def send(kafka: Broker, topic: str, batch: int, keys: Sequence[int], *, transaction: str = "") -> Producer:
    """Rows {k, n} of a batch, each to the partition `k` modulo 2; in a transaction that is left open, if one is named.

    Returns the producer, which has to live as long as its transaction.
    """
    own = {"transactional.id": transaction} if transaction else {}
    producer = Producer({**kafka.settings, "log_level": 0, **own})
    if transaction:
        producer.init_transactions(20)
        producer.begin_transaction()
    for k in keys:
        key, value = json.dumps({"k": k}), json.dumps({"k": k, "n": batch})
        headers = {EVENT_ID: event_id(key.encode(), value.encode()), BATCH: f"{QUERY}/{batch}"}
        producer.produce(topic, value, key, partition=k % 2, headers=[*headers.items()])
    assert producer.flush(20) == 0
    return producer


def view(spec: StreamSpec) -> ForkView:
    return ForkView(
        stream=spec.name,
        origin="counts",
        checkpoint=spec.checkpoint,
        output=spec.sink.topic,
        batch=None,
        unseen=1,
        batches_left=1,
        input_digest="",
        spec=spec,
    )


def test_a_topic_that_is_there_is_told_by_its_partitions_and_one_that_is_not_by_what_to_do(kafka: Broker) -> None:
    kafka.create("there", partitions=3)
    assert require_topic(connection("events"), "there") == 3
    with pytest.raises(SinkError, match="the topic is not there") as told:
        require_topic(connection("events"), "elsewhere")
    assert told.value.where == "topic elsewhere (connection events)"
    assert "create it, or correct sink.topic" in told.value.next_step


def test_a_user_that_is_not_let_in_is_told_so_without_the_password(kafka: Broker) -> None:
    extra = {**kafka.settings, "sasl.password": "the-wrong-word"}
    with pytest.raises(ConfigError, match="does not let this user in") as told:
        require_topic(Connection(name="events", extra=extra), "there", within=6)
    assert "correct the connection 'events' (AIRFLOW_CONN_EVENTS)" in told.value.next_step
    assert "the-wrong-word" not in str(told.value)


def test_a_broker_that_is_away_may_come_back() -> None:
    with pytest.raises(SinkError, match="the broker does not answer"):
        require_topic(Connection(name="events", host="127.0.0.1", port=1), "there", within=1)


def test_rows_are_read_once_as_committed_and_of_this_query_alone(kafka: Broker, tmp_path: Path) -> None:
    kafka.create("counts", partitions=3)
    spec = stream(tmp_path, "counts")
    send(kafka, "counts", 0, [1, 2])
    send(kafka, "counts", 1, [3, 4])
    send(kafka, "counts", 1, [3, 4, 5])  # the batch was cut, and ran again
    kafka.produce("counts", ["not of a stream"], partitions=(1,))
    aborted = send(kafka, "counts", 1, [7], transaction="aborted")
    aborted.abort_transaction(20)
    open_still = send(kafka, "counts", 1, [8], transaction="open")
    send(kafka, "counts", 2, [6])
    try:
        found = read_topic(spec, {}, committed=1)
        assert found.columns == ("k", "n")
        assert sorted(found.rows) == [(1, 0), (2, 0), (3, 1), (4, 1), (5, 1)]
        assert (found.repeated, found.problems) == (2, ())
        assert found.notes["repeated_records"] == {"1": 2}
        assert found.notes["records_of_others"] == 1
        naive = read_topic(spec, {}, committed=1, deduplicated=False)
        assert len(naive.rows) == 7
        assert len(read_topic(spec, {}, committed=1, first=1).rows) == 3
    finally:
        open_still.abort_transaction(20)
    assert sorted(read_topic(spec, {}, committed=2).rows)[-1] == (6, 2)


def test_a_topic_that_kept_not_all_is_no_evidence(kafka: Broker, tmp_path: Path) -> None:
    kafka.create("short", partitions=2)
    send(kafka, "short", 0, [1, 3, 5])
    kafka.forget("short", 2, partition=1)
    with pytest.raises(VerificationError, match="the first 2 records of partition 1 are not kept any more"):
        read_topic(stream(tmp_path, "short"), {}, committed=0)
    with pytest.raises(VerificationError, match="Unknown topic"):
        read_topic(stream(tmp_path, "nowhere"), {}, committed=0)


def test_a_drill_hears_of_each_batch_whose_records_come(kafka: Broker, tmp_path: Path) -> None:
    kafka.create("heard", partitions=2)
    fork, topic = view(stream(tmp_path, "heard")), ForkSink()
    assert topic.newest(fork) is None
    send(kafka, "heard", 0, [1])
    with topic.listen(fork) as arrivals:
        send(kafka, "heard", 1, [2])
        heard = [arrivals.next(5.0), arrivals.next(0.1)]
    assert heard == [1, None], "and of none that was there before"
    assert topic.newest(fork) == 1


@pytest.fixture
def origin(kafka: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> StreamSpec:
    """14 batches, 0 to 13; four input files are not read yet. Its topic has five partitions and one record."""
    root, topic = tmp_path / "origin", f"origin-{id(request.node):x}"
    Archives(tmp_path / "archives").unpack("spark-4.3.0-changelog", root)
    kafka.create(topic, partitions=5)
    kafka.produce(topic, ["a record"])
    sink = KafkaSink(connection="events", topic=topic, key=("id",))
    return replace(stream_of(root, files=17), sink=sink)


def ends(kafka: Broker, topic: str) -> list[int]:
    """Of five partitions; one that was just made has its leader a moment later."""

    def told() -> list[int] | None:
        with contextlib.suppress(KafkaException):
            return kafka.ends(topic, 5)
        return None

    found = until("the partitions of the topic", told, timeout=30)
    assert found is not None
    return found


@pytest.mark.parametrize(("rewind", "batch"), [("all", None), (0, NEWEST), (3, NEWEST - 3)])
def test_a_fork_has_an_empty_topic_of_its_own_and_leaves_the_origins_alone(
    kafka: Broker, origin: StreamSpec, tmp_path: Path, rewind: int | str, batch: int | None
) -> None:
    made = fork(origin, into=tmp_path / "fork", rewind=rewind)  # type: ignore[arg-type]
    own = str(made.spec.sink.topic)
    assert made.batch == batch
    assert own.startswith(SCHEMA)
    assert ends(kafka, own) == [0] * 5
    assert ends(kafka, str(origin.sink.topic)) == [1, 0, 0, 0, 0]
    resource = ConfigResource(ResourceType.TOPIC, own)
    admin = kafka.admin()  # it has to live until the answer is there
    (asked,) = admin.describe_configs([resource]).values()
    assert asked.result(timeout=20)["retention.ms"].value == "-1"
    if batch is not None:
        assert read_checkpoint(open_path(made.spec.checkpoint)).findings == ()
        assert log_position(open_path(made.spec.checkpoint)).committed == batch
    assert topic.drop(made.spec) == own
    assert topic.drop(made.spec) is None
    with pytest.raises(SinkError, match="the topic is not there"):
        require_topic(connection("events"), own)


def test_no_topic_but_a_forks_is_ever_deleted(kafka: Broker, origin: StreamSpec) -> None:
    with pytest.raises(CheckpointError, match="is not a topic of a fork"):
        topic.drop(origin)
    assert require_topic(connection("events"), str(origin.sink.topic)) == 5


def test_a_stream_without_its_topic_cannot_be_forked(kafka: Broker, origin: StreamSpec, tmp_path: Path) -> None:
    gone = replace(origin, sink=replace(origin.sink, topic="gone"))
    with pytest.raises(CheckpointError, match="the topic is not there"):
        fork(gone, into=tmp_path / "fork", rewind="all")
    assert not list((tmp_path / "fork").glob("*"))


def test_healing_takes_the_topic_of_a_fork_and_of_one_that_was_never_finished(
    kafka: Broker, origin: StreamSpec, tmp_path: Path
) -> None:
    forks = DrillForks(DrillArchive(tmp_path / "data"), lambda _: origin)
    made = forks.make("run", origin.name, ForkSpec(rewind=0), Feed.ORIGIN)
    assert require_topic(connection("events"), str(made.output)) == 5
    assert f"the topic {made.output}" in forks.clear("run", made)
    again = forks.make("run", origin.name, ForkSpec(rewind=0), Feed.ORIGIN)
    assert f"the topic {again.output}" in forks.clear("run", None)
    with pytest.raises(SinkError):
        require_topic(connection("events"), str(made.output))


def test_a_launch_hears_of_the_newest_batch_of_its_own_queries(kafka: Broker, tmp_path: Path) -> None:
    """Other queries may write to the topic too; what is older than a new beginning does not count."""
    kafka.create("ends", partitions=2)
    spec, variables = stream(tmp_path, "ends"), dict(os.environ)
    sink = spec.sink
    assert isinstance(sink, KafkaSink)
    assert sink.end(spec, [QUERY], variables, 0.0) is None
    send(kafka, "ends", 6, [1])
    send(kafka, "ends", 7, [2])
    found = sink.end(spec, [QUERY], variables, 0.0)
    assert found is not None
    assert (found.batch, found.where) == (7, "the topic ends")
    assert sink.end(spec, ["another"], variables, 0.0) is None
    assert sink.end(spec, [QUERY], variables, time.time() + 60) is None


def test_what_a_restore_took_back_is_listed_for_readers(kafka: Broker, tmp_path: Path, store_url: str) -> None:
    """The records stay. Batches that get their numbers come behind them, with rows that may be the same or not."""
    root, topic_name = tmp_path / "origin", "restored"
    Archives(tmp_path / "archives").unpack("spark-4.3.0-changelog", root)
    kafka.create(topic_name, partitions=2)
    recorded = stream_of(root, files=17)
    (Path(recorded.checkpoint) / "metadata").unlink()
    made = stream(Path(recorded.checkpoint), topic_name)
    spec = replace(recorded, sink=made.sink, data=str(tmp_path / "data"))
    for batch in range(9, NEWEST + 1):
        send(kafka, topic_name, batch, [batch])
    create(spec, 11, Author(by="ann", reason=""))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with Store(store_url) as store:
        with pytest.raises(CheckpointError, match="2 records of batches after 11 in the topic restored can have been"):
            restore(store, spec, None, Request(author=Author(by="ann", reason="")))
        preview = preview_restore(spec, None)
        assert "2 records of batches after 11 in the topic restored stay, and are listed in" in preview.output
        assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before, "nothing is changed"
        done = restore(store, spec, None, Request(author=Author(by="ann", reason=""), confirmed=True))
    listed = Path(done.output.rpartition(" ")[2])
    cut, *records = map(json.loads, listed.read_text().splitlines())
    assert (cut["query"], cut["after"]) == (QUERY, 11)
    assert sorted(record["batch"] for record in records) == [12, 13]
    assert all(record["event_id"] for record in records)
    send(kafka, topic_name, 12, [12])  # the same row as before, with the same id
    send(kafka, topic_name, 13, [13, 14])
    found = read_topic(spec, {}, committed=13)
    assert sorted(found.rows) == [(9, 9), (10, 10), (11, 11), (12, 12), (13, 13), (14, 13)]
    assert found.repeated == 0
    listed.unlink()
    assert read_topic(spec, {}, committed=13).repeated == 2, "negative control: without the list they are repeats"
