"""Keys are deleted from the states of real queries, and get other values. The queries go on afterwards. The input is
folded in Python.

Each file is a minute of rows on five keys, in order, and a batch reads one file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.lifecycle.events import EventKind
from streamwarden.lifecycle.surgery.assignment import Assignment
from streamwarden.lifecycle.surgery.rewriting import Keys
from streamwarden.services.analysis.history import history
from streamwarden.services.fleet.claims import claim
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.verifying import require_whole
from streamwarden.services.state.assigning import Setting, assign, plan
from streamwarden.services.state.compacting import compact
from streamwarden.services.state.deleting import Deletion, copies, count, delete
from streamwarden.services.state.looking import Selection, show
from streamwarden.spark.state import assigning, taking_out
from streamwarden.spark.state.conditions import named
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import stream_of
from support.spark import stateful_queries as queries
from support.spark.state_looks import read_here
from support.spark.worker import ROCKSDB, minute_of_rows, publish

pytestmark = pytest.mark.spark

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
JOIN = "spark.sql.streaming.join.stateFormatVersion"
Query = Callable[..., Any]
ANN = Author(by="ann", reason="ticket 4711")
K1 = Keys(fields=("k1",))
KEYS = {"k0", "k1", "k2", "k3", "k4"}
DAY = 86_400_000


@dataclass
class Stream:
    """A query whose files are published one by one."""

    spark: Any
    spec: StreamSpec
    query: Query
    trigger: dict[str, Any]
    files: int = 0

    def read(self, files: int) -> None:
        """Publish so many files more, and read them, one a batch."""
        for _ in range(files):
            publish(self._folder, self.files, minute_of_rows(self.files))
            self.files += 1
            sources = len(signature(self.query).parameters)
            writer = self.query(*(self._rows() for _ in range(sources))).writeStream.format("parquet")
            writer = writer.option("checkpointLocation", self.spec.checkpoint).trigger(**self.trigger)
            writer.start(str(self.spec.sink.path)).awaitTermination()

    @property
    def _folder(self) -> Path:
        return Path(self.spec.checkpoint).parent / "given"

    def _rows(self) -> Any:
        from pyspark.sql import functions as f

        rows = self.spark.readStream.schema("id long, key string, at long").json(str(self._folder))
        return rows.withColumn("at", f.timestamp_millis("at")).withWatermark("at", "1 day")

    def seen(self, variable: str | None = None, operator: int | None = None) -> dict[str, list[Any]]:
        """Key -> the values of its rows, or when they expire if they have no value."""
        found: dict[str, list[Any]] = {}
        chosen = Selection(variable=variable, operator=operator)
        for entry in show(self.spec, chosen, rows=10_000).answer.entries:
            key = next((part for part in entry.key if str(part).startswith("k")), entry.key[0])
            value = entry.expires_ms if entry.value is None else tuple(json.loads(entry.value).values())
            found.setdefault(str(key), []).append(value)
        return found

    def tree(self) -> dict[str, bytes]:
        return files_in(Path(self.spec.checkpoint))


Made = Callable[..., Stream]


@pytest.fixture
def made(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    read_here(monkeypatch, spark)

    def make(query: Query, conf: dict[str, str] | None = None, trigger: dict[str, Any] | None = None) -> Stream:
        place = tmp_path / "a place"  # operators name their schemas by paths
        place.mkdir()
        usual = {PROVIDER: ROCKSDB, "spark.sql.shuffle.partitions": "2", ENCODING: "unsaferow"}
        for name, value in {**usual, **(conf or {})}.items():
            spark.conf.set(name, value)
        spec = replace(stream_of(place, files=0), data=str(tmp_path / "the data"))
        return Stream(spark, spec, query, trigger or {"availableNow": True})

    return make


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store(store_url) as opened:
        yield opened


def ran_once(store: Store, spec: StreamSpec) -> None:
    """The store knows a driver of the stream, which has ended."""
    record, lease = claim(store, Path(spec.data), spec, launched_by="test", ttl=30, now=time.time() - 100)
    store.drivers.launched(record)
    store.leases.release(lease, now=time.time() - 90)


Folded = dict[str, list[Any]]
Fold = Callable[[list[tuple[int, str, int]]], Folded]


def rows_of(files: range) -> list[tuple[int, str, int]]:
    return [row for index in files for row in minute_of_rows(index)]


def by_key(value: Callable[[list[int], list[int]], Any]) -> Fold:
    """A fold that makes the rows of a key of its ids and times."""

    def fold(rows: list[tuple[int, str, int]]) -> Folded:
        ids: dict[str, tuple[list[int], list[int]]] = {}
        for number, key, at in rows:
            ids.setdefault(key, ([], []))[0].append(number)
            ids[key][1].append(at)
        return {key: value(*found) for key, found in ids.items()}

    return fold


sums = by_key(lambda ids, _: [(len(ids), sum(ids))])


def after(fold: Fold, gone: str = "k1") -> Folded:
    """The state when a key was deleted after two files, and a third was read: it has the third alone."""
    return {**fold(rows_of(range(3))), gone: fold(rows_of(range(2, 3)))[gone]}


def without(folded: Folded, key: str = "k1") -> Folded:
    return {name: value for name, value in folded.items() if name != key}


def one_too_many(monkeypatch: pytest.MonkeyPatch, also: Any) -> None:
    """Let the rewriter keep or drop rows that it should not."""
    rightly = taking_out.without
    monkeypatch.setattr(taking_out, "without", lambda rows, keys: also(rows, rightly(rows, keys)))


def test_a_key_is_deleted_and_begins_anew(made: Made, store: Store) -> None:
    stream = made(queries.counted)
    spec, wanted = stream.spec, Deletion(keys=Keys(where="key.key = 'k1'"))
    stream.read(2)
    ran_once(store, spec)
    before = stream.tree()
    done = delete(store, spec, wanted, ANN)
    assert done.counted is not None
    assert (done.counted.found.keys, done.counted.found.rows) == (1, 1)
    assert stream.seen() == without(sums(rows_of(range(2))))
    aside = Path(str(done.exchanged.aside))
    assert {name: content for name, content in files_in(aside).items() if name != "exchange.json"} == before
    assert "k1" not in (aside / "exchange.json").read_text()
    (event,) = [event for event in history(store, spec.name, 0.0) if event.kind is EventKind.REWRITTEN]
    assert event.who == "ann"
    assert done.savepoint is not None
    digest, batch = wanted.keys.digest(spec.name), done.counted.batch
    assert event.why == (
        f"ticket 4711: deletion of keys, {digest}, batch {batch}; the output was not touched; "
        f"1 key with 1 row; savepoint {done.savepoint.id}"
    )
    require_whole(Savepoints.of(spec), done.savepoint)
    assert copies(spec) == ((done.savepoint.id,), (aside,))
    snapshots = {Path(name).name for name in stream.tree() if name.endswith((".zip", ".changelog"))}
    assert snapshots == {f"{done.counted.batch + 1}.zip"}, "no state of an earlier batch"

    stream.read(1)
    assert stream.seen() == after(sums)


def setting(*value: str, key: str = "k1", variable: str | None = None) -> Setting:
    return Setting(assignment=Assignment(keys=(f"key={key}",), value=value), variable=variable)


def written(stream: Stream, *columns: str) -> set[tuple[Any, ...]]:
    """The rows of the key k1 that the query has written."""
    rows = stream.spark.read.parquet(str(stream.spec.sink.path)).where("key = 'k1'")
    return {tuple(row) for row in rows.select(*columns).collect()}


def test_a_value_is_set_and_the_query_goes_on_from_it(made: Made, store: Store) -> None:
    stream = made(queries.in_processor)
    spec, wanted = stream.spec, setting("900")
    counts = by_key(lambda ids, _: [(len(ids),)])
    stream.read(1)
    ran_once(store, spec)
    before = stream.tree()
    asked = plan(spec, wanted).assigned
    assert asked.before is not None
    assert (asked.before.value, asked.after.value, asked.proven) == ('{"n":6}', '{"n":900}', 5)
    assert stream.tree() == before
    done = assign(store, spec, wanted, ANN)
    assert stream.seen() == {**counts(rows_of(range(1))), "k1": [(900,)]}
    assert done.savepoint is not None
    require_whole(Savepoints.of(spec), done.savepoint)
    journal = Path(str(done.exchanged.aside), "exchange.json").read_text()
    assert "k1" not in journal
    assert "900" not in journal
    (event,) = [event for event in history(store, spec.name, 0.0) if event.kind is EventKind.REWRITTEN]
    digest, batch = wanted.assignment.digest(spec.name), done.exchanged.exchange.batch
    assert event.why == (
        f"ticket 4711: setting of a value, {digest}, batch {batch}; the output was not touched; "
        f"1 row; savepoint {done.savepoint.id}"
    )
    stream.read(1)
    assert stream.seen() == {**counts(rows_of(range(2))), "k1": [(906,)]}
    assert written(stream, "n") == {(6,), (906,)}


def test_what_names_keys(spark: Any) -> None:
    """A condition is one over the key alone, and always has the same answer."""
    rows = spark.sql("SELECT named_struct('a', id, 'b', CAST(id AS STRING)) AS key, 1 AS value FROM range(4)")
    rows = rows.unionAll(spark.sql("SELECT named_struct('a', CAST(NULL AS BIGINT), 'b', 'x') AS key, 2 AS value"))

    def chosen(keys: Keys) -> list[str]:
        return [row.key.b for row in rows.where(named(rows, keys)).collect()]

    assert chosen(Keys(where="key.a > 2 OR key.b = '0'")) == ["0", "3"], "NULL is not chosen"
    assert chosen(Keys(fields=("a=1",))) == ["1"]
    assert chosen(Keys(fields=("a=null", "b=x"))) == ["x"]
    assert rows.where(~named(rows, Keys(where="key.a > 2"))).count() == 4, "the rest is what was not chosen"
    for wrong, said in [
        ("key.nobody = 1", "nobody"),
        ("value = 1", "value"),
        ("key.b", "it is a string"),
        ("rand() < 2", "another answer at each reading"),
        ("key.a =", "PARSE_SYNTAX_ERROR"),
        ("max(key.a) > 1", "INVALID_WHERE_CONDITION"),
    ]:
        with pytest.raises(ConfigError, match=said) as refused:
            named(rows, Keys(where=wrong))
        assert refused.value.expected == "a condition of Spark's SQL over key.a, key.b"
    with pytest.raises(ConfigError, match="the operator has no key"):
        named(spark.sql("SELECT struct() AS key"), Keys(where="true"))


SETTINGS = [
    ("counted", {CHANGELOG: "true"}, sums),
    ("counted", {FORMAT: "2"}, sums),
    ("distinct", {}, by_key(lambda ids, _: [None])),
    ("distinct_within_by_key", {}, by_key(lambda _, times: [times[0] + DAY])),
    ("in_pandas", {}, by_key(lambda ids, _: [(len(ids), "x" * len(ids))])),
]


@pytest.mark.full
@pytest.mark.parametrize(
    ("query", "conf", "fold"), SETTINGS, ids=[f"{name}-{list(conf)}" for name, conf, _ in SETTINGS]
)
def test_a_key_of_an_operator_with_one_table(made: Made, store: Store, query: str, conf: Any, fold: Fold) -> None:
    stream = made(getattr(queries, query), conf)
    stream.read(2)
    assert stream.seen() == fold(rows_of(range(2)))
    delete(store, stream.spec, Deletion(keys=Keys(fields=("key=k1",))), ANN)
    assert stream.seen() == without(fold(rows_of(range(2))))
    stream.read(1)
    assert stream.seen() == after(fold)


@pytest.mark.full
def test_one_key_too_many_is_noticed(made: Made, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = made(queries.counted)
    stream.read(1)
    before = stream.tree()
    one_too_many(monkeypatch, lambda _, rows: rows.where("partition_key.key <> 'k2'"))
    with pytest.raises(CheckpointError, match="0 keys appeared, 2 vanished, 0 changed"):
        delete(store, stream.spec, Deletion(keys=Keys(where="key.key = 'k1'")), ANN)
    assert stream.tree() == before
    assert copies(stream.spec) == ((), ())
    assert not list(Path(stream.spec.checkpoint).parent.glob("checkpoint.*"))


@pytest.mark.full
def test_a_state_is_compacted(made: Made, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream without maintenance has only changes; then it has one snapshot a partition, and goes on."""
    stream = made(queries.counted, {CHANGELOG: "true"})
    stream.read(3)
    ran_once(store, stream.spec)
    before = stream.tree()
    rightly = taking_out.rewrite_state

    def lossy(session: Any, *, change: Any, **more: Any) -> Any:
        return rightly(session, change=lambda operator, store, rows: rows.where("partition_key.key <> 'k2'"), **more)

    with monkeypatch.context() as wrong:  # the control
        wrong.setattr(taking_out, "rewrite_state", lossy)
        with pytest.raises(CheckpointError, match="0 keys appeared, 1 vanished, 0 changed"):
            compact(store, stream.spec, ANN)
    assert before.items() <= stream.tree().items(), "Spark may upload a snapshot meanwhile, and nothing else"
    done = compact(store, stream.spec, ANN)
    assert done.before is not None
    assert done.before.files > done.after.files == 2
    assert {Path(name).suffix for name in stream.tree() if "/SSTs/" not in name and name.startswith("state/0/0/")} == {
        ".zip", "", ".crc"
    }  # fmt: skip
    assert stream.seen() == sums(rows_of(range(3)))
    (event,) = [event for event in history(store, stream.spec.name, 0.0) if event.kind is EventKind.REWRITTEN]
    assert event.why.startswith("ticket 4711: compaction, batch ")
    stream.read(1)
    assert stream.seen() == sums(rows_of(range(4)))


@pytest.mark.full
def test_a_key_of_one_of_two_operators(made: Made, store: Store) -> None:
    """The session and its start go; the ids that the other operator has seen stay."""
    stream = made(queries.in_sessions_without_duplicates)
    stream.read(2)
    with pytest.raises(ConfigError, match="several operators keep state") as refused:
        count(stream.spec, Deletion(keys=K1))
    assert "--operator 0 (sessionWindowStateStoreSaveExec)" in refused.value.expected
    delete(store, stream.spec, Deletion(keys=K1, operator=0), ANN)
    counts = {key: values[0][2] for key, values in stream.seen(operator=0).items()}
    assert counts == {"k0": 12, "k2": 12, "k3": 12, "k4": 12}
    assert len(stream.seen(operator=1)) == 60
    stream.read(1)
    assert {key: values[0][2] for key, values in stream.seen(operator=0).items()} == {
        **dict.fromkeys(KEYS, 18),
        "k1": 6,
    }
    assert len(stream.seen(operator=1)) == 90


@pytest.mark.full
@pytest.mark.parametrize("version", ["2", "3"])
def test_both_sides_of_a_join(made: Made, store: Store, version: str) -> None:
    """The key finds only partners that come later."""
    stream = made(queries.joined_by_key, {JOIN: version})
    stream.read(2)
    found = count(stream.spec, Deletion(keys=K1)).found
    assert (found.keys, found.rows) == (1, 2 * (12 + 1)), "the rows of each side, and how many there are"
    delete(store, stream.spec, Deletion(keys=K1), ANN)
    for side in ("left", "right"):
        assert {key: len(rows) for key, rows in stream.seen(side).items()} == {"k0": 12, "k2": 12, "k3": 12, "k4": 12}
    stream.read(1)
    for side in ("left", "right"):
        assert {key: len(rows) for key, rows in stream.seen(side).items()} == {**dict.fromkeys(KEYS, 18), "k1": 6}
    pairs = stream.spark.read.parquet(str(stream.spec.sink.path)).groupBy("key").count().collect()
    assert {row.key: row["count"] for row in pairs} == {**dict.fromkeys(KEYS, 18 * 18), "k1": 12 * 12 + 6 * 6}


@pytest.mark.full
def test_a_join_that_spark_damages_is_refused(made: Made, store: Store) -> None:
    stream = made(queries.joined_by_key, {JOIN: "4"})
    stream.read(1)
    before = stream.tree()
    for refused in (
        lambda: count(stream.spec, Deletion(keys=K1)),
        lambda: delete(store, stream.spec, Deletion(keys=K1), ANN),
    ):
        with pytest.raises(CheckpointError, match="a join in state format 4"):
            refused()
    assert stream.tree() == before


@pytest.mark.full
@pytest.mark.parametrize("encoding", ["unsaferow", "avro"])
def test_every_variable_of_a_processor(
    made: Made, store: Store, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    """Values, lists in their order, maps, timers, and the indexes of times to live."""
    stream = made(queries.in_every_variable, {ENCODING: encoding}, {"once": True})
    stream.read(2)
    folds = {
        "count": by_key(lambda ids, _: [(len(ids),)]),
        "plain": by_key(lambda ids, _: [(len(ids),)]),
        "ids": by_key(lambda ids, _: [(number,) for number in ids]),
        "late": by_key(lambda ids, _: [(number,) for number in ids]),
        "last": by_key(lambda ids, _: [(number,) for number in {number % 7: number for number in ids}.values()]),
        "short": by_key(lambda ids, _: [(number,) for number in {number % 7: number for number in ids}.values()]),
    }
    before = stream.tree()
    if encoding == "avro":
        with monkeypatch.context() as wrong:  # the control: what no table shows is left
            kept = "partition_key.key <> 'k1' OR column_family_name = '$procTimers_timestampToKey'"
            one_too_many(wrong, lambda rows, _: rows.where(kept))
            with pytest.raises(CheckpointError, match=r"rows of the keys are left in \$procTimers_timestampToKey"):
                delete(store, stream.spec, Deletion(keys=K1), ANN)
        assert stream.tree() == before
    done = delete(store, stream.spec, Deletion(keys=K1), ANN)
    assert done.counted is not None
    families = {part.family for part in done.counted.found.parts}
    assert families >= {*folds, "$ttl_count", "$ttl_late", "$ttl_short", "$procTimers_keyToTimestamp"}
    assert_variables(stream, {name: without(fold(rows_of(range(2)))) for name, fold in folds.items()})
    assert {key: len(times) for key, times in stream.seen("timers").items()} == dict.fromkeys(KEYS - {"k1"}, 2)
    stream.read(1)
    assert_variables(stream, {name: after(fold) for name, fold in folds.items()})
    assert {key: len(times) for key, times in stream.seen("timers").items()} == {**dict.fromkeys(KEYS, 3), "k1": 1}


VALUES = [
    ("counted", {}, ("count=900", "sum=7"), (900, 7), (906, 7 + 31 + 36 + 41 + 46 + 51 + 56)),
    ("counted", {FORMAT: "2"}, ('{"count": 900, "sum": null}',), (900, None), (906, 261)),
    ("in_pandas", {}, ("n=900", "text="), (900, ""), (906, "xxxxxx")),
]


@pytest.mark.full
@pytest.mark.parametrize(("query", "conf", "given", "value", "then"), VALUES)
def test_the_value_of_an_operator_with_one_table(
    made: Made, store: Store, query: str, conf: Any, given: Any, value: Any, then: Any
) -> None:
    stream = made(getattr(queries, query), conf)
    stream.read(1)
    before = stream.seen()
    assign(store, stream.spec, setting(*given), ANN)
    assert stream.seen() == {**before, "k1": [value]}
    stream.read(1)
    assert stream.seen()["k1"] == [then]


@pytest.mark.full
def test_a_value_that_is_written_wrongly_is_discarded(
    made: Made, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written, another key is gone, too, and another value is written. The last has no encoding."""
    stream = made(queries.in_processor)
    stream.read(1)
    before = stream.tree()
    with_row, encoded = assigning.with_row, assigning.encoded

    def another(rows: Any, row: assigning.Row) -> Any:
        key, value = row.encoded
        return with_row(rows, replace(row, encoded=(key, value.replace(b"\x09", b"\x08"))))

    for name, wrong, said in [
        ("with_row", lambda rows, row: rows, "0 rows of the store went and 0 came"),
        ("with_row", lambda rows, row: with_row(rows, row).where("partition_key.key <> 'k2'"), "2 rows of the store"),
        ("with_row", another, "1 rows of the store went and 1 came, 0 of them"),
        ("encoded", lambda *rows: [(key, value + b"0") for key, value in encoded(*rows)], "0 of 5 values got"),
    ]:  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(assigning, name, wrong)
            with pytest.raises(CheckpointError, match=said):
                assign(store, stream.spec, setting("9"), ANN)
        assert stream.tree() == before
        assert copies(stream.spec) == ((), ())


@pytest.mark.full
@pytest.mark.parametrize("encoding", ["unsaferow", "avro"])
def test_the_values_of_a_processor(made: Made, store: Store, encoding: str) -> None:
    """A value with a time to live keeps it; a value that only another key has is added; the rest stays as it is."""
    stream = made(queries.in_every_variable, {ENCODING: encoding}, {"once": True})
    spec = stream.spec
    stream.read(1)
    before = stream.tree()
    for wanted, error, said in [
        (setting("9"), ConfigError, "the state has several tables"),
        (setting("9", variable="ids"), ConfigError, "has no value that could be set"),
        (setting("nine", variable="plain"), ConfigError, 'n: it is "nine"'),
        (setting("9", key="nobody", variable="plain"), CheckpointError, "the state has no such key"),
        (setting("9", variable="brief"), CheckpointError, "no time to live"),
        (setting("6", variable="plain"), CheckpointError, "the key has this value already"),
    ]:
        with pytest.raises(error, match=said):
            assign(store, spec, wanted, ANN)
    assert stream.tree() == before
    assert copies(spec) == ((), ())

    for wanted in (setting("900", variable="plain"), setting("700", variable="count")):
        assign(store, spec, wanted, ANN)
    assign(store, spec, setting("n=5", "text=five", variable="rare"), ANN)
    assert stream.seen("rare") == {"k0": [(1, "one")], "k1": [(5, "five")]}
    stream.read(1)
    counts = by_key(lambda ids, _: [(len(ids),)])(rows_of(range(2)))
    assert stream.seen("plain") == {**counts, "k1": [(906,)]}
    assert stream.seen("count") == {**counts, "k1": [(706,)]}
    assert stream.seen("late") == by_key(lambda ids, _: [(number,) for number in ids])(rows_of(range(2)))
    assert written(stream, "n", "counted", "rare") == {(6, 6, None), (906, 706, "five")}


def assert_variables(stream: Stream, expected: dict[str, Folded]) -> None:
    for variable, folded in expected.items():
        found = stream.seen(variable)
        if variable in ("last", "short"):
            found, folded = ({key: sorted(rows) for key, rows in side.items()} for side in (found, folded))
        assert found == folded, variable


def files_in(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
