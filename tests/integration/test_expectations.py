"""Great Expectations judges a count of its own, and a verifier that disagrees with it is found out."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from streamwarden.drills.records.types import Judgement
from streamwarden.errors import VerificationError
from streamwarden.services.verifying import expectations
from streamwarden.services.verifying.expectations import judge, judge_audit
from streamwarden.services.verifying.recount import Recount
from streamwarden.verification.comparing.balance import Audit, Entry, Range
from streamwarden.verification.comparing.column_types import parse_type
from streamwarden.verification.comparing.columns import report_columns
from streamwarden.verification.reconciliation import Key, Reconciliation, Values
from streamwarden.verification.tolerance import Tolerance
from support.oracles.reconciling import reconcile

COLUMNS = {"key_columns": ("window_start", "origin"), "value_columns": ("window_end", "flights", "delay_minutes")}


def hour(number: int) -> datetime:
    return datetime(2013, 1, 1, number, tzinfo=UTC)


EXPECTED: dict[Key, Values] = {
    (hour(number), origin): (hour(number + 1), number + 1, -number) for number in range(6) for origin in ("EWR", "JFK")
}
RIGHT = list(EXPECTED.items())
KEY, VALUES = RIGHT[0]


def reconciled(actual: list[tuple[Key, Values]], **more: Any) -> Reconciliation:
    return reconcile(EXPECTED, actual, records=1000, **COLUMNS, **more)


def failed(judgement: Judgement) -> set[tuple[str, str]]:
    """Suite and column of each expectation that is not met; in the comparison, the kind of deviation."""
    found = set()
    for each in judgement.expectations:
        if not each["success"]:
            (kind,) = each["about"].get("value_set", [each["about"]["column"]])
            found.add((each["suite"], kind))
    return found


def test_the_right_output_is_accepted_by_every_expectation() -> None:
    judgement = judge(reconciled(RIGHT))
    assert judgement.success
    assert failed(judgement) == set()
    assert judgement.judge.startswith("great_expectations 1.")
    counted = [each["about"]["column"] for each in judgement.expectations if each["suite"] == "output"]
    assert counted == [
        *("rows", "lost", "duplicated", "unexpected", "wrong"),
        *("sum of flights", "sum of delay_minutes"),
    ]


def test_a_key_of_one_column_is_judged_as_well() -> None:
    columns = {"key_columns": ("flight_id",), "value_columns": ("flights",)}
    wanted: dict[Key, Values] = {(f"UA{number}",): (number,) for number in range(5)}
    assert judge(reconcile(wanted, list(wanted.items()), records=1000, **columns)).success  # type: ignore[arg-type]
    doubled = judge(reconcile(wanted, [*wanted.items(), (("UA3",), (3,))], records=1000, **columns))  # type: ignore[arg-type]
    assert ("output", "duplicated") in failed(doubled)


def test_the_result_is_plain_json_for_the_journal() -> None:
    judgement = judge(reconciled(RIGHT[1:]))
    assert json.loads(json.dumps([judgement.result, list(judgement.expectations)])) is not None
    assert set(judgement.result) == {"output", "comparison", "books"}


ROWS = ("output", "rows")
SUMS = {("output", "sum of flights"), ("output", "sum of delay_minutes")}
FLIGHTS = ("output", "sum of flights")
PROBLEMS = ("books", "problems")


def kinds(*names: str) -> set[tuple[str, str]]:
    """Kinds of deviation: both counts have to find each."""
    return {(suite, name) for suite in ("output", "comparison") for name in names}


@pytest.mark.parametrize(
    ("actual", "broken"),
    [
        pytest.param(RIGHT[1:], {ROWS, FLIGHTS, *kinds("lost")}, id="a dropped row"),
        pytest.param([*RIGHT, *RIGHT[:4]], {ROWS, *SUMS, *kinds("duplicated")}, id="a batch written twice"),
        pytest.param(
            [(KEY, (VALUES[0], 99, VALUES[2])), *RIGHT[1:]], {FLIGHTS, *kinds("wrong")}, id="an altered number"
        ),
        pytest.param([(KEY, (hour(9), *VALUES[1:])), *RIGHT[1:]], kinds("wrong"), id="an altered time"),
        pytest.param([(KEY, (VALUES[0], None, VALUES[2])), *RIGHT[1:]], kinds("wrong"), id="a number lost"),
        pytest.param([(KEY, (VALUES[0], "1", VALUES[2])), *RIGHT[1:]], kinds("wrong"), id="a number become text"),
        pytest.param(
            [*RIGHT, ((hour(0), "LAX"), (hour(1), 0, 0))], {ROWS, *kinds("unexpected")}, id="a key nobody expects"
        ),
        pytest.param(
            [(KEY, RIGHT[2][1]), RIGHT[1], (RIGHT[2][0], VALUES), *RIGHT[3:]], kinds("wrong"), id="values swapped"
        ),
        pytest.param(
            [RIGHT[1], RIGHT[1], *RIGHT[2:]],
            kinds("lost", "duplicated"),
            id="one lost and one doubled: the count fits",
        ),
        pytest.param([], {ROWS, *kinds("lost")}, id="no output at all"),
    ],
)
def test_a_broken_output_is_rejected_by_just_the_expectations_it_breaks(
    actual: list[tuple[Key, Values]], broken: set[tuple[str, str]]
) -> None:
    judgement = judge(reconciled(actual))
    assert not judgement.success
    assert failed(judgement) == broken


def test_a_problem_that_no_row_shows_is_rejected_too() -> None:
    judgement = judge(reconciled(RIGHT, problems=["input file never read: a.json"]))
    assert failed(judgement) == {PROBLEMS}


def test_too_few_records_prove_nothing() -> None:
    assert failed(judge(reconciled(RIGHT), min_records=1001)) == {("books", "records")}
    assert judge(reconciled(RIGHT), min_records=1000).success


def test_nothing_expected_and_nothing_there_is_no_success() -> None:
    outcome = reconcile({}, [], records=1000, **COLUMNS)
    assert failed(judge(outcome)) == {("books", "expected_rows")}


@pytest.mark.parametrize(
    "lie",
    [
        {"lost": 0},
        {"lost": 0, "unexpected": 2},
        {"wrong": 1},
        {"actual": 12},
        {"lost": 0, "problems": ()},
        {"lost": 2, "duplicated": 1},
        {"lost": 0, "unexpected": 1, "duplicated": 1},
    ],
)
def test_counters_that_contradict_the_rows_leave_no_verdict(lie: dict[str, Any]) -> None:
    with pytest.raises(VerificationError, match="Great Expectations says"):
        judge(replace(reconciled(RIGHT[1:]), **lie))


def test_duplicates_that_the_counters_miss_leave_no_verdict() -> None:
    with pytest.raises(VerificationError, match="Great Expectations says"):
        judge(replace(reconciled([*RIGHT, RIGHT[0]]), duplicated=0))


def test_a_second_count_that_misses_a_deviation_leaves_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = Recount(expected=len(RIGHT), actual=len(RIGHT), lost=0, duplicated=0, unexpected=0, wrong=0)
    monkeypatch.setattr(expectations, "recount", lambda *args, **options: blind)
    assert judge(reconciled(RIGHT)).success
    with pytest.raises(VerificationError, match="Great Expectations says"):
        judge(reconciled([(KEY, (VALUES[0], 99, VALUES[2])), *RIGHT[1:]]))


def test_a_reconciliation_without_its_rows_cannot_be_judged() -> None:
    with pytest.raises(VerificationError, match="carries no rows"):
        judge(replace(reconciled(RIGHT), evidence=None))


SHIFTED = [(key, (end, flights, delay + 1e-7)) for key, (end, flights, delay) in RIGHT]  # type: ignore[operator]


def test_a_tolerance_is_judged_by_a_formula_of_the_judges() -> None:
    assert judge(reconciled(SHIFTED, tolerances={"delay_minutes": Tolerance(absolute=1e-6)})).success
    assert not judge(reconciled(SHIFTED, tolerances={"delay_minutes": Tolerance(absolute=1e-8)})).success
    assert not judge(reconciled(SHIFTED, tolerances={"flights": Tolerance(absolute=1e-6)})).success


@pytest.mark.parametrize(
    ("found", "wanted", "accepted"),
    [(math.nan, float("nan"), True), (None, math.nan, False), (math.nan, None, False), (None, None, True)],
)
def test_nulls_and_nan_are_told_apart(found: object, wanted: object, accepted: bool) -> None:
    rows: dict[Key, Values] = {**EXPECTED, KEY: (*VALUES[:2], wanted)}
    outcome = reconcile(rows, [(KEY, (*VALUES[:2], found)), *RIGHT[1:]], records=1000, **COLUMNS)  # type: ignore[arg-type]
    assert judge(outcome).success is outcome.exactly_once is accepted


def test_columns_are_a_suite_with_a_deviation_for_each_that_is_wrong_and_a_note_on_what_is_not_judged() -> None:
    expected = dict.fromkeys((*COLUMNS["key_columns"], *COLUMNS["value_columns"]))
    found = {name: (parse_type("double"),) for name in (*expected, "salt")}
    open_set = judge(reconciled(RIGHT, columns=report_columns(COLUMNS["key_columns"], expected, found)))
    assert open_set.success
    (shown,) = [each for each in open_set.expectations if each["suite"] == "columns"]
    assert shown["notes"] == "not judged: salt"
    whole_set = reconciled(RIGHT, columns=report_columns(COLUMNS["key_columns"], expected, found, complete=True))
    closed = judge(whole_set)
    assert not whole_set.exactly_once
    assert failed(closed) == {("columns", "problem"), PROBLEMS}
    assert "additional column salt (double)" in str(closed.result["columns"])


BALANCED = Audit(
    stream="flights",
    range=Range(after=3, upto=9),
    operator="windowed aggregation",
    amounts=("flights", "delay_minutes"),
    counts="flights",
    entries=40,
    totals={
        "opening": {"flights": 7, "delay_minutes": -3},
        "input": {"flights": 1000, "delay_minutes": 50},
        "dropped": {"flights": 9, "delay_minutes": 1},
        "output": {"flights": 990, "delay_minutes": 40},
        "closing": {"flights": 17, "delay_minutes": 7},
    },
)


def test_the_books_of_a_live_stream_that_balance_are_accepted_by_every_expectation() -> None:
    judgement = judge_audit(BALANCED, 1000)
    assert judgement.success
    assert failed(judgement) == set()
    abouts = {each["about"]["column"] for each in judgement.expectations if each["suite"] == "totals"}
    assert abouts == {"gap of flights", "gap of delay_minutes"}


def test_the_books_of_a_live_stream_in_which_a_row_is_missing_are_rejected_with_their_group() -> None:
    group = Entry(key={"origin": "EWR"}, sides={"input": {"flights": 3}, "output": {"flights": 2}})
    totals = {**BALANCED.totals, "output": {"flights": 989, "delay_minutes": 40}}
    judgement = judge_audit(replace(BALANCED, unbalanced=1, worst=[group], totals=totals), 1000)
    assert not judgement.success
    assert failed(judgement) == {("books", "unbalanced"), ("groups", "problem"), ("totals", "gap of flights")}
    (named,) = [each for each in judgement.expectations if each["suite"] == "groups"]
    assert "EWR" in str(named["unexpected_samples"])


def test_books_of_too_few_rows_prove_nothing() -> None:
    assert failed(judge_audit(BALANCED, 1001)) == {("books", "records")}


def test_an_audit_that_says_balanced_although_its_totals_do_not_is_found_out() -> None:
    totals = {**BALANCED.totals, "output": {"flights": 989, "delay_minutes": 40}}
    with pytest.raises(VerificationError, match="one of the two verifiers has a defect"):
        judge_audit(replace(BALANCED, totals=totals), 1000)


def test_the_totals_are_not_added_up_where_some_keys_were_not_judged() -> None:
    totals = {**BALANCED.totals, "output": {"flights": 989, "delay_minutes": 40}}
    assert judge_audit(replace(BALANCED, totals=totals, unsure=2), 1000).success
