"""Reconciliation counts what is lost, duplicated, unexpected and wrong, and nothing else."""

import json
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.verification.reconciliation import SAMPLES, Key, Reconciliation, Values
from support.oracles.reconciling import reconcile

pytestmark = pytest.mark.usefixtures("one_database")

EXPECTED: dict[Key, Values] = {("EWR", hour): (hour * 10, 1) for hour in range(8)}
RIGHT = list(EXPECTED.items())


def counts(outcome: Reconciliation) -> tuple[int, int, int, int]:
    return outcome.lost, outcome.duplicated, outcome.unexpected, outcome.wrong


def test_the_right_rows_in_any_order_are_exactly_once() -> None:
    outcome = reconcile(EXPECTED, RIGHT[::-1], records=8)
    assert counts(outcome) == (0, 0, 0, 0)
    assert outcome.exactly_once


def test_a_dropped_row_is_lost_and_named() -> None:
    outcome = reconcile(EXPECTED, RIGHT[1:])
    assert counts(outcome) == (1, 0, 0, 0)
    assert outcome.samples == {"lost": ("(EWR, 0): (0, 1)",)}
    assert not outcome.exactly_once


def test_a_batch_written_twice_is_duplicated_row_by_row() -> None:
    outcome = reconcile(EXPECTED, [*RIGHT, *RIGHT[:3]])
    assert counts(outcome) == (0, 3, 0, 0)
    assert not outcome.exactly_once


def test_an_altered_value_is_wrong_and_shows_both_values() -> None:
    outcome = reconcile(EXPECTED, [(("EWR", 0), (1, 1)), *RIGHT[1:]])
    assert counts(outcome) == (0, 0, 0, 1)
    assert outcome.samples["wrong"] == ("(EWR, 0): (1, 1), expected (0, 1)",)
    assert not outcome.exactly_once


def test_two_values_that_changed_places_are_both_wrong_although_the_sums_agree() -> None:
    swapped = [(("EWR", 1), (20, 1)), (("EWR", 2), (10, 1))]
    assert counts(reconcile(EXPECTED, [RIGHT[0], *swapped, *RIGHT[3:]])) == (0, 0, 0, 2)


def test_key_without_expectation_is_unexpected() -> None:
    assert counts(reconcile(EXPECTED, [*RIGHT, (("LAX", 0), (0, 1))])) == (0, 0, 1, 0)


def test_a_row_that_came_once_right_and_once_wrong_is_one_duplicated_and_one_wrong() -> None:
    assert counts(reconcile(EXPECTED, [*RIGHT, (("EWR", 0), (99, 1))])) == (0, 1, 0, 1)


def test_nothing_expected_proves_nothing() -> None:
    assert not reconcile({}, []).exactly_once


def test_a_problem_denies_exactly_once_although_every_row_agrees() -> None:
    outcome = reconcile(EXPECTED, RIGHT, problems=["the manifest has no entry for the committed batch 3"])
    assert counts(outcome) == (0, 0, 0, 0)
    assert not outcome.exactly_once


def test_samples_are_few_whatever_is_lost() -> None:
    outcome = reconcile({(number,): () for number in range(1000)}, [])
    assert outcome.lost == 1000
    assert len(outcome.samples["lost"]) == SAMPLES


def test_the_journal_gets_json_without_the_rows() -> None:
    document = reconcile(EXPECTED, RIGHT[1:], records=8, notes={"late_rows": 2}).to_dict()
    assert json.loads(json.dumps(document)) == document
    assert "evidence" not in document
    assert document["lost"] == 1


keys = st.tuples(st.integers(0, 6))
values = st.tuples(st.integers(0, 2))


@given(st.dictionaries(keys, values), st.lists(st.tuples(keys, values), max_size=30))
def test_the_counters_always_explain_how_many_rows_there_are(
    expected: dict[Key, Values], actual: list[tuple[Key, Values]]
) -> None:
    outcome = reconcile(expected, actual)
    assert outcome.actual == outcome.expected - outcome.lost + outcome.duplicated + outcome.unexpected


@given(st.dictionaries(keys, values, min_size=1), st.lists(st.tuples(keys, values), max_size=30))
def test_exactly_once_means_the_same_multiset_of_rows(
    expected: dict[Key, Values], actual: list[tuple[Key, Values]]
) -> None:
    assert reconcile(expected, actual).exactly_once == (Counter(actual) == Counter(expected.items()))


@given(st.dictionaries(keys, values, min_size=1), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_verdict(expected: dict[Key, Values], random: Random) -> None:
    shuffled = list(expected.items())
    random.shuffle(shuffled)
    assert reconcile(expected, shuffled).exactly_once
