"""Real drivers that write to a real PostgreSQL: killed between its commit and Spark's, replaced, and in update mode."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from streamwarden.adapters.connections import variable
from streamwarden.config.loading import load_stream
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.replay.replay import replay
from streamwarden.services.verifying.verification import verify
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import OutputMode, StreamSpec, TriggerSpec
from support.servers.postgres_server import PostgreSQL, running
from support.spark.database_kill import kill_after_database_commit
from support.spark.drivers import QUICK, Project, project, until
from support.spark.every_type import EVERY_TYPE
from support.spark.mid_batch import newest

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).resolve().parents[3]
FLIGHTS = 6_000

LATEST = f"""{EVERY_TYPE}
    return typed.withColumn("maybe", F.lit(None).cast("boolean"))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with running() as it:
        yield it


@pytest.fixture
def database(server: PostgreSQL, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of the test's own, known as the connection `warehouse`."""
    name = f"test_{id(request.node):x}"
    server.create(name)
    monkeypatch.setenv(variable("warehouse"), server.connection(name))
    return server.connection(name)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as it:
        yield it


def flights(data: Path) -> StreamSpec:
    """The repository's stream with a table for its sink: 12 batches with input, and it ends with it."""
    spec = load_stream(REPOSITORY / "config/streams/flight_departures.yaml", project=REPOSITORY, data=data)
    replay(Path(str(spec.source.path)), rows_per_file=500, limit=FLIGHTS)
    return replace(
        spec,
        source=replace(spec.source, max_files_per_trigger=1),
        sink=PostgresqlSink(
            connection="warehouse",
            table="flights.departures",
            key=("window_start", "origin", "carrier"),
        ),
        trigger=TriggerSpec(available_now=True),
        state=replace(spec.state, shuffle_partitions=2),
        spark=SparkSpec(master="local[2]", driver_memory=700 * 2**20, conf=dict(QUICK)),
    )


def ask(database: str, statement: str) -> list[tuple]:
    with psycopg.connect(database, autocommit=True) as session:
        cursor = session.execute(statement)  # type: ignore[call-overload]
        return cursor.fetchall() if cursor.description else []


@pytest.mark.full  # in the first tier drills/test_kafka_to_postgresql_drill kills a driver there
def test_a_driver_killed_between_the_two_commits_writes_each_row_once(
    made: Project, database: str, server: PostgreSQL
) -> None:
    spec = flights(made.data)
    cut = kill_after_database_commit(made, spec, database, after=3)
    assert ask(database, "SELECT batch_id FROM flights.streamwarden_sink") == [(cut,)]
    written = ask(database, f"SELECT count(*) FROM flights.departures WHERE batch_id <= {cut}")
    driver = made.start(spec)
    end = made.await_end(driver)
    assert end.kind is ExitKind.COMPLETED, f"{end}\n{made.log(driver)}"

    outcome = verify(spec)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.records == FLIGHTS
    assert outcome.expected > 5_000
    assert ask(database, f"SELECT count(*) FROM flights.departures WHERE batch_id <= {cut}") == written
    last = newest(spec.checkpoint, "commits")
    assert ask(database, "SELECT batch_id, token FROM flights.streamwarden_sink") == [(last, 2)]

    assert_secret(made, server)

    # Negative controls, on the same run.
    ask(database, "DELETE FROM flights.departures WHERE ctid = (SELECT min(ctid) FROM flights.departures)")
    assert verify(spec).lost == 1
    ask(database, "ALTER TABLE flights.departures ADD COLUMN uuid text, ALTER COLUMN flights TYPE double precision")
    changed, more = verify(spec).problems[-2:]
    assert changed == "the column flights is float8 in the output; the oracle expects bigint"
    assert more.startswith(
        "the output has the additional column uuid (text); the oracle declares window_start, origin, "
    )
    ask(database, "UPDATE flights.streamwarden_sink SET batch_id = 0")
    assert "has batches up to 0" in verify(spec).problems[0]


def assert_secret(made: Project, server: PostgreSQL) -> None:
    told = [path for path in made.data.rglob("*") if path.is_file() and server.password.encode() in path.read_bytes()]
    assert told == [], "the password is in a file of the driver's"


def test_update_mode_replaces_rows_and_a_replaced_driver_writes_nothing(
    made: Project, database: str, server: PostgreSQL
) -> None:
    made.publish(2)
    made.publish(extra=("no event",))
    sink = PostgresqlSink(connection="warehouse", table="latest", key=("key",), mode=OutputMode.UPDATE)
    spec = made.spec("latest", LATEST, sink=sink, trigger=TriggerSpec(available_now=True))
    driver = made.start(spec)
    end = made.await_end(driver)
    assert end.kind is ExitKind.COMPLETED, f"{end}\n{made.log(driver)}"
    at = datetime(2026, 1, 1, 0, 2, 17, tzinfo=UTC)
    with psycopg.connect(database) as session:
        session.execute("SET timezone TO 'UTC'")
        rows = session.execute("SELECT * FROM latest ORDER BY key").fetchall()
    assert [(key, n, batch) for key, n, *_, batch in rows] == [(key, 12, 2) for key in range(5)]
    assert rows[2][2:] == (
        at,
        datetime(1582, 10, 15, 1, 2, 3, 4),
        date(1, 1, 1),
        Decimal("3.00000"),
        [at],
        rows[2][7],
        {"id": 57, "at": "2026-01-01T00:02:17.000000Z", "none": None},
        {"ключ": [57]},
        b"\x00\xff",
        None,
        2,
    )
    assert str(rows[2][7]) == "[1.5, nan, None]"

    reports = [each.progress for each in made.store.batches.window("latest") if each.progress is not None]
    counted = [metric["malformed"] for each in reports for metric in each.observed_metrics.values()]
    assert sum(counted) == 1, "the batch is computed once"
    assert_secret(made, server)

    made.publish()
    ask(database, "UPDATE streamwarden_sink SET token = 999")  # a newer driver, on a host of its own, has written
    driver = made.start(spec)
    end = made.await_end(driver)
    assert end.kind is ExitKind.FENCED, f"{end}\n{made.log(driver)}"
    assert "fencing token 999" in end.message
    assert ask(database, "SELECT max(n), max(batch_id) FROM latest") == [(12, 2)]


AWAY = 10.0
"""Seconds for which the server is away: longer than a restart of it takes, shorter than a failover."""


@pytest.mark.full  # in the first tier drills/test_postgresql_drill waits for the database
def test_a_database_that_is_away_costs_no_driver_and_a_stop_does_not_wait_for_it(
    made: Project, database: str, server: PostgreSQL
) -> None:
    sink = PostgresqlSink(connection="warehouse", table="patient", key=("key",), mode=OutputMode.UPDATE)
    spec = made.spec("patient", LATEST, sink=sink)
    made.publish(2)
    driver = made.start(spec)
    made.await_batches(spec, 2)

    def waits() -> int:
        return made.fleet.log_path(driver).read_text(errors="replace").count("; again in ")

    server.stop()
    gone = time.monotonic()
    made.publish(2)
    until("attempts in vain", lambda: waits() >= 4 and time.monotonic() - gone > AWAY, told=lambda: made.log(driver))
    assert made.fleet.observe(driver).alive
    server.start()
    made.await_batches(spec, 4)
    assert ask(database, "SELECT DISTINCT n FROM patient") == [(16,)], "each row counted once"

    tried = waits()
    server.stop()
    made.publish()
    until("an attempt in vain", lambda: waits() >= tried + 3, told=lambda: made.log(driver))
    began = time.monotonic()
    stopped = made.fleet.stop("patient", requested_by="ann", reason="deploy")
    assert time.monotonic() - began < 2 * AWAY, "the stop waited for the database"
    assert stopped is not None
    assert stopped.exit is not None
    assert (stopped.exit.kind, stopped.exit.cut_batch) == (ExitKind.STOPPED, True), stopped.exit
    assert stopped.exit.message == "stopped by ann: deploy"
    assert [each.driver_id for each in made.store.drivers.history("patient", 0)] == [driver]

    server.start()
    made.start(spec)
    made.await_batches(spec, 5)
    assert ask(database, "SELECT DISTINCT n FROM patient") == [(20,)]
    made.fleet.stop("patient", requested_by="test", reason="done")
