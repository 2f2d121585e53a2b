"""Two outputs are compared column by column, and the result is what a dictionary of Python values would give."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.errors import VerificationError
from streamwarden.services.verifying import matching
from streamwarden.services.verifying.lost_inputs import records_like
from streamwarden.services.verifying.outputs import Evidence, compare_outputs, reconcile_outputs
from streamwarden.services.verifying.recount import recount
from streamwarden.sinks.output import Output, Part, Row, part_of
from streamwarden.verification.reconciliation import Reconciliation
from streamwarden.verification.tolerance import Tolerance
from support.oracles.reconciling import reconcile

pytestmark = pytest.mark.usefixtures("one_database")

NAMES = ("key", "place", "total", "name")
BOUND = Tolerance(relative=1e-6, absolute=1e-9)


def output(rows: Sequence[Row], names: Sequence[str] = NAMES, *, parts: int = 1) -> Output:
    """The rows in several parts, whose types follow from their values."""
    pieces = [rows[at::parts] for at in range(parts)]
    made = [
        part_of({name: [row[at] for row in piece] for at, name in enumerate(names)}, len(piece)) for piece in pieces
    ]
    return Output(columns=tuple(names), parts=made)


def counts(outcome: Reconciliation) -> tuple[int, int, int, int]:
    return outcome.lost, outcome.duplicated, outcome.unexpected, outcome.wrong


def recounted(outcome: Reconciliation) -> tuple[int, int, int, int]:
    """The judge's own count of the same rows."""
    found = outcome.evidence
    assert isinstance(found, Evidence)
    again = recount(found.sides, found.keys, found.values, found.tolerances, whole=found.whole)
    return again.lost, again.duplicated, again.unexpected, again.wrong


def model(expected: Sequence[Row], actual: Sequence[Row]) -> tuple[int, int, int, int]:
    """By key (the first two columns), with Python's own dictionaries; NaN is a text, so that it equals itself."""
    wanted = {plain(row[:2]): row for row in expected}
    pairs = [(row, wanted.get(plain(row[:2]))) for row in actual]
    seen = Counter(plain(other[:2]) for _, other in pairs if other is not None)
    wrong = sum(other is not None and not agree(row, other) for row, other in pairs)
    return len(wanted) - len(seen), seen.total() - len(seen), len(actual) - seen.total(), wrong


def agree(one: Row, other: Row) -> bool:
    """Of the two values the first has a tolerance."""
    return plain(one[3:]) == plain(other[3:]) and (
        plain(one[2:3]) == plain(other[2:3]) or BOUND.covers(one[2], other[2])
    )


def plain(key: Row) -> Row:
    return tuple("NaN" if isinstance(each, float) and math.isnan(each) else each for each in key)


keys = st.sampled_from(["a", "b", "ab", "", None, "longer than eight bytes é"])
places = st.sampled_from([1, 2, None, 1.5, 0.0, -0.0, math.nan])
totals = st.sampled_from([0.0, 1.0, 1.0 + 1e-8, 1.1, 1e-10, math.nan, math.inf, -math.inf, None, 3])
names = st.sampled_from(["x", "y", None])
tables = st.lists(st.tuples(keys, places, totals, names), max_size=12)


@given(tables, tables, st.integers(1, 3), st.booleans())
def test_the_result_is_that_of_a_dictionary(
    expected: list[Row], actual: list[Row], parts: int, mostly_right: bool
) -> None:
    """With duplicates, nulls, NaN, a tolerance, and columns whose types differ between parts."""
    wanted = list({plain(row[:2]): row for row in expected}.values())
    came = [*wanted[1:], *actual[:2]] if mostly_right else actual
    one, other = output(wanted), output(came, parts=parts)
    outcome = compare_outputs(one, other, key=NAMES[:2], tolerances={"total": BOUND})
    assert counts(outcome) == recounted(outcome) == model(wanted, came)
    assert outcome.actual == outcome.expected - outcome.lost + outcome.duplicated + outcome.unexpected


@given(tables, tables, st.integers(1, 3))
def test_whole_rows_are_compared_as_multisets(expected: list[Row], actual: list[Row], parts: int) -> None:
    outcome = compare_outputs(output(expected), output(actual, parts=parts), key=())
    wanted, came = Counter(map(plain, expected)), Counter(map(plain, actual))
    surplus = came - wanted
    unexpected = sum(count for row, count in surplus.items() if row not in wanted)
    found = ((wanted - came).total(), surplus.total() - unexpected, unexpected, 0)
    assert counts(outcome) == recounted(outcome) == found
    assert outcome.actual == outcome.expected - outcome.lost + outcome.duplicated + outcome.unexpected


NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wanted", "came", "equal"),
    [
        (5, 5.0, True),
        (5, Decimal("5.00"), True),
        (0.1, Decimal("0.1"), False),
        (2**53, 2.0**53 + 2, False),
        (2**70, 2**70, True),
        (2**70, 2**70 + 1, False),
        (Decimal("1.50"), Decimal("1.5"), True),
        (Decimal("1e-30"), Decimal("2e-30"), False),
        (Decimal("1e40"), Decimal(f"1{'0' * 40}.000000001"), False),
        ("5", 5, False),
        (b"a", "a", False),
        (b"a\0", b"a", False),
        ("a\0", "a", False),
        (NOON, NOON.astimezone(timezone(timedelta(hours=2))), True),
        (NOON, NOON.replace(tzinfo=None), False),
        (NOON, NOON + timedelta(microseconds=1), False),
        (NOON.date(), date(2013, 1, 1), True),
        (NOON.date(), datetime(2013, 1, 1), False),
        ([1, None], [1, None], True),
        ([1, 2], [2, 1], False),
        ([], None, False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({"b": [1], "a": "x"}, {"a": "x", "b": [1]}, True),
        (math.nan, math.nan, True),
        (math.nan, None, False),
        (0.0, -0.0, True),
        (None, None, True),
        ("", None, False),
    ],
)
@pytest.mark.parametrize("beside", [(), ("of another type",)])
def test_values_are_equal_as_pythons_are(wanted: object, came: object, equal: bool, beside: Row) -> None:
    """Also in a column that holds values of another type in another part."""
    rows = [(at, each) for at, each in enumerate(beside, 1)]
    one, other = (output([(0, each), *rows], ("id", "value"), parts=2) for each in (wanted, came))
    outcome = compare_outputs(one, other, key=["id"])
    assert counts(outcome) == recounted(outcome) == (0, 0, 0, 0 if equal else 1)
    as_key = compare_outputs(one, other, key=["value"], ignored=["id"])
    assert counts(as_key) == recounted(as_key) == ((0, 0, 0, 0) if equal else (1, 0, 1, 0))


def test_types_of_parquet_are_compared_in_their_widest_form() -> None:
    def of(text: pa.DataType, number: pa.DataType, amount: pa.DataType) -> Output:
        columns = {"t": pa.array(["a"], text), "n": pa.array([7], number), "d": pa.array([Decimal("1.50")], amount)}
        return Output(columns=("t", "n", "d"), parts=[Part(table=pa.table(columns), count=1)])

    one = of(pa.string(), pa.int16(), pa.decimal128(5, 2))
    other = of(pa.large_string(), pa.int64(), pa.decimal128(30, 10))
    outcome = compare_outputs(one, other, key=["t"])
    assert counts(outcome) == recounted(outcome) == (0, 0, 0, 0)


def test_a_key_that_occurs_twice_in_the_expected_output_is_refused() -> None:
    twice = output([("a", 1), ("b", 1), ("a", 2)], ("key", "n"))
    with pytest.raises(VerificationError, match=r"1 values of the key \(key\) occur several times"):
        compare_outputs(twice, twice, key=["key"])
    assert compare_outputs(twice, twice, key=["key", "n"]).exactly_once


def test_a_column_that_only_one_side_has_is_null_on_the_other() -> None:
    one, other = output([(1, "x"), (2, None)], ("id", "a")), output([(1,), (2,)], ("id",))
    assert counts(compare_outputs(one, other, key=["id"])) == (0, 0, 0, 1)
    assert compare_outputs(one, other, key=["id"], ignored=["a"]).exactly_once


def test_more_rows_than_buckets_with_few_that_deviate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_BUCKETS", 64)
    rows = [(f"key-{number}", number) for number in range(5000)]
    came = [("key-7", 8), ("key-8", 7), *rows[9:], ("more", 1), rows[20]]
    outcome = compare_outputs(output(rows, ("id", "n")), output(came, ("id", "n")), key=["id"])
    assert counts(outcome) == recounted(outcome) == (7, 1, 1, 2), "two values that changed places are both wrong"


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
@pytest.mark.parametrize("wrong", [0, 1])
def test_long_and_short_values_are_compared_to_their_last_byte(kind: pa.DataType, wrong: int) -> None:
    texts = ["", "a", "exactly8", "é" * 6, "sixteen bytes ok", "x" * 40, "y" * 41, None, "ab", "a\0", "z" * 24]
    rows = [(number, each) for number, each in enumerate(texts)]
    came = [*rows[5:], *rows[:5]]
    came[0] = (5, "x" * (40 - wrong) + "X" * wrong)

    def of(pairs: Sequence[Row]) -> Output:
        columns = {"id": pa.array([row[0] for row in pairs]), "text": pa.array([row[1] for row in pairs]).cast(kind)}
        return Output(columns=("id", "text"), parts=[Part(table=pa.table(columns), count=len(pairs))])

    outcome = compare_outputs(of(rows), of(came), key=["id"])
    assert counts(outcome) == recounted(outcome) == (0, 0, 0, wrong)
    as_key = compare_outputs(of(rows), of(came), key=["text"], ignored=["id"])
    assert counts(as_key) == recounted(as_key) == (wrong, 0, wrong, 0)


def test_samples_name_the_batch_of_a_row_and_its_input() -> None:
    wanted = output([("a", 1), ("b", 2), ("c", 3)], ("id", "n"))
    rows = {"id": ["a", "b", "b", "d"], "n": [9, 2, 2, 4]}
    in_a_table = Output(columns=("id", "n"), parts=[part_of(rows, 4, [4, 5, 6, 7])])
    outcome = compare_outputs(wanted, in_a_table, key=["id"], input_of={4: "flights-0 from 10 to 20"}.get)
    assert outcome.samples == {
        "lost": ("(c): (3)",),
        "duplicated": ("(b): (2); written by batch 6",),
        "unexpected": ("(d): (4); written by batch 7",),
        "wrong": ("(a): (9), expected (1); written by batch 4, which read flights-0 from 10 to 20",),
    }


def test_a_lost_row_names_the_batch_in_which_an_unbroken_run_wrote_it() -> None:
    rows = {"id": ["a", "b"], "n": [1, 2]}
    twin = Output(columns=("id", "n"), parts=[part_of(rows, 2, [4, 5])])
    fork = output([("a", 1)], ("id", "n"))
    outcome = compare_outputs(twin, fork, key=["id"], input_of={5: "flights-0 from 10 to 20"}.get)
    assert outcome.samples == {"lost": ("(b): (2); due from batch 5, which read flights-0 from 10 to 20",)}


def test_a_row_that_only_an_oracle_expects_names_the_input_with_its_key(tmp_path: Path) -> None:
    file = tmp_path / "flights.json"
    record = '{"flight_id": "b", "minutes": 2}'
    file.write_text('{"flight_id": "a", "minutes": 2}\n' + f'{record}\nno JSON "b"\n{record}\n')
    wanted, came = output([("a", 1), ("b", 2)], ("flight_id", "n")), output([("a", 1)], ("flight_id", "n"))
    outcome = reconcile_outputs(
        wanted,
        came,
        keys=["flight_id"],
        values=["n"],
        tolerances={},
        notes={},
        input_like=lambda key: records_like(key, [file]),
    )
    like = f"flights.json line 2: {record}, and 1 more: the input with the same flight_id"
    assert outcome.samples == {"lost": (f"(b): (2); due from {like}",)}


def test_no_input_is_named_for_a_row_whose_key_no_record_has(tmp_path: Path) -> None:
    file = tmp_path / "flights.json"
    file.write_text('{"flight_id": "b", "origin": "JFK"}\n{"flight": "c", "count": true}\n')
    assert records_like({"flight_id": "b", "origin": "EWR"}, [file]) == ""
    assert records_like({"flight_id": "c"}, [file]) == ""
    assert records_like({"window_start": datetime(2013, 1, 1, tzinfo=UTC)}, [file]) == ""
    assert "with the same origin" in records_like({"origin": "JFK", "carrier": "AA"}, [file])


def test_the_batches_of_files_are_read_for_a_sample_alone() -> None:
    wanted = output([("a",), ("b",)], ("id",))
    asked: list[int] = []

    def batches() -> dict[str, int]:
        asked.append(1)
        return {"/out/part-0": 3}

    def came(name: str) -> Output:
        (part,) = output([("a",), (name,)], ("id",)).parts
        in_file = Part(table=part.table, count=2, file="/out/part-0")
        return Output(columns=("id",), parts=[in_file], file_batches=batches)

    assert compare_outputs(wanted, came("b"), key=["id"]).exactly_once
    assert not asked
    assert compare_outputs(wanted, came("x"), key=["id"]).samples["unexpected"] == ("(id=x); written by batch 3",)


@pytest.mark.parametrize("lie", [lambda rows: [*rows[:-1]], lambda rows: [*rows, rows[0]]])
def test_a_single_row_is_noticed_among_many(lie: Callable[[list[Row]], list[Row]]) -> None:
    rows: list[Row] = [(number,) for number in range(1000)]
    assert not compare_outputs(output(rows, ("id",)), output(lie(rows), ("id",)), key=()).exactly_once


def test_rows_without_a_key_column_are_one_row() -> None:
    assert reconcile({(): (5,)}, [((), (5,))], value_columns=["n"], key_columns=()).exactly_once
