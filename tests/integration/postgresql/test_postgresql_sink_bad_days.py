"""The exactly-once sink when the database is away, refuses, restarts, or cannot be understood."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from streamwarden.adapters.connections import variable
from streamwarden.adapters.postgresql.access import DatabaseAccess, access
from streamwarden.errors import ConfigError, SinkError, StreamwardenError
from streamwarden.lifecycle.failures.exits import failure
from support.oracles.sink_tables import COUNTS, Base, batch
from support.servers.postgres_server import USER, PostgreSQL, running

FIRST = [(1, 10), (2, 20)]
KEY = variable("warehouse")


def restarts(error: StreamwardenError) -> bool:
    """Whether a driver that ends with this error is started again."""
    return failure(type(error).__name__, str(error), at=0.0, cut_batch=None, built=True).curable


def test_a_server_that_is_not_there_is_told_after_the_attempts(base: Base) -> None:
    waited: list[float] = []
    sink = base.sink(uri=f"postgresql://{USER}:secret-word@127.0.0.1:1/x", waits=(0.5, 1.0), sleep=waited.append)
    with pytest.raises(SinkError, match="cannot be reached") as caught:
        sink.prepare(None)
    assert waited == [0.5, 1.0]
    assert "secret-word" not in f"{caught.value} {sink!r} {base.access()!r}"
    assert restarts(caught.value), "a restart may find the server"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("{password}", "wrong-word"), "the user and password of the connection"),
        (("{user}", "nobody"), "the user and password of the connection"),
        (("{database}", "nobody_made_it"), "the database that the connection names"),
    ],
)
def test_a_wrong_connection_is_told_at_once_and_its_password_not_shown(
    base: Base, change: tuple[str, str], words: str
) -> None:
    uri = f"postgresql://{{user}}:{{password}}@127.0.0.1:{base.server.port}/{{database}}".replace(*change)
    right = {"user": USER, "password": base.server.password, "database": base.name}
    sink = base.sink(uri=uri.format(**right), waits=(60.0,))
    began = time.monotonic()
    with pytest.raises(ConfigError) as caught:
        sink.prepare(None)
    assert words in caught.value.expected
    assert "warehouse" in caught.value.next_step
    assert time.monotonic() - began < 10
    assert "wrong-word" not in str(caught.value)
    assert base.server.password not in str(caught.value)
    assert not restarts(caught.value)


@pytest.fixture(scope="module")
def fragile() -> Iterator[PostgreSQL]:
    """A server that may be stopped: no other test is on it."""
    with running() as server:
        yield server


def test_a_server_that_restarts_in_mid_batch_is_waited_for(fragile: PostgreSQL) -> None:
    """The first attempt loses its session half way through its rows, the second finds no server, a later one all."""
    base = Base(fragile, "restarted")
    attempts: list[str] = []

    def give() -> Iterator[tuple[int, int]]:
        attempts.append("rows")
        yield 1, 10
        if len(attempts) == 1:
            fragile.stop()
        yield 2, 20

    def wait(seconds: float) -> None:
        attempts.append("wait")
        if len(attempts) == 3:
            fragile.start()

    sink = base.sink(waits=(0.0,) * 4, sleep=wait)
    sink.prepare(None)
    assert sink.write(batch(0, FIRST, give=give))
    assert attempts == ["rows", "wait", "wait", "rows"]
    assert base.ask("SELECT user_id, n FROM counts ORDER BY 1") == FIRST


def test_a_server_that_crashes_in_mid_transaction_has_nothing_of_it_and_then_all(fragile: PostgreSQL) -> None:
    """Its process for the sink's session dies by SIGKILL, with the batch's first rows in the table."""
    base = Base(fragile, "crashed")
    attempts: list[str] = []
    between: list[list[tuple[Any, ...]]] = []

    def give() -> Iterator[tuple[int, int]]:
        attempts.append("rows")
        yield from FIRST
        if len(attempts) == 1:
            fragile.crash(base.name)
            fragile.await_ready()

    def wait(seconds: float) -> None:
        attempts.append("wait")
        fragile.await_ready()
        between.append(base.ask("SELECT count(*) FROM counts"))

    sink = base.sink(key=["user_id"], waits=(0.0,) * 4, sleep=wait)
    sink.write(batch(0, []))
    assert sink.write(batch(1, FIRST, give=give))
    assert attempts[:2] == ["rows", "wait"]
    assert between[0] == [(0,)]
    assert base.ask("SELECT user_id, n, batch_id FROM counts ORDER BY 1") == [(1, 10, 1), (2, 20, 1)]
    assert base.ask("SELECT batch_id FROM streamwarden_sink") == [(1,)]


def test_a_deadlock_costs_an_attempt_and_changes_no_row(base: Base) -> None:
    """A person holds a row that the batch replaces, and waits for the batch table's, which the sink holds."""
    sink = base.sink(key=["user_id"], replaces=True, waits=(0.0, 0.0))
    sink.write(batch(0, FIRST))
    attempts: list[int] = []
    with psycopg.connect(base.server.connection(base.name)) as person, ThreadPoolExecutor(1) as elsewhere:
        person.execute("SET deadlock_timeout = '60s'")  # so the server ends the sink's transaction, not this one
        person.execute("UPDATE counts SET n = 0 WHERE user_id = 2")

        def takes_the_ledger() -> None:
            person.execute("SELECT * FROM streamwarden_sink FOR UPDATE")
            person.commit()

        def give() -> Iterator[tuple[int, int]]:
            attempts.append(1)
            if len(attempts) == 1:
                waiting.append(elsewhere.submit(takes_the_ledger))
                _await_waiting(base, person.info.backend_pid)
            yield from [(2, 21), (3, 30)]

        waiting: list[Future[None]] = []
        assert sink.write(batch(1, [(2, 21), (3, 30)], give=give))
        waiting[0].result(timeout=20)
    assert len(attempts) == 2
    assert base.ask("SELECT user_id, n, batch_id FROM counts ORDER BY 1") == [(1, 10, 0), (2, 21, 1), (3, 30, 1)]
    assert base.ask("SELECT deadlocks > 0 FROM pg_stat_database WHERE datname = current_database()") == [(True,)]


def test_a_deadlock_without_another_attempt_is_told_and_leaves_nothing(base: Base) -> None:
    base.sink(key=["user_id"], replaces=True).write(batch(0, FIRST))
    with psycopg.connect(base.server.connection(base.name)) as person, ThreadPoolExecutor(1) as elsewhere:
        person.execute("SET deadlock_timeout = '60s'")
        person.execute("UPDATE counts SET n = n WHERE user_id = 2")

        def give() -> Iterator[tuple[int, int]]:
            waiting.append(elsewhere.submit(person.execute, "SELECT * FROM streamwarden_sink FOR UPDATE"))
            _await_waiting(base, person.info.backend_pid)
            yield from [(2, 21), (3, 30)]

        waiting: list[Future[Any]] = []
        with pytest.raises(SinkError, match="40P01") as caught:
            base.sink(key=["user_id"], replaces=True).write(batch(1, [(2, 21), (3, 30)], give=give))
        waiting[0].result(timeout=20)
    assert restarts(caught.value)
    assert base.ask("SELECT user_id, n FROM counts ORDER BY 1") == FIRST


def _await_waiting(base: Base, pid: int) -> None:
    deadline = time.monotonic() + 20
    while base.ask(f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {pid}") != [("Lock",)]:
        assert time.monotonic() < deadline, "it waits for no lock"
        time.sleep(0.02)


MANY = [(number, number) for number in range(60_000)]
"""About 2.6 MB of a table."""


@pytest.fixture
def disk(fragile: PostgreSQL) -> Iterator[Path]:
    """A disk of 1 MB that the server may write to."""
    user, group = fragile.owner
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-disk-"))  # below a folder that the server's user may enter
    options = f"size=1m,uid={user},gid={group},mode=0700"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        folder.rmdir()
        pytest.skip(f"a small tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")
    folder.chmod(0o700)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def test_a_disk_that_is_really_full_takes_no_part_of_a_batch_and_then_all_of_it(
    fragile: PostgreSQL, disk: Path
) -> None:
    base = Base(fragile, "filled")
    fragile.run(f"CREATE TABLESPACE small LOCATION '{disk}'")
    try:
        fragile.run("ALTER DATABASE filled SET default_tablespace = small")
        waited: list[float] = []
        sink = base.sink(waits=(1.0,), sleep=waited.append)
        assert sink.write(batch(0, FIRST))
        with pytest.raises(SinkError, match=r"53100.*No space left on device") as caught:
            sink.write(batch(1, MANY))
        assert waited == [1.0]
        assert restarts(caught.value)
        assert "free disk space" in caught.value.next_step
        assert base.ask("SELECT user_id, n FROM counts ORDER BY 1") == FIRST

        def make_room(seconds: float) -> None:
            waited.append(seconds)
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True, capture_output=True)

        assert base.sink(token=2, waits=(2.0,), sleep=make_room).write(batch(1, MANY))
        assert waited == [1.0, 2.0]
        assert base.ask("SELECT count(*), max(batch_id) FROM counts") == [(len(FIRST) + len(MANY), 1)]
    finally:
        base.drop()
        fragile.run("DROP TABLESPACE small")


class Cut(psycopg.Connection[Any]):
    """A session that is cut after the server took its commit and before the answer came."""

    def commit(self) -> None:
        super().commit()
        self.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOnce(DatabaseAccess):
    cuts: list[int]

    def open(self, application: str) -> psycopg.Connection[Any]:
        cut = not self.cuts
        self.cuts.append(1)
        return Cut.connect(**self.parameters) if cut else DatabaseAccess.open(self, application)


def test_a_commit_whose_answer_was_lost_is_found_in_the_ledger(base: Base) -> None:
    sink = base.sink(waits=(0.0,))
    sink.write(batch(0, []))
    sink._access = CutOnce(connection="warehouse", parameters=base.access().parameters, cuts=[])
    assert not sink.write(batch(1, FIRST)), "the second attempt found what the first had written"
    assert base.ask("SELECT user_id, n FROM counts ORDER BY 1") == FIRST


def test_a_table_that_somebody_keeps_locked_fails_in_time(base: Base) -> None:
    base.sink().prepare(None)
    uri = base.server.connection(base.name) + "?options=-c%20lock_timeout%3D200ms"
    with psycopg.connect(base.server.connection(base.name)) as person:
        person.execute("LOCK TABLE counts IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        with pytest.raises(SinkError, match="55P03") as caught:
            base.sink(uri=uri, waits=(0.0,)).write(batch(0, FIRST))
        assert time.monotonic() - began < 10
        assert "pg_locks" in caught.value.next_step
    assert base.sink().write(batch(0, FIRST))


def test_a_full_disk_is_tried_again_and_told(base: Base) -> None:
    """Where no disk can be filled, as far as a session sees it: the server raises 53100 for a row, as for a page."""
    base.sink().prepare(None)
    base.ask(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"
    )
    base.ask("CREATE TRIGGER full_disk BEFORE INSERT ON counts FOR EACH ROW EXECUTE FUNCTION full_disk()")
    waited: list[float] = []
    with pytest.raises(SinkError, match="53100") as caught:
        base.sink(waits=(1.0, 2.0), sleep=waited.append).write(batch(0, FIRST))
    assert waited == [1.0, 2.0]
    assert restarts(caught.value)
    assert base.ask("SELECT count(*) FROM counts") == [(0,)]
    base.ask("DROP TRIGGER full_disk ON counts")
    assert base.sink().write(batch(0, FIRST))


def test_a_server_that_acknowledges_before_it_writes_is_made_to_wait(base: Base) -> None:
    """With synchronous_commit off a crash of the server could take a batch back that Spark has committed."""
    uri = base.server.connection(base.name) + "?options=-c%20synchronous_commit%3Doff"
    sink = base.sink("kept", [*COUNTS], uri=uri)
    sink.prepare(None)
    base.ask("CREATE TABLE seen (value text)")
    base.ask(
        "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$"
    )
    base.ask("CREATE TRIGGER look AFTER INSERT ON kept EXECUTE FUNCTION look()")
    sink.write(batch(0, FIRST))
    assert base.ask("SELECT value FROM seen") == [("on",)]


def test_the_extra_of_the_connection_reaches_the_server(server: PostgreSQL, base: Base) -> None:
    extra = {"sslmode": "disable", "options": "-c lock_timeout=7s", "cursor": "dictcursor"}
    body = {
        "conn_type": "postgres",
        "host": f"127.0.0.1:1,127.0.0.1:{server.port}",
        "login": USER,
        "password": server.password,
        "schema": base.name,
        "extra": extra,
    }
    with access("warehouse", {KEY: json.dumps(body)}).open("flight_departures") as session:
        asked = session.execute(
            "SELECT current_setting('application_name'), current_setting('lock_timeout'), current_setting('timezone')"
        )
        assert asked.fetchone() == ("flight_departures", "7s", "UTC")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"conn_type": "mysql", "host": "h"}, "is of the type mysql"),
        ({"conn_type": "postgres", "host": "h", "extra": {"iam": "secret-word"}}, "has iam in its extra"),
    ],
)
def test_a_connection_that_is_none_of_postgresql_is_told(body: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        access("warehouse", {KEY: json.dumps(body)})
    assert "secret-word" not in str(caught.value)
