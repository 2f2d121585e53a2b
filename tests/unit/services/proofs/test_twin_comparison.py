"""How the rows of a broken fork are compared with those of its twin: by which key, and which columns are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.errors import VerificationError
from streamwarden.services.twins.comparing import compare, unstable_columns
from streamwarden.services.twins.comparison import without_common
from streamwarden.services.twins.keys import DECLARED, WHOLE, RowKey, find_key
from streamwarden.services.verifying.recount import recount
from streamwarden.sinks.output import Output, Part
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.column_types import parse_type
from streamwarden.verification.reconciliation import Reconciliation
from streamwarden.verification.tolerance import Tolerance

pytestmark = pytest.mark.usefixtures("one_database")

PLANS = Path(__file__).parents[3] / "data" / "plans"
COLUMNS = ("id", "origin", "total")
RIGHT = [(1, "EWR", 10), (2, "JFK", 20), (3, "LGA", 30)]
BY_ID = RowKey(("id",), "the sink's key")
WHOLE_ROW = RowKey((), WHOLE)
BOTH = pytest.mark.parametrize("key", [BY_ID, WHOLE_ROW], ids=["key", "whole rows"])


def output(rows: Sequence[tuple[object, ...]], columns: tuple[str, ...] = COLUMNS) -> Output:
    return Output.of_rows(columns, rows)


def compared(rows: Sequence[tuple[object, ...]], key: RowKey, **more: object) -> Reconciliation:
    return compare(output(RIGHT), output(rows), key, records=3, tolerances={}, **more)  # type: ignore[arg-type]


@BOTH
def test_the_same_rows_in_another_order_are_exactly_once(key: RowKey) -> None:
    assert compared(RIGHT[::-1], key).exactly_once


@BOTH
def test_a_row_that_the_sink_dropped_is_lost(key: RowKey) -> None:
    assert compared(RIGHT[1:], key).lost == 1


@BOTH
def test_a_batch_that_was_written_twice_is_not_exactly_once(key: RowKey) -> None:
    outcome = compared([*RIGHT, *RIGHT[:2]], key)
    assert (outcome.lost, outcome.duplicated + outcome.unexpected) == (0, 2)


@BOTH
def test_rows_that_were_swapped_between_two_keys_are_found_although_the_totals_are_equal(key: RowKey) -> None:
    outcome = compared([(1, "EWR", 20), (2, "JFK", 10), RIGHT[2]], key)
    assert not outcome.exactly_once
    assert outcome.wrong + outcome.unexpected == 2


@BOTH
def test_a_duplicate_that_replaces_a_lost_row_is_found_although_the_count_is_equal(key: RowKey) -> None:
    outcome = compared([RIGHT[0], RIGHT[0], RIGHT[2]], key)
    assert (outcome.actual, outcome.lost) == (3, 1)
    assert outcome.duplicated + outcome.unexpected == 1


def test_a_row_that_is_there_twice_in_the_twin_too_is_expected_twice() -> None:
    twice = [RIGHT[0], RIGHT[0]]
    same = compare(output(twice), output(twice), WHOLE_ROW, records=2, tolerances={})
    assert same.exactly_once
    assert compare(output(twice), output(twice[:1]), WHOLE_ROW, records=2, tolerances={}).lost == 1


def test_lists_maps_and_nan_are_compared_by_value() -> None:
    rows = [([1, {"a": [2]}], float("nan"), b"x")]
    again = [([1, {"a": [2]}], float("nan"), b"x")]
    assert compare(output(rows), output(again), WHOLE_ROW, records=1, tolerances={}).exactly_once
    other = [([1, {"a": [3]}], float("nan"), b"x")]
    assert not compare(output(rows), output(other), WHOLE_ROW, records=1, tolerances={}).exactly_once


def test_a_type_that_changed_is_a_problem_although_the_values_are_equal() -> None:
    def typed(kind: str) -> Output:
        return Output.of_rows(COLUMNS, RIGHT, types={"total": (parse_type(kind),)})

    outcome = compare(typed("bigint"), typed("double"), BY_ID, records=3, tolerances={})
    assert outcome.problems == ("the column total is double in the fork, and bigint in the twin",)
    assert not outcome.exactly_once


def test_a_tolerance_allows_the_last_digits_and_no_more() -> None:
    near, bound = [(1, "EWR", 10 * (1 + 1e-12)), *RIGHT[1:]], {"total": Tolerance(relative=1e-9)}
    assert compare(output(RIGHT), output(near), BY_ID, records=3, tolerances=bound).exactly_once
    far = [(1, "EWR", 10.001), *RIGHT[1:]]
    assert compare(output(RIGHT), output(far), BY_ID, records=3, tolerances=bound).wrong == 1


@pytest.mark.parametrize(("key", "column"), [(WHOLE_ROW, "total"), (BY_ID, "totl"), (BY_ID, "id")])
def test_a_tolerance_that_would_be_ignored_is_refused(key: RowKey, column: str) -> None:
    with pytest.raises(VerificationError, match=f"names {column}"):
        compare(output(RIGHT), output(RIGHT), key, records=3, tolerances={column: Tolerance(relative=0.1)})


def unstable(one: Sequence[tuple[object, ...]], other: Sequence[tuple[object, ...]], key: RowKey) -> tuple[str, ...]:
    return unstable_columns(output(one), output(other), key, {})


@BOTH
def test_a_column_that_two_unbroken_runs_do_not_repeat_is_named_and_the_rest_is_compared(key: RowKey) -> None:
    first, second = ([(*row[:2], f"{run}{row[0]}") for row in RIGHT] for run in "ab")
    assert unstable(first, second, key) == ("total",)
    fork = [(*row[:2], f"c{row[0]}") for row in RIGHT]
    done = compare(output(first), output(fork), key, records=3, tolerances={}, left_out=["total"])
    assert done.exactly_once
    lost = compare(output(first), output(fork[1:]), key, records=3, tolerances={}, left_out=["total"])
    assert lost.lost == 1


def test_a_column_that_one_side_alone_has_is_a_problem_although_all_of_its_values_are_null() -> None:
    """Rows that lack a column and rows that are NULL in it are equal, row by row."""
    empty = [(*row, None) for row in RIGHT]
    more = output(empty, (*COLUMNS, "note"))
    lacks = compare(more, output(RIGHT), BY_ID, records=3, tolerances={})
    assert lacks.problems == ("the fork's output has no column note, and the twin's has",)
    has = compare(output(RIGHT), more, WHOLE_ROW, records=3, tolerances={})
    assert has.problems == ("the fork's output has the column note, and the twin's has not",)
    assert not lacks.exactly_once
    assert not has.exactly_once
    assert compare(more, more, BY_ID, records=3, tolerances={}).exactly_once
    assert compare(output([]), Output(columns=(), parts=[]), BY_ID, records=3, tolerances={}).problems == ()


def test_a_column_that_is_no_more_written_after_a_restart_is_a_problem_although_its_values_are_null() -> None:
    empty = output([(*row, None) for row in RIGHT[1:]], (*COLUMNS, "note")).parts[0]
    less = output(RIGHT[1:]).parts[0]
    first = output([(*RIGHT[0], "a")], (*COLUMNS, "note")).parts[0]

    def written(*parts: Part) -> Output:
        files = [replace(part, file=f"/out/part-{number}.parquet") for number, part in enumerate(parts)]
        return Output(columns=(*COLUMNS, "note"), parts=files)

    same = compare(written(first, empty), written(first, empty), BY_ID, records=3, tolerances={})
    assert same.exactly_once
    outcome = compare(written(first, empty), written(first, less), BY_ID, records=3, tolerances={})
    assert not outcome.rows_differ
    assert outcome.problems == (
        "files with 2 rows of the fork's output have no column note, and files with 0 of the twin's",
    )


@BOTH
def test_of_a_column_that_is_left_out_the_nulls_and_the_type_are_compared(key: RowKey) -> None:
    twin, fork = ([(*row[:2], f"{run}{row[0]}") for row in RIGHT] for run in "ab")
    without = [(*row[:2], None) for row in RIGHT]
    lost = compare(output(twin), output(without), key, records=3, tolerances={}, left_out=["total"])
    assert lost.rows_differ
    recounted = lost.evidence
    assert recount(recounted.sides, recounted.keys, recounted.values, {}, whole=recounted.whole).kinds == lost.kinds  # type: ignore[attr-defined]
    typed = [
        replace(output(rows), types={"total": (parse_type(kind),)}) for rows, kind in ((twin, "string"), (fork, "int"))
    ]
    other = compare(*typed, key, records=3, tolerances={}, left_out=["total"])
    assert other.problems == ("the column total is int in the fork, and string in the twin",)


@BOTH
def test_nulls_that_two_unbroken_runs_do_not_repeat_are_left_out_and_named(key: RowKey) -> None:
    one = [(*row[:2], None if row[0] == 1 else f"a{row[0]}") for row in RIGHT]
    other = [(*row[:2], None if row[0] == 2 else f"b{row[0]}") for row in RIGHT]
    assert unstable(one, other, key) == ("total", "total IS NULL")
    done = compare(output(one), output(other), key, records=3, tolerances={}, left_out=("total", "total IS NULL"))
    assert done.exactly_once


def test_two_unbroken_runs_that_agree_explain_nothing() -> None:
    assert unstable(RIGHT, RIGHT[::-1], BY_ID) == unstable(RIGHT, RIGHT[::-1], WHOLE_ROW) == ()


@pytest.mark.parametrize(
    ("other", "key"),
    [
        ([(9, "EWR", 10), *RIGHT[1:]], BY_ID),  # the key itself is not repeated
        (RIGHT[1:], BY_ID),
        ([*RIGHT, RIGHT[0]], BY_ID),
        (RIGHT[1:], WHOLE_ROW),  # every column differs
        ([(1, "JFK", 20), (2, "EWR", 20), (3, "LGA", 20)], WHOLE_ROW),  # values moved between rows
    ],
)
def test_two_unbroken_runs_whose_rows_do_not_pair_prove_nothing(
    other: Sequence[tuple[object, ...]], key: RowKey
) -> None:
    with pytest.raises(VerificationError, match="exactly-once cannot be proven with a twin"):
        unstable(RIGHT, other, key)


DEPARTURES = (PLANS / "flight_departures.txt").read_text()


def found(declared: Sequence[str] = (), of_sink: Sequence[str] = (), plan: str = "", **more: object) -> RowKey:
    given = {"rows": RIGHT, "columns": COLUMNS, **more}
    return find_key(declared, of_sink, plan, output(**given))  # type: ignore[arg-type]


def test_the_declared_key_comes_before_the_sinks_and_that_before_the_querys() -> None:
    columns = ("window_start", "origin", "carrier", "id")
    rows = [(1, "EWR", "AA", 1), (1, "EWR", "UA", 2), (2, "EWR", "AA", 3)]
    more = {"rows": rows, "columns": columns}
    assert found(["id"], ["window_start"], DEPARTURES, **more) == RowKey(("id",), DECLARED)
    assert found([], ["id"], DEPARTURES, **more) == RowKey(("id",), "the sink's key")
    by_query = RowKey(("window_start", "origin", "carrier"), "what the query groups by")
    assert found([], [], DEPARTURES, **more) == by_query
    assert found([], ["window_start"], DEPARTURES, **more) == by_query, "the sink's key occurs twice: an update"
    assert found([], ["gone"], "", **more) == WHOLE_ROW


def test_a_key_that_was_found_is_not_checked_a_second_time_and_one_that_was_only_given_is() -> None:
    """The rows of the twin have been seen once: that takes as long as reading them."""
    assert found(["id"]).checked
    assert not found().checked
    twice = output(rows=[*RIGHT[:2], RIGHT[0]], columns=COLUMNS)
    with pytest.raises(VerificationError, match="occur several times"):
        compare(twice, twice, BY_ID, records=3, tolerances={})


def test_whole_rows_are_compared_where_nothing_identifies_a_row() -> None:
    assert found() == WHOLE_ROW
    assert found(plan=DEPARTURES) == WHOLE_ROW, "the output drops a column that the query groups by"


@pytest.mark.parametrize(("key", "why"), [(["origin"], "2 different values"), (["gone"], "no column gone")])
def test_a_declared_key_that_does_not_identify_a_row_is_refused(key: list[str], why: str) -> None:
    with pytest.raises(VerificationError, match=why):
        found(key, rows=[*RIGHT[:2], (3, "EWR", 5)])


def with_problems(place: str, *problems: str) -> tuple[Output, StreamSpec]:
    spec = StreamSpec(
        name=place, job="job.py", checkpoint=f"/{place}/checkpoint", sink=ParquetSink(path=f"/{place}/out")
    )
    return Output.of_rows(COLUMNS, RIGHT, problems=problems), spec


def test_a_problem_that_the_twin_has_too_comes_from_the_job_and_not_from_the_fault() -> None:
    mine, its = without_common(
        *with_problems("fork", "no manifest in /fork/out", "a gap in /fork/out"),
        *with_problems("twin", "no manifest in /twin/out"),
    )
    assert (mine.problems, its.problems) == (("a gap in /fork/out",), ())
    assert mine.notes == {"problems_of_the_twin_too": ["no manifest in /twin/out"]}
    clean = without_common(*with_problems("fork"), *with_problems("twin"))
    assert [(each.problems, each.notes) for each in clean] == [((), {}), ((), {})]


def test_a_twin_whose_own_output_is_broken_is_no_expectation() -> None:
    with pytest.raises(VerificationError, match="the output of the twin itself is broken: a gap in /twin/out"):
        without_common(*with_problems("fork"), *with_problems("twin", "a gap in /twin/out"))
