"""The exactly-once sink on a real PostgreSQL, without Spark: batches, replays, successors, and rows that do not fit."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from streamwarden.errors import CheckpointError, ConfigError, JobError, LeaseLost, SinkError
from streamwarden.sinks.postgresql.batch_table import CHANNEL, Note
from streamwarden.sinks.postgresql.table import Column
from streamwarden.sinks.postgresql.transaction import Batch
from support.children import Line, children
from support.oracles.sink_tables import COUNTS, QUERY, Base, batch

FIRST = [(1, 10), (2, 20)]
SECOND = [(3, 30), (1, 11)]


def rows(base: Base, table: str = "counts") -> list[tuple[int, int, int]]:
    return base.ask(f"SELECT user_id, n, batch_id FROM {table} ORDER BY 3, 1")


def test_batches_are_appended_and_the_ledger_says_which(base: Base) -> None:
    sink = base.sink("web.counts")
    sink.prepare(None)
    assert sink.write(batch(0, FIRST))
    assert sink.write(batch(1, SECOND))
    assert sink.write(batch(2, []))
    assert rows(base, "web.counts") == [(1, 10, 0), (2, 20, 0), (1, 11, 1), (3, 30, 1)]
    assert base.ask("SELECT query_id, stream, table_name, batch_id, rows, token FROM web.streamwarden_sink") == [
        (QUERY, "counts", "counts", 2, 0, 1)
    ]


def test_a_batch_that_runs_again_is_skipped(base: Base) -> None:
    sink = base.sink()
    assert sink.write(batch(0, FIRST))
    assert not sink.write(batch(0, FIRST))
    assert not base.sink(token=2).write(batch(0, FIRST)), "nor by the driver that comes after a kill"
    assert rows(base) == [(1, 10, 0), (2, 20, 0)]


def test_in_update_mode_a_row_replaces_the_one_of_its_key(base: Base) -> None:
    sink = base.sink(key=["user_id"], replaces=True)
    sink.write(batch(0, FIRST))
    sink.write(batch(1, SECOND))
    assert rows(base) == [(2, 20, 0), (1, 11, 1), (3, 30, 1)]


def test_a_key_that_stands_in_a_batch_twice_is_told_and_nothing_of_the_batch_is_there(base: Base) -> None:
    sink = base.sink(key=["user_id"], replaces=True)
    with pytest.raises(JobError, match="a second time") as caught:
        sink.write(batch(0, [(1, 10), (1, 11)]))
    assert "add the column that distinguishes the rows to `sink.key`" in caught.value.next_step
    assert rows(base) == []


def test_appending_a_key_that_is_there_is_told(base: Base) -> None:
    sink = base.sink(key=["user_id"])
    sink.write(batch(0, FIRST))
    with pytest.raises(JobError, match=r"Key \(user_id\)=\(1\) already exists"):
        sink.write(batch(1, SECOND))
    assert rows(base) == [(1, 10, 0), (2, 20, 0)]


def test_a_replaced_driver_writes_nothing(base: Base) -> None:
    old, new = base.sink(token=7), base.sink(token=8)
    old.write(batch(0, FIRST))
    assert not new.write(batch(0, FIRST)), "the successor runs the batch again: from here on its token counts"
    new.write(batch(1, SECOND))
    with pytest.raises(LeaseLost, match="fencing token 8 has been at the table; this one has 7"):
        old.write(batch(2, [(9, 9)]))
    assert (9, 9, 2) not in rows(base)


def test_a_successor_that_only_skips_fences_its_predecessor(base: Base) -> None:
    old, new = base.sink(token=7), base.sink(token=8)
    old.write(batch(0, FIRST))
    assert not new.write(batch(0, FIRST))
    with pytest.raises(LeaseLost):
        old.write(batch(1, SECOND))
    assert len(rows(base)) == 2


def test_two_drivers_that_race_for_a_batch_write_it_once(base: Base) -> None:
    base.sink().prepare(None)

    def drive(line: Line) -> None:
        sink = base.sink(token=1)
        for number in range(5):
            line.say("ready")
            line.wait()
            line.say(sink.write(batch(number, [(number, i) for i in range(500)])))

    with children(2, drive) as both:
        for _ in range(5):
            assert [child.hear() for child in both] == ["ready", "ready"]
            for child in both:
                child.tell("go")
            assert sorted(child.hear() for child in both) == [False, True]
    assert base.ask("SELECT count(*), count(DISTINCT (user_id, n)) FROM counts") == [(2500, 2500)]


def test_a_driver_killed_in_mid_transaction_leaves_nothing(base: Base) -> None:
    base.sink().prepare(None)

    def drive(line: Line) -> None:
        def half() -> Iterator[tuple[int, int]]:
            yield from ((1, i) for i in range(50_000))
            line.say("half of it")
            line.wait()

        base.sink().write(batch(0, FIRST, give=half))

    with children(1, drive) as (child,):
        assert child.hear() == "half of it"
        child.kill()
    assert base.sink(token=2).write(batch(0, FIRST))
    assert rows(base) == [(1, 10, 0), (2, 20, 0)]


def test_a_replaced_driver_that_stands_still_in_mid_batch_holds_up_nobody(base: Base) -> None:
    """It was stopped (SIGSTOP), its lease ran out; when it goes on, its session is gone and it is fenced."""
    base.sink().prepare(None)

    def drive(line: Line) -> None:
        def half() -> Iterator[tuple[int, int]]:
            yield from ((1, i) for i in range(50_000))
            line.say("half of it")
            line.wait()
            yield from ((1, i) for i in range(50_000))

        try:
            base.sink(token=1, waits=(0.0,)).write(batch(0, FIRST, give=half))
        except LeaseLost:
            line.say("fenced")

    with children(1, drive) as (child,):
        assert child.hear() == "half of it"
        os.kill(child.pid, signal.SIGSTOP)
        began = time.monotonic()
        assert base.sink(token=2).write(batch(0, FIRST))
        assert time.monotonic() - began < 10
        os.kill(child.pid, signal.SIGCONT)
        child.tell("go")
        assert child.hear() == "fenced"
    assert rows(base) == [(1, 10, 0), (2, 20, 0)]


def test_a_source_of_rows_that_breaks_leaves_nothing(base: Base) -> None:
    def broken() -> Iterator[tuple[int, int]]:
        yield 1, 10
        raise RuntimeError("Spark lost an executor")

    with pytest.raises(RuntimeError, match="executor"):
        base.sink().write(batch(0, FIRST, give=broken))
    with pytest.raises(SinkError, match="1 rows of batch 0 arrived of 2"):
        base.sink().write(batch(0, FIRST, give=lambda: FIRST[:1]))
    assert rows(base) == []


def test_a_deadlock_is_tried_again(base: Base) -> None:
    """A person's transaction and the sink's upsert lock two rows in opposite order: PostgreSQL ends one of them."""
    sink = base.sink(key=["user_id"], replaces=True, waits=(0.0,) * 5)
    sink.write(batch(0, FIRST))
    # PostgreSQL looks for a deadlock once in a wait: by then the person must be waiting too.
    base.ask("ALTER ROLE CURRENT_USER SET deadlock_timeout = '3s'")
    began, asked = threading.Event(), []

    def give() -> Iterator[tuple[int, int]]:
        asked.append(1)
        began.set()
        yield from [(1, 11), (2, 21)]

    with psycopg.connect(base.server.connection(base.name)) as person:
        person.execute("SET deadlock_timeout = '1min'")  # so that the sink is the one that is ended
        person.execute("UPDATE counts SET n = 0 WHERE user_id = 2")
        writing = threading.Thread(target=lambda: sink.write(batch(1, [(1, 11), (2, 21)], give=give)))
        writing.start()
        assert began.wait(30)
        wait_for_lock(base)
        person.execute("UPDATE counts SET n = 0 WHERE user_id = 1")
    writing.join(30)
    base.ask("ALTER ROLE CURRENT_USER RESET deadlock_timeout")
    assert len(asked) >= 2, "the sink's transaction was not the one that was ended"
    assert rows(base) == [(1, 11, 1), (2, 21, 1)]


def wait_for_lock(base: Base) -> None:
    """Until a session waits for a lock."""
    while base.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == [(0,)]:
        pass


def test_a_checkpoint_that_was_set_back_is_told_instead_of_skipped(base: Base) -> None:
    sink = base.sink()
    for number in range(3):
        sink.write(batch(number, FIRST))
    with pytest.raises(CheckpointError, match="batches up to 2, and the checkpoint goes on with batch 1"):
        sink.write(batch(1, FIRST))
    with pytest.raises(CheckpointError, match="has planned another batch of that number"):
        sink.write(batch(2, SECOND, plan="other files"))
    assert len(rows(base)) == 6


def test_a_database_that_was_set_back_is_told(base: Base) -> None:
    sink = base.sink()
    sink.write(
        batch(4, FIRST),
    )
    with pytest.raises(CheckpointError, match="the table ends with batch 4, and the checkpoint goes on with batch 6"):
        sink.write(batch(6, SECOND))


def test_a_query_that_begins_anew_does_not_double_what_another_wrote(base: Base) -> None:
    base.sink().write(batch(0, FIRST))
    with pytest.raises(ConfigError, match="what another query wrote") as caught:
        base.sink().prepare("another-query")
    assert "TRUNCATE public.counts" in caught.value.next_step
    base.ask("TRUNCATE counts")
    fresh = base.sink()
    fresh.prepare("another-query")
    assert fresh.write(Batch(query_id="another-query", batch_id=0, plan="p", rows=lambda: FIRST, count=2))


def test_every_committed_batch_is_told_to_listeners_and_no_other(base: Base) -> None:
    sink = base.sink("web.counts")
    sink.prepare(None)
    with psycopg.connect(base.server.connection(base.name), autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        sink.write(batch(0, FIRST))
        sink.write(batch(0, FIRST))
        with pytest.raises(SinkError):
            sink.write(batch(1, FIRST, give=list))
        sink.write(batch(1, SECOND))
        heard = [Note.parse(each.payload) for each in listener.notifies(timeout=5, stop_after=2)]
        assert heard == [Note(query_id=QUERY, table="web.counts", batch_id=each) for each in (0, 1)]
        assert list(listener.notifies(timeout=0.2)) == []
    assert Note.parse(json.dumps({"batch_id": 1})) is None
    assert Note.parse("hello") is None


HOSTILE = ('a"b', "x'); DROP TABLE counts; --", "100%", "%s", "SELECT", "größe", " ", "{}", "a\\b")


def test_hostile_names_of_columns_are_names(base: Base) -> None:
    columns = [Column(name, "text") for name in HOSTILE]
    sink = base.sink("counts", columns, key=HOSTILE[:2], replaces=True)
    sink.prepare(None)
    sink.write(batch(0, [HOSTILE]))
    sink.write(batch(1, [(*HOSTILE[:2], *("new",) * 7)]))
    assert base.ask("SELECT * FROM counts") == [(*HOSTILE[:2], *("new",) * 7, 1)]


@pytest.mark.parametrize(
    ("columns", "key", "told"),
    [
        ([Column("batch_id", "bigint")], [], "the rows have a column batch_id"),
        ([Column("n", "bigint"), Column("n", "text")], [], "have the column n twice"),
        ([Column("n" * 64, "bigint")], [], "is too long"),
        ([Column("n", "bigint")], ["m"], "sink.key names m, which the rows do not have"),
    ],
)
def test_columns_that_can_be_none_are_told(base: Base, columns: list[Column], key: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        base.sink(columns=columns, key=key).prepare(None)
    assert base.ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]


@pytest.mark.parametrize(
    ("made", "key", "told"),
    [
        ("user_id bigint, n integer", [], "it lacks the column batch_id bigint"),
        ("user_id text, n integer, batch_id bigint", [], "its column user_id is text, and the rows have bigint"),
        ("user_id bigint, n smallint, batch_id bigint", [], "its column n is smallint, and the rows have integer"),
        ("user_id bigint, n integer, batch_id bigint, m text NOT NULL", [], "column m needs a value"),
        ("user_id bigint, n integer, batch_id bigint", ["user_id"], r"no primary key on \(user_id\)"),
        ("user_id bigint UNIQUE, n integer, batch_id bigint", ["user_id"], r"no primary key on \(user_id\)"),
    ],
)
def test_a_table_that_does_not_fit_is_told_before_the_first_row(
    base: Base, made: str, key: list[str], told: str
) -> None:
    base.ask(f"CREATE TABLE counts ({made})")
    with pytest.raises(ConfigError, match=told):
        base.sink(key=key, replaces=bool(key)).prepare(None)


def test_a_view_is_no_table(base: Base) -> None:
    base.ask("CREATE VIEW counts AS SELECT 1::bigint AS user_id, 2 AS n, 3::bigint AS batch_id")
    with pytest.raises(ConfigError, match="it is not a table"):
        base.sink().prepare(None)


def test_a_table_of_ones_own_that_is_wider_serves(base: Base) -> None:
    base.ask(
        "CREATE TABLE counts (note text DEFAULT 'kept', n bigint, id int GENERATED ALWAYS AS IDENTITY,"
        " batch_id bigint, user_id bigint, UNIQUE (n, user_id), PRIMARY KEY (user_id))"
    )
    sink = base.sink(key=["user_id"], replaces=True)
    sink.write(batch(0, FIRST))
    sink.write(batch(1, SECOND))
    assert base.ask("SELECT user_id, n, batch_id, note FROM counts ORDER BY 1") == [
        (1, 11, 1, "kept"),
        (2, 20, 0, "kept"),
        (3, 30, 1, "kept"),
    ]


@pytest.mark.parametrize("replaces", [False, True])
def test_a_table_that_drops_rows_by_a_trigger_is_told(base: Base, replaces: bool) -> None:
    sink = base.sink(key=["user_id"], replaces=replaces)
    sink.prepare(None)
    base.ask(
        "CREATE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF NEW.n = 10 THEN RETURN NULL; END IF; RETURN NEW; END $$"
    )
    base.ask("CREATE TRIGGER dropping BEFORE INSERT ON counts FOR EACH ROW EXECUTE FUNCTION drop_row()")
    with pytest.raises(ConfigError, match="took 1 of the 2 rows of batch 0"):
        sink.write(batch(0, FIRST))
    assert rows(base) == []


def test_a_null_in_the_key_is_told(base: Base) -> None:
    with pytest.raises(JobError, match='null value in column "user_id"'):
        base.sink(key=["user_id"]).write(batch(0, [(None, 1)]))


def test_a_nul_character_is_told_with_its_column(base: Base) -> None:
    sink = base.sink(columns=[Column("id", "bigint"), Column("note", "text")])
    with pytest.raises(JobError, match="column note") as caught:
        sink.write(batch(0, [(1, "fine"), (2, "not\x00fine")]))
    assert "without the character NUL" in caught.value.expected
    documents = base.sink("documents", columns=[Column("body", "jsonb")])
    with pytest.raises(JobError, match="column body"):
        documents.write(batch(0, [('{"a": "\\u0000"}',)]))


def test_a_person_may_own_the_table_and_the_driver_only_write(base: Base) -> None:
    base.sink().prepare(None)
    base.ask("CREATE ROLE writer LOGIN PASSWORD 'writers-word'")
    try:
        base.ask("GRANT USAGE ON SCHEMA public TO writer")
        base.ask("GRANT SELECT, INSERT, UPDATE ON counts, streamwarden_sink TO writer")
        uri = f"postgresql://writer:writers-word@127.0.0.1:{base.server.port}/{base.name}"
        assert base.sink(uri=uri).write(batch(0, FIRST))
        with pytest.raises(ConfigError, match="42501") as caught:
            base.sink("more", uri=uri).prepare(None)
        assert "grant" in caught.value.next_step
        assert "writers-word" not in str(caught.value)
    finally:
        base.ask("DROP OWNED BY writer")
        base.ask("DROP ROLE writer")


def test_the_columns_of_a_made_table_are_the_rows(base: Base) -> None:
    base.sink(columns=[*COUNTS, Column("at", "timestamp with time zone")], key=["user_id", "at"]).prepare(None)
    assert base.ask(
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns"
        " WHERE table_name = 'counts' ORDER BY ordinal_position"
    ) == [
        ("user_id", "bigint", "NO"),
        ("n", "integer", "YES"),
        ("at", "timestamp with time zone", "NO"),
        ("batch_id", "bigint", "NO"),
    ]
