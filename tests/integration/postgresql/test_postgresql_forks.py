"""Forks and savepoints of a stream whose sink is a table, with a checkpoint that a real Spark wrote, and rows that the
sink wrote."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.connections import variable
from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.drills.records.sections import ForkSpec
from streamwarden.errors import CheckpointError, DrillAborted
from streamwarden.lifecycle.exchanges.exchange import Exchange
from streamwarden.lifecycle.forks.places import SCHEMA
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.services.forks import gathering
from streamwarden.services.forks.forks import fork
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.forking import fork_from
from streamwarden.services.savepoints.restoring import Request, restore
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.sinks.postgresql.table import Column, Target
from streamwarden.sinks.postgresql.transaction import Batch, TableSink
from streamwarden.stream.spec import OutputMode, StreamSpec
from support.checkpoints.recorded import Archives, stream_of
from support.oracles.sink_tables import Base

NEWEST = 13


@pytest.fixture
def origin(base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamSpec:
    """14 batches, 0 to 13, with two rows each in the table; four input files are not read yet."""
    monkeypatch.setenv(variable("warehouse"), base.server.connection(base.name))
    root = tmp_path / "origin"
    Archives(tmp_path / "archives").unpack("spark-4.3.0-changelog", root)
    sink = PostgresqlSink(connection="warehouse", table="web.counts", key=("id",))
    spec = replace(stream_of(root, files=17), sink=sink)
    for number in range(NEWEST + 1):
        write(base, spec, number)
    return spec


def write(base: Base, spec: StreamSpec, number: int) -> bool:
    """The stream's next batch, as its driver writes it; into a fork's table too."""
    query = log_position(open_path(spec.checkpoint)).query_id
    assert query is not None
    schema, table = str(spec.sink.table).split(".")
    columns = (Column("id", "bigint"), Column("n", "integer"))
    target = Target(schema=schema, table=table, columns=columns, key=spec.sink.key)
    sink = TableSink(target, base.access(), stream=spec.name, token=1, waits=())
    sink.prepare(query)
    rows = [(2 * number, 0), (2 * number + 1, number)]
    return sink.write(Batch(query_id=query, batch_id=number, plan=f"plan {number}", rows=lambda: rows, count=2))


def schemas(base: Base) -> list[str]:
    return [name for (name,) in base.ask(f"SELECT nspname FROM pg_namespace WHERE nspname LIKE '{SCHEMA}%'")]


def count(base: Base, spec: StreamSpec) -> tuple[int, int | None]:
    """Rows and newest batch of a stream's table."""
    (found,) = base.ask(f"SELECT count(*), max(batch_id) FROM {spec.sink.table}")
    return found[0], found[1]


@pytest.mark.parametrize("rewind", [0, 3])
def test_a_fork_has_the_rows_up_to_its_batch_and_goes_on_from_there(
    base: Base, origin: StreamSpec, tmp_path: Path, rewind: int
) -> None:
    made = fork(origin, into=tmp_path / "fork", rewind=rewind)
    batch = NEWEST - rewind
    assert made.batch == batch
    assert count(base, made.spec) == (2 * (batch + 1), batch)
    report = read_checkpoint(open_path(made.spec.checkpoint))
    assert report.findings == ()
    assert (report.position.committed, report.position.query_id) == (batch, made.query_id)
    assert write(base, made.spec, batch + 1)
    assert count(base, made.spec) == (2 * (batch + 2), batch + 1)
    assert count(base, origin) == (2 * (NEWEST + 1), NEWEST), "nothing of the origin is changed"
    assert not write(base, origin, NEWEST)


def test_a_fork_from_the_beginning_has_an_empty_table_like_the_origins(
    base: Base, origin: StreamSpec, tmp_path: Path
) -> None:
    base.ask("ALTER TABLE web.counts ADD COLUMN noted timestamptz DEFAULT now()")
    made = fork(origin, into=tmp_path / "fork", rewind="all")
    assert count(base, made.spec) == (0, None)
    columns = "SELECT column_name, column_default, is_nullable FROM information_schema.columns WHERE table_schema ="
    place = str(made.spec.sink.table).split(".")[0]
    assert base.ask(f"{columns} '{place}'") == base.ask(f"{columns} 'web' AND table_name = 'counts'")
    assert base.ask(f"SELECT indexdef LIKE '%UNIQUE%(id)' FROM pg_indexes WHERE schemaname = '{place}'") == [(True,)]


def test_a_stream_that_never_ran_is_forked_from_the_beginning_only(
    base: Base, origin: StreamSpec, tmp_path: Path
) -> None:
    fresh = replace(origin, sink=replace(origin.sink, table="web.nothing_yet"))
    with pytest.raises(CheckpointError, match="has written no batch to the table yet"):
        fork(fresh, into=tmp_path / "fork", rewind=0)
    assert schemas(base) == []
    fork(fresh, into=tmp_path / "fork", rewind="all")
    assert len(schemas(base)) == 1


def test_the_fork_waits_for_the_commit_of_a_batch_that_is_in_the_table(
    base: Base, origin: StreamSpec, tmp_path: Path
) -> None:
    """The running driver commits it a moment later."""
    commit = Path(origin.checkpoint, "commits", str(NEWEST))
    content = commit.read_bytes()
    commit.unlink()
    later = threading.Timer(0.5, lambda: commit.write_bytes(content))
    later.start()
    assert fork(origin, into=tmp_path / "fork", rewind=0).batch == NEWEST
    later.join()


def test_a_driver_that_died_between_the_two_commits_is_told_and_nothing_is_left(
    base: Base, origin: StreamSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(origin.checkpoint, "commits", str(NEWEST)).unlink()
    monkeypatch.setattr(gathering, "COMMIT_WITHIN", 0.2)
    with pytest.raises(CheckpointError, match=f"commits/{NEWEST} did not come") as caught:
        fork(origin, into=tmp_path / "fork", rewind=0)
    assert "start the stream" in caught.value.next_step
    assert schemas(base) == []


def test_in_update_mode_there_is_no_table_of_earlier(base: Base, origin: StreamSpec, tmp_path: Path) -> None:
    updating = replace(origin, sink=replace(origin.sink, mode=OutputMode.UPDATE))
    with pytest.raises(CheckpointError, match="a row replaces the earlier one"):
        fork(updating, into=tmp_path / "fork", rewind=2)
    assert fork(updating, into=tmp_path / "fork", rewind=0).batch == NEWEST


def test_a_batch_that_the_checkpoint_does_not_keep_any_more_is_told(
    base: Base, origin: StreamSpec, tmp_path: Path
) -> None:
    Path(origin.checkpoint, "offsets", "9").unlink()
    with pytest.raises(CheckpointError, match="offsets/9 is gone"):
        fork(origin, into=tmp_path / "fork", rewind=4)
    with pytest.raises(CheckpointError, match="none 14 before that"):
        fork(origin, into=tmp_path / "fork", rewind=14)
    assert schemas(base) == []


def test_a_drills_fork_leaves_no_schema_behind_finished_or_not(base: Base, origin: StreamSpec, tmp_path: Path) -> None:
    drills = DrillForks(DrillArchive(tmp_path / "data"), lambda name: origin)
    made = drills.make("run-1", "minutes", ForkSpec(rewind=0), Feed.ORIGIN)
    assert made.output == f"{schemas(base)[0]}.counts"
    again = drills.make("run-1", "minutes", ForkSpec(rewind="all"), Feed.ORIGIN)
    assert again.output == made.output
    (schema,) = schemas(base)
    assert f"the schema {schema}" in drills.clear("run-1", again)
    assert schemas(base) == []
    assert not any("schema" in each for each in drills.clear("run-1", again))
    drills.make("run-1", "minutes", ForkSpec(rewind=0), Feed.ORIGIN)
    drills.clear("run-1", None)
    assert schemas(base) == []


def test_a_database_that_is_not_there_aborts_the_drill(
    base: Base, origin: StreamSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drills = DrillForks(DrillArchive(tmp_path / "data"), lambda name: origin)
    monkeypatch.setenv(variable("warehouse"), "postgresql://ann:secret-word@127.0.0.1:1/x")
    with pytest.raises(DrillAborted, match="cannot be reached") as caught:
        drills.make("run-1", "minutes", ForkSpec(rewind=0), Feed.ORIGIN)
    assert "secret-word" not in str(caught.value)
    monkeypatch.delenv(variable("warehouse"))
    with pytest.raises(DrillAborted, match="the connection 'warehouse' is not known here"):
        drills.make("run-1", "minutes", ForkSpec(rewind=0), Feed.ORIGIN)


ANN = Author(by="ann", reason="")


@pytest.fixture
def saved(origin: StreamSpec, tmp_path: Path) -> StreamSpec:
    """The stream with a savepoint of batch 10."""
    spec = replace(origin, data=str(tmp_path / "data"))
    assert create(spec, 10, ANN).sink.newest == NEWEST
    return spec


def test_a_fork_of_a_savepoint_has_the_rows_up_to_its_batch(base: Base, saved: StreamSpec, tmp_path: Path) -> None:
    made = fork_from(saved, Savepoints.of(saved).get(), tmp_path / "fork")
    assert made.batch == 10
    assert count(base, made.spec) == (22, 10)
    assert write(base, made.spec, 11)
    assert count(base, saved) == (2 * (NEWEST + 1), NEWEST), "nothing of the origin is changed"


def test_a_table_is_put_back_to_a_savepoint_in_one_transaction(base: Base, saved: StreamSpec, store_url: str) -> None:
    with Store(store_url) as store:
        done = restore(store, saved, None, Request(author=ANN))
    assert done.output == "6 rows of batches after 10 are removed from web.counts"
    assert count(base, saved) == (22, 10)
    plan = hashlib.sha256(Path(saved.checkpoint, "offsets/10").read_bytes()).hexdigest()
    assert base.ask("SELECT batch_id, plan, rows FROM web.streamwarden_sink") == [(10, plan, 2)]
    assert isinstance(saved.sink, PostgresqlSink)
    assert saved.sink.restore_output(saved, done.exchange, b"").startswith("0 rows"), "again, as after a kill"
    assert write(base, saved, 11)
    assert count(base, saved) == (24, 11)


def test_a_batch_that_was_not_executed_is_noted(base: Base, origin: StreamSpec) -> None:
    """A rewritten checkpoint has one. Without the note the writer refuses the batch after it."""
    with pytest.raises(CheckpointError, match=f"the table ends with batch {NEWEST}"):
        write(base, origin, NEWEST + 2)
    plan = Path(origin.checkpoint, f"offsets/{NEWEST}").read_bytes()
    rewrite = Exchange(
        operation="repartition",
        subject="8 partitions",
        command="",
        stream=origin.name,
        query_id=str(log_position(open_path(origin.checkpoint)).query_id),
        batch=NEWEST + 1,
        stamp="",
        by="ann",
        reason="",
        checkpoint=origin.checkpoint,
    )
    origin.sink.require_passable(origin, rewrite)
    assert origin.sink.pass_over(origin, rewrite, plan).startswith(f"batch {NEWEST + 1}, which has no rows, was noted")
    assert origin.sink.pass_over(origin, rewrite, plan) == "", "again, as after a kill"
    assert write(base, origin, NEWEST + 2)
    assert count(base, origin) == (2 * (NEWEST + 2), NEWEST + 2)


def test_a_table_that_cannot_be_put_back_is_left_as_it_is(base: Base, saved: StreamSpec, store_url: str) -> None:
    """In update mode rows were replaced; rows of another query do not say whose they are; rows are lost already."""
    asked = "UPDATE web.streamwarden_sink SET batch_id = 9"
    other = (
        "INSERT INTO web.streamwarden_sink (query_id, table_name, stream, batch_id, plan, token, rows)"
        " VALUES ('other', 'counts', 'x', 1, '', 0, 0)"
    )
    updating = replace(saved, sink=replace(saved.sink, mode=OutputMode.UPDATE))
    cases = (("SELECT 1", updating, "were replaced by later ones"), (other, saved, "of other queries"))
    with Store(store_url) as store:
        for statement, spec, message in (*cases, (asked, saved, "it ends with batch 9")):
            base.ask(statement)
            with pytest.raises(CheckpointError, match=message):
                restore(store, spec, None, Request(author=ANN))
    assert count(base, saved) == (2 * (NEWEST + 1), NEWEST)
    assert log_position(open_path(saved.checkpoint)).committed == NEWEST
