"""Keys in the states of real queries get other values, and the queries go on afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.lifecycle.events import EventKind
from streamwarden.lifecycle.surgery.assignment import Assignment
from streamwarden.services.analysis.history import history
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.verifying import require_whole
from streamwarden.services.state.assigning import Setting, assign, plan
from streamwarden.services.state.deleting import copies
from streamwarden.spark.state import assigning
from support.spark import stateful_queries as queries
from support.spark.state_surgery import ANN, ENCODING, FORMAT, Made, Stream, by_key, ran_once, rows_of

pytestmark = pytest.mark.spark


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
