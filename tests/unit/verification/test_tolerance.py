"""Values are compared exactly, unless the oracle declares a tolerance for their column."""

import math
from decimal import Decimal

import pytest

from streamwarden.verification.reconciliation import Key, Values
from streamwarden.verification.tolerance import Tolerance
from support.oracles.reconciling import reconcile

pytestmark = pytest.mark.usefixtures("one_database")

TERMS = [0.1] * 10 + [1e16, 1.0, -1e16]
IN_ORDER, IN_REVERSE = sum(TERMS[:10]), math.fsum(TERMS[:10])


def wrong(actual: object, expected: object, **tolerances: Tolerance) -> int:
    rows: dict[Key, Values] = {("EWR",): (expected, 1)}
    found: list[tuple[Key, Values]] = [(("EWR",), (actual, 1))]
    outcome = reconcile(rows, found, key_columns=("origin",), value_columns=("total", "flights"), tolerances=tolerances)
    return outcome.wrong


def test_a_sum_in_another_order_is_wrong_without_a_tolerance_and_right_with_one() -> None:
    assert IN_ORDER != IN_REVERSE
    assert wrong(IN_ORDER, IN_REVERSE) == 1
    assert wrong(IN_ORDER, IN_REVERSE, total=Tolerance(relative=1e-9)) == 0


def test_a_tolerance_hides_no_real_difference_and_covers_its_own_column_alone() -> None:
    assert wrong(1.001, 1.0, total=Tolerance(relative=1e-9)) == 1
    assert wrong(IN_ORDER, IN_REVERSE, flights=Tolerance(relative=1e-9)) == 1


def test_sums_that_cancel_out_need_an_absolute_bound() -> None:
    assert wrong(1e-12, 0.0, total=Tolerance(relative=1e-9)) == 1
    assert wrong(1e-12, 0.0, total=Tolerance(absolute=1e-9)) == 0


@pytest.mark.parametrize(
    ("actual", "expected", "outcome"),
    [
        (math.nan, float("nan"), 0),
        (math.nan, 1.0, 1),
        (None, 1.0, 1),
        (None, math.nan, 1),
        (math.inf, math.inf, 0),
        (math.inf, 1e308, 1),
        (-math.inf, math.inf, 1),
        ("1.0", 1.0, 1),
        (Decimal("1.0000000001"), Decimal(1), 0),
    ],
)
def test_nulls_and_non_numbers_are_compared_exactly(actual: object, expected: object, outcome: int) -> None:
    assert wrong(actual, expected, total=Tolerance(relative=1e-9)) == outcome


@pytest.mark.parametrize("bounds", [{}, {"relative": -1.0}, {"absolute": math.nan}, {"relative": math.inf}])
def test_a_tolerance_that_is_none_is_refused(bounds: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is not a tolerance"):
        Tolerance(**bounds)
