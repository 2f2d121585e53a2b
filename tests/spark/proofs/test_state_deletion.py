"""Keys are deleted from the states of real queries, which go on afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.lifecycle.events import EventKind
from streamwarden.lifecycle.surgery.rewriting import Keys
from streamwarden.services.analysis.history import history
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.verifying import require_whole
from streamwarden.services.state.deleting import Deletion, copies, count, delete
from streamwarden.spark.state.conditions import named
from support.spark import stateful_queries as queries
from support.spark.state_surgery import (
    ANN,
    CHANGELOG,
    DAY,
    ENCODING,
    FORMAT,
    JOIN,
    K1,
    KEYS,
    Fold,
    Folded,
    Made,
    Stream,
    after,
    by_key,
    files_in,
    one_too_many,
    ran_once,
    rows_of,
    sums,
    without,
)

pytestmark = pytest.mark.spark


def test_a_key_is_deleted_and_begins_anew(made: Made, store: Store) -> None:
    stream = made(queries.counted)
    spec, wanted = stream.spec, Deletion(keys=Keys(where="key.key = 'k1'"))
    stream.read(2)
    ran_once(store, spec)
    before = stream.tree()
    done = delete(store, spec, wanted, ANN)
    assert done.changed is not None
    assert (done.changed.found.keys, done.changed.found.rows) == (1, 1)
    assert stream.seen() == without(sums(rows_of(range(2))))
    aside = Path(str(done.exchanged.aside))
    assert {name: content for name, content in files_in(aside).items() if name != "exchange.json"} == before
    assert "k1" not in (aside / "exchange.json").read_text()
    (event,) = [event for event in history(store, spec.name, 0.0) if event.kind is EventKind.REWRITTEN]
    assert event.who == "ann"
    assert done.savepoint is not None
    digest, batch = wanted.keys.digest(spec.name), done.changed.batch
    assert event.why == (
        f"ticket 4711: deletion of keys, {digest}, batch {batch}; the output was not touched; "
        f"1 key with 1 row; savepoint {done.savepoint.id}"
    )
    require_whole(Savepoints.of(spec), done.savepoint)
    assert copies(spec) == ((done.savepoint.id,), (aside,))
    snapshots = {Path(name).name for name in stream.tree() if name.endswith((".zip", ".changelog"))}
    assert snapshots == {f"{done.changed.batch + 1}.zip"}, "no state of an earlier batch"

    stream.read(1)
    assert stream.seen() == after(sums)


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
    assert done.changed is not None
    families = {part.family for part in done.changed.found.parts}
    assert families >= {*folds, "$ttl_count", "$ttl_late", "$ttl_short", "$procTimers_keyToTimestamp"}
    assert_variables(stream, {name: without(fold(rows_of(range(2)))) for name, fold in folds.items()})
    assert {key: len(times) for key, times in stream.seen("timers").items()} == dict.fromkeys(KEYS - {"k1"}, 2)
    stream.read(1)
    assert_variables(stream, {name: after(fold) for name, fold in folds.items()})
    assert {key: len(times) for key, times in stream.seen("timers").items()} == {**dict.fromkeys(KEYS, 3), "k1": 1}


def assert_variables(stream: Stream, expected: dict[str, Folded]) -> None:
    for variable, folded in expected.items():
        found = stream.seen(variable)
        if variable in ("last", "short"):
            found, folded = ({key: sorted(rows) for key, rows in side.items()} for side in (found, folded))
        assert found == folded, variable
