"""Outputs of 100,000 rows with one deviation: by key and by whole rows, each is found and named for what it is.

Each of them has a count or a total that is right, except for the row that is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streamwarden.services.twins.comparing import compare
from streamwarden.services.twins.keys import WHOLE, RowKey
from streamwarden.services.verifying.matching import distinct_keys
from streamwarden.sinks.output import Output, Part
from streamwarden.verification.reconciliation import Reconciliation

pytestmark = pytest.mark.usefixtures("one_database")

ROWS = 100_000
BATCH = 12_500
BY_KEY = RowKey(("origin", "number"), "the sink's key")
WHOLE_ROWS = RowKey((), WHOLE)
KINDS = ("lost", "duplicated", "unexpected", "wrong")


@cache
def right() -> pa.Table:
    """The rows, in the order of the batches that wrote them."""
    number = pa.array(range(ROWS))
    origin = pc.binary_join_element_wise("JFK", pc.cast(pc.divide(number, BATCH), pa.string()), "-")
    return pa.table({"origin": origin, "number": number, "delay": pc.subtract(number, ROWS // 2)})


def output(table: pa.Table) -> Output:
    part = Part(table=table, count=table.num_rows)
    return Output(columns=tuple(table.column_names), parts=[part])


def taken(table: pa.Table, rows: Sequence[int]) -> pa.Table:
    return table.take(pa.array(rows))


def dropped(table: pa.Table) -> pa.Table:
    return taken(table, [number for number in range(ROWS) if number != 41_999])


def batch_twice(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table.slice(3 * BATCH, BATCH)])


def swapped(table: pa.Table) -> pa.Table:
    """Two keys have each other's value."""
    order = list(range(ROWS))
    order[10], order[99_000] = order[99_000], order[10]
    return table.set_column(2, "delay", taken(table, order).column("delay"))


def replaced(table: pa.Table) -> pa.Table:
    return taken(table, [77 if number == 5 else number for number in range(ROWS)])


def compared(change: Callable[[pa.Table], pa.Table], key: RowKey) -> Reconciliation:
    return compare(output(right()), output(change(right())), key, records=ROWS, tolerances={})


@pytest.mark.parametrize(
    ("change", "by_key", "by_whole_rows"),
    [
        (dropped, (1, 0, 0, 0), (1, 0, 0, 0)),
        (batch_twice, (0, BATCH, 0, 0), (0, BATCH, 0, 0)),
        (swapped, (0, 0, 0, 2), (2, 0, 2, 0)),
        (replaced, (1, 1, 0, 0), (1, 1, 0, 0)),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_one_deviation_in_a_hundred_thousand_rows_is_named(
    change: Callable[[pa.Table], pa.Table], by_key: tuple[int, ...], by_whole_rows: tuple[int, ...]
) -> None:
    for key, expected in ((BY_KEY, by_key), (WHOLE_ROWS, by_whole_rows)):
        outcome = compared(change, key)
        assert not outcome.exactly_once
        assert tuple(getattr(outcome, kind) for kind in KINDS) == expected, key


def test_the_rows_of_a_deviation_are_shown() -> None:
    assert compared(dropped, BY_KEY).samples["lost"] == ("(JFK-3, 41999): (-8001)",)
    (first, _) = compared(swapped, BY_KEY).samples["wrong"]
    assert first == "(JFK-0, 10): (49000), expected (-49990)"
    assert compared(replaced, BY_KEY).samples["duplicated"] == ("(JFK-0, 77): (-49923)",)


def test_the_same_rows_in_another_order_deviate_in_nothing() -> None:
    for key in (BY_KEY, WHOLE_ROWS):
        assert compared(lambda table: taken(table, range(ROWS - 1, -1, -1)), key).exactly_once


@pytest.mark.parametrize(
    ("rows", "distinct"),
    [
        ([(1, "a"), (1, "b"), (2, "a")], 3),
        ([(1, "a"), (1, "a"), (2, "a")], 2),
        ([(None, "a"), (None, "a")], 1),
        ([(float("nan"), "a"), (float("nan"), "a"), (0.0, "a"), (-0.0, "a")], 2),
        ([({"start": 1}, "a"), ({"start": 1}, "a"), ({"start": 2}, "a")], 2),
        ([], 0),
    ],
)
def test_how_many_keys_an_output_has(rows: list[tuple[Any, str]], distinct: int) -> None:
    assert distinct_keys(Output.of_rows(("id", "name"), rows), ("id", "name")) == distinct
