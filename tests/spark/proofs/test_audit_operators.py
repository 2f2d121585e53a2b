"""The books of each kind of operator: right as streams of the catalogue write them, and caught without one row.

One Spark session runs the streams and reads their books, as the process of an audit does.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer

from streamwarden.adapters.connections import connection, variable
from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.topics import TopicRange
from streamwarden.config.loading import load_stream
from streamwarden.services.auditing.auditing import Request, audit, requested
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.restoring import Request as RestoreRequest
from streamwarden.services.savepoints.rewinding import Target, rewind
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.sources.kafka.export import read_messages
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.audit import AuditSpec, Counted
from streamwarden.stream.spec import OutputMode, SinkSpec, StreamSpec, TriggerSpec
from streamwarden.verification.comparing.balance import GROUPS, Audit, Outcome
from support.checkpoints.forged_output import Rows, copied, rewrite
from support.servers.kafka_broker import Broker
from support.servers.postgres_server import PostgreSQL
from support.spark.audits import audited_here
from support.spark.job_runs import publish
from support.spark.sessions import run_in

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).parents[3]
BEGAN = datetime(2023, 11, 13, 12, tzinfo=UTC)
FILES, LINES = 4, 30


def text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def events(chance: random.Random) -> list[list[str]]:
    """Events of ten minutes a file, a third of them repeated, some later than the watermark."""
    made: list[list[str]] = []
    known: list[str] = []
    for number in range(FILES):
        lines = []
        for index in range(LINES):
            if known and chance.random() < 0.3:
                lines.append(chance.choice(known[-40:]))
                continue
            at = BEGAN + timedelta(minutes=10 * number, seconds=chance.randrange(-1_500, 600))
            event = {"event_time": text(at), "event_id": f"{number}-{index}", "user_id": index % 7, "action": "login"}
            known.append(json.dumps(event))
            lines.append(known[-1])
        made.append(lines)
    return made


def flights(chance: random.Random) -> list[list[str]]:
    """Flights of four hours a file; some are reported hours late, some twice."""
    made: list[list[str]] = []
    known: list[str] = []
    for number in range(FILES):
        lines = []
        for index in range(LINES):
            if known and chance.random() < 0.2:
                lines.append(chance.choice(known[-60:]))
                continue
            at = BEGAN + timedelta(hours=4 * number, minutes=chance.randrange(-600, 240))
            flight = {
                "flight_id": f"{number}-{index}",
                "event_time": text(at),
                "origin": chance.choice(["JFK", "EWR"]),
                "carrier": "AA",
                "dest": "LAX",
                "tailnum": f"N{number}-{index % 9}",
                "departed_at": text(at),
                "dep_delay": index,
            }
            known.append(json.dumps(flight))
            lines.append(known[-1])
        made.append(lines)
    return made


def weather() -> list[list[str]]:
    """An observation for each hour of one airport, and for every second hour of the other."""
    made = []
    for number in range(FILES):
        hours = [BEGAN + timedelta(hours=hour) for hour in range(4 * number - 12, 4 * number + 4)]
        hours = hours[-4:] if number else hours
        observed = [(at, origin) for at in hours for origin in ("JFK", "EWR") if origin == "JFK" or at.hour % 2]
        made.append([json.dumps({"observed_at": text(at), "origin": origin, "temp": 1.5}) for at, origin in observed])
    return made


def sessions() -> list[list[str]]:
    """Events of ids whose client has a long timeout, a short one, or none of its own; some are their last."""
    return [
        [
            json.dumps({"id": f"{('web', 'kiosk', 'other')[index % 3]}:{index % 5}", "data": f"{number}/{index}"})
            if (number + index) % 4
            else json.dumps({"id": f"web:{index % 5}", "data": f"{number}/{index}", "is_last": True})
            for index in range(LINES)
        ]
        for number in range(FILES)
    ]


def actions() -> list[list[str]]:
    return [
        [json.dumps({"user_id": (number + index) % 7, "action": f"{number}/{index}"}) for index in range(LINES)]
        for number in range(FILES)
    ]


def readings(chance: random.Random) -> list[list[str]]:
    """Readings of a minute a file; some are later than the watermark."""
    made = []
    for number in range(FILES):
        moments = [BEGAN + timedelta(minutes=number, seconds=chance.randrange(-150, 60)) for _ in range(LINES)]
        made.append(
            [
                json.dumps(
                    {
                        "device_id": f"d-{index % 4}",
                        "session_id": f"s-{index % 2}",
                        "state": f"{number}/{index}",
                        "event_time": text(at),
                    }
                )
                for index, at in enumerate(moments)
            ]
        )
    return made


BY_CLOCK = {
    "user_sessions": (("web=1h", "kiosk=250ms", "*=1ms"), sessions),
    "user_action_counts": (("timeout=250ms",), actions),
}
"""Streams whose bounded run reads all its input in one batch -> their args and input: they run once for each file."""


INPUT = {"event_dedup": events, "device_heartbeats_event_time": readings}
"""Stream -> its input, if it is not `flights`."""


class Streams:
    """The streams that ran, by name."""

    def __init__(self, spark: Any, data: Path) -> None:
        self.spark = spark
        self.data = data
        self.specs: dict[str, StreamSpec] = {}

    def run(self, name: str) -> StreamSpec:
        if name in self.specs:
            return self.specs[name]
        spec = bounded(name, self.data)
        if name in BY_CLOCK:
            return self._by_clock(spec)
        folder = Path(str(spec.source.path))
        if not folder.exists():
            chance = random.Random(5)
            if spec.source.parts:
                publish(folder / "flights", flights(chance))
                publish(folder / "weather", weather())
            else:
                publish(folder, INPUT.get(name, flights)(chance))
        run_in(self.spark, spec)
        self.specs[name] = spec
        return spec

    def _by_clock(self, spec: StreamSpec) -> StreamSpec:
        args, lines = BY_CLOCK[spec.name]
        spec = replace(spec, args=args)
        for run, file in enumerate(lines()):
            publish(Path(str(spec.source.path)), [file], name=f"{run}-")
            run_in(self.spark, spec)
        self.specs[spec.name] = spec
        return spec

    def audit(
        self, spec: StreamSpec, folder: Path, last: int | None = None, request: Request | Audit | None = None
    ) -> Audit:
        return audited_here(spec, folder, request or requested(spec, last))


def bounded(name: str, data: Path) -> StreamSpec:
    spec = load_stream(REPOSITORY / f"config/streams/{name}.yaml", project=REPOSITORY, data=data)
    return replace(
        spec,
        source=replace(spec.source, max_files_per_trigger=1),
        trigger=TriggerSpec(available_now=True),
        state=replace(spec.state, shuffle_partitions=1),
    )


@pytest.fixture(scope="module")
def streams(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Streams:
    return Streams(spark, tmp_path_factory.mktemp("operators"))


OPERATORS = {
    "event_dedup": "deduplication",
    "flight_dedup": "deduplication within the watermark",
    "aircraft_rotations": "session windows",
    "flight_weather": "join of two streams",
    "user_sessions": "transformWithState",
    "user_action_counts": "transformWithState",
    "device_heartbeats_event_time": "transformWithState",
}


FURTHER = {"user_action_counts", "device_heartbeats_event_time"}
"""Other jobs with the operator of user_sessions."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] if name in FURTHER else []) for name in OPERATORS]
)
def test_the_books_of_an_operator(streams: Streams, tmp_path: Path, name: str) -> None:
    """They balance from the state after an earlier batch. From the first batch, and without one row, they balance but
    for this row."""
    spec = streams.run(name)
    newest = streams.audit(spec, tmp_path / "newest", last=2)
    assert newest.outcome is Outcome.BALANCED, newest.to_dict()
    assert newest.operator == OPERATORS[name]
    assert newest.range is not None
    assert newest.range.after >= 0

    copy = copied(spec, tmp_path / "forged")
    rewrite(copy, lambda rows: rows[1:])
    forged = streams.audit(copy, tmp_path / "forged-books")
    assert forged.outcome is Outcome.UNBALANCED
    assert forged.unbalanced == 1
    assert forged.counts is not None
    assert forged.totals["output"][forged.counts]
    assert max(forged.worst[0].differences.values()) >= 1
    assert GROUPS not in forged.worst[0].differences
    assert forged.batches, "the result names the batches"


def test_every_column_of_a_deduplication_is_balanced(streams: Streams, tmp_path: Path) -> None:
    """A text that was edited by hand is a row too many and a row too few."""

    def edit(rows: Rows) -> Rows:
        rows[0]["action"] = "edited"
        return rows

    copy = copied(streams.run("event_dedup"), tmp_path / "forged")
    rewrite(copy, edit)
    forged = streams.audit(copy, tmp_path / "books")
    assert (forged.outcome, forged.unbalanced) == (Outcome.UNBALANCED, 2)
    assert sorted((entry.key["action"], entry.differences["rows"]) for entry in forged.worst) == [
        ("edited", -1),
        ("login", 1),
    ]


def test_a_damaged_data_file_is_a_finding_that_names_it(streams: Streams, tmp_path: Path) -> None:
    copy = copied(streams.run("event_dedup"), tmp_path / "forged")
    rewrite(copy, lambda rows: rows)
    file = Path(str(copy.sink.path)) / "rewritten.parquet"
    file.write_bytes(b"x" * file.stat().st_size)
    found = streams.audit(copy, tmp_path / "books")
    assert found.outcome is Outcome.UNBALANCED
    assert found.problems[0].startswith("the data file rewritten.parquet cannot be read, and its rows are lost: ")
    assert found.problems[0] in found.sentence
    assert found.unbalanced


AGAIN = '"event_time"]).dropDuplicates(["event_id", "event_time"])'
CLOCK = '"event_time"]).selectExpr("*", "current_timestamp() AS written_at")'


@pytest.mark.parametrize(
    ("changed", "reason"),
    [(AGAIN, "several operators that keep state"), (CLOCK, "which has another value each time")],
)
def test_a_query_that_cannot_be_balanced_is_not_called_balanced(
    streams: Streams, tmp_path: Path, changed: str, reason: str
) -> None:
    """Of two operators that keep state the rows of the first are not in the output. A time of computation is another
    one in the audit."""
    spec = streams.run("event_dedup")
    job = tmp_path / "changed.py"
    text_of_job = Path(spec.job).read_text()
    job.write_text(text_of_job.replace('"event_time"])', changed))
    assert job.read_text() != text_of_job
    found = streams.audit(replace(spec, job=str(job)), tmp_path / "books")
    assert found.outcome is Outcome.UNDECIDED
    assert reason in str(found.impossible)


def test_a_declaration_that_is_missing_or_wrong_is_said(streams: Streams, tmp_path: Path) -> None:
    """Of a job with state of its own. An amount that the state does not hold as declared does not balance."""
    spec = streams.run("user_sessions")
    none = streams.audit(replace(spec, audit=AuditSpec()), tmp_path / "none")
    assert "`audit.counted` of the stream's file does not" in str(none.impossible)
    unknown = AuditSpec(counted={"events": Counted(variable="open", state="evnts")})
    assert "evnts" in str(streams.audit(replace(spec, audit=unknown), tmp_path / "unknown").impossible)
    forgotten = AuditSpec(counted={"events": Counted()})
    assert streams.audit(replace(spec, audit=forgotten), tmp_path / "forgotten").outcome is Outcome.UNBALANCED


# Services: the same flights from a topic, into another one and into a table, in both output modes. The books between
# topic and table are read once by a process of its own, as `streamwarden audit` does: it needs connections and jars.


@pytest.fixture(scope="module")
def services(streams: Streams, kafka: Broker, postgresql: PostgreSQL) -> Iterator[tuple[Broker, PostgreSQL]]:
    """A broker with the flights in a topic of two partitions, and a database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable("events"), kafka.connection)
        postgresql.create("warehouse")
        patch.setenv(variable("warehouse"), postgresql.connection("warehouse"))
        for topic in ("flights", "updates", "arrivals"):
            kafka.create(topic, partitions=2)
        for lines in flights(random.Random(5)):
            for topic in ("flights", "arrivals"):
                kafka.produce(topic, lines, partitions=(0, 1))
        yield kafka, postgresql


KEY = ("window_start", "origin", "carrier")


def on_services(streams: Streams, topic: str, sink: SinkSpec) -> StreamSpec:
    """The flights that are in the topic now, by a query that goes on where it ended."""
    spec = bounded("flight_departures", streams.data)
    options = {key: value for key, value in spec.source.options.items() if key == "timestampFormat"}
    spec = replace(
        spec,
        source=KafkaSource(connection="events", topic=topic, max_offsets_per_trigger=LINES, options=options),
        sink=sink,
        checkpoint=str(streams.data / "checkpoints" / topic),
    )
    run_in(streams.spark, spec)
    return spec


def without_one(kafka: Broker, topic: str, into: str) -> None:
    """A copy of a topic without its first record."""
    kafka.create(into)
    known = connection("events")
    (end,) = kafka.ends(topic, 1)
    producer = Producer(kafka.settings)
    for number, record in enumerate(read_messages(known, TopicRange(topic, 0, 0, end))):
        if number:
            producer.produce(into, record.value(), record.key(), headers=record.headers())
    assert producer.flush(30) == 0


def put_back(store_url: str, spec: StreamSpec, batches: int) -> Path:
    """Put the stream back by so many batches; returns the list of what remains in its topic."""
    ann = Author(by="ann", reason="a test")
    with Store(store_url) as store:
        newest = log_position(open_path(spec.checkpoint)).committed or 0
        rewind(store, spec, Target(batch=newest - batches), RestoreRequest(author=ann, confirmed=True))
    (listed,) = Path(spec.checkpoint).parent.glob("*.drop-event-ids-*.jsonl")
    return listed


@pytest.fixture(scope="module")
def departures(streams: Streams, services: tuple[Broker, PostgreSQL]) -> tuple[StreamSpec, KafkaSink]:
    """The flights of the topic, counted into another one."""
    services[0].create("departures")
    sink = KafkaSink(connection="events", topic="departures", key=KEY)
    return on_services(streams, "flights", sink), sink


def test_the_books_between_two_topics(
    streams: Streams,
    services: tuple[Broker, PostgreSQL],
    departures: tuple[StreamSpec, KafkaSink],
    tmp_path: Path,
) -> None:
    (kafka, _), (spec, sink) = services, departures
    found = streams.audit(spec, tmp_path / "whole")
    assert found.outcome is Outcome.BALANCED, found.to_dict()
    assert found.totals["output"]["flights"]
    assert found.totals["dropped"]["flights"]
    without_one(kafka, "departures", "lost")
    lost = streams.audit(replace(spec, sink=replace(sink, topic="lost")), tmp_path / "lost")
    assert (lost.outcome, lost.unbalanced) == (Outcome.UNBALANCED, 1)
    assert lost.batches


@pytest.mark.full  # in the first tier unit/verification/comparing/test_events has which copy of a record counts
def test_the_books_of_a_topic_that_a_stream_wrote_again_after_it_was_put_back(
    streams: Streams,
    services: tuple[Broker, PostgreSQL],
    departures: tuple[StreamSpec, KafkaSink],
    tmp_path: Path,
    store_url: str,
) -> None:
    (kafka, _), (spec, sink) = services, departures
    newest = streams.audit(spec, tmp_path / "newest", last=2)
    assert newest.outcome is Outcome.BALANCED, newest.to_dict()

    saved_in = replace(spec, data=str(tmp_path / "data"))
    listed = put_back(store_url, saved_in, 3)
    assert len(listed.read_text().splitlines()) > 1
    on_services(streams, "flights", sink)
    again = streams.audit(spec, tmp_path / "again")
    assert again.outcome is Outcome.BALANCED, "what was written again counts, and what it replaces does not"
    listed.write_text(re.sub(r'"(\d)": \d+', r'"\1": 999999999', listed.read_text()))
    assert streams.audit(spec, tmp_path / "hidden").outcome is Outcome.UNBALANCED, "negative control: the list is read"
    listed.unlink()

    kafka.forget("departures", 1)
    with pytest.raises(AssertionError, match="the topic cannot be read"):
        streams.audit(spec, tmp_path / "forgotten")
    kafka.forget("flights", 1)
    with pytest.raises(AssertionError, match="failed"):  # a record that is gone is not taken for one that was not read
        streams.audit(spec, tmp_path / "gone")


def without_first(server: PostgreSQL, table: str) -> None:
    with psycopg.connect(server.connection("warehouse"), autocommit=True) as session:
        session.execute(f"DELETE FROM {table} WHERE ctid = (SELECT min(ctid) FROM {table})")


def test_the_books_between_a_topic_and_a_table(
    streams: Streams, services: tuple[Broker, PostgreSQL], tmp_path: Path
) -> None:
    _, server = services
    table = PostgresqlSink(connection="warehouse", table="arrivals", key=KEY)
    assert table.mode is OutputMode.APPEND
    spec = on_services(streams, "arrivals", table)
    found = audit(spec)
    assert found.outcome is Outcome.BALANCED, found.to_dict()
    assert found.totals["output"]["flights"]
    without_first(server, "arrivals")
    lost = streams.audit(spec, tmp_path / "lost")
    assert (lost.outcome, lost.unbalanced) == (Outcome.UNBALANCED, 1)
    assert lost.batches


def test_in_mode_update_the_newest_row_of_each_group_is_the_state_before_and_the_input(
    streams: Streams, services: tuple[Broker, PostgreSQL], tmp_path: Path
) -> None:
    """Of the groups that a later batch has written again the table has no row of the audited batches any more."""
    kafka, server = services
    first, second, *later = flights(random.Random(5))
    kafka.produce("updates", [*first, *second], partitions=(0, 1))
    table = PostgresqlSink(connection="warehouse", table="departures", key=KEY, mode=OutputMode.UPDATE)
    spec = on_services(streams, "updates", table)
    found = streams.audit(spec, tmp_path / "books")
    assert found.outcome is Outcome.BALANCED, found.to_dict()
    assert found.totals["output"]["flights"]
    assert not found.totals["closing"]["flights"]

    request = requested(spec)
    kafka.produce("updates", later[0], partitions=(0, 1))
    on_services(streams, "updates", table)
    overtaken = streams.audit(spec, tmp_path / "overtaken", request=request)
    assert overtaken.outcome is Outcome.BALANCED, overtaken.to_dict()
    assert overtaken.totals["closing"]["flights"]

    without_first(server, "departures")
    lost = streams.audit(spec, tmp_path / "lost")
    assert (lost.outcome, lost.unbalanced) == (Outcome.UNBALANCED, 1)
    assert lost.batches
