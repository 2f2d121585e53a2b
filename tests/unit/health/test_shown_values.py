"""A value beside its limit has the digits that the comparison needs."""

from __future__ import annotations

import pytest

from streamwarden.health.check import ValueUnit
from streamwarden.health.checks.batches import batch_longer_than_trigger
from streamwarden.health.verdict import Status
from streamwarden.stream.spec import TriggerSpec
from support.streams.health_windows import NOW, judge, report, spec, window


@pytest.mark.parametrize(
    ("unit", "value", "shown"),
    [
        (ValueUnit.TIMES, 1.0004, "1.0004"),
        (ValueUnit.TIMES, 0.99996, "0.99996"),
        (ValueUnit.TIMES, 1.0, "1"),
        (ValueUnit.TIMES, 1.5, "1.5"),
        (ValueUnit.TIMES, 4.9999999, "4.9999999"),
        (ValueUnit.SECONDS, 1.00002, "1.00002 s"),
        (ValueUnit.SECONDS, 4.0, "4 s"),
    ],
)
def test_just_beside_a_limit_the_digits_show_on_which_side(unit: ValueUnit, value: float, shown: str) -> None:
    assert unit.show_beside((1.0, 5.0), value) == shown


@pytest.mark.parametrize(
    ("unit", "limit", "value", "shown"),
    [
        (ValueUnit.BYTES, 1e9, 1_000_010_000.0, "1.00001 GB"),
        (ValueUnit.SECONDS, 60.0, 60.004, "60.004 s"),
        (ValueUnit.SECONDS, 60.0, 75.0, "1m 15s"),
        (ValueUnit.SHARE, 0.01, 0.0100004, "1.00004 %"),
        (ValueUnit.ROWS, 0.0, 3.0, "3"),
    ],
)
def test_the_digits_of_other_units(unit: ValueUnit, limit: float, value: float, shown: str) -> None:
    assert unit.show_beside((limit,), value) == shown


@pytest.mark.parametrize(
    ("unit", "value", "shown"),
    [
        (ValueUnit.BYTES, 1.2345e9, "1.23 GB"),
        (ValueUnit.BYTES, 999_700.0, "1,000 kB"),
        (ValueUnit.SECONDS, 12.345, "12.3 s"),
        (ValueUnit.SECONDS, 0.12345, "123 ms"),
        (ValueUnit.SHARE, 0.123456, "12.3 %"),
        (ValueUnit.TIMES, 1.23456, "1.23"),
        (ValueUnit.ROWS, 12_345.0, "12,345"),
    ],
)
def test_away_from_its_limits_a_value_has_three_digits_and_a_count_all(
    unit: ValueUnit, value: float, shown: str
) -> None:
    assert unit.show(value) == shown
    assert unit.show_beside((value * 2, value * 3), value) == shown


@pytest.mark.parametrize(
    ("unit", "value", "shown"),
    [
        (ValueUnit.SECONDS, 2.004, "2.004 s"),
        (ValueUnit.SECONDS, 1.996, "1.996 s"),
        (ValueUnit.SECONDS, 2.01, "2.01 s"),
        (ValueUnit.BYTES, 2.0004, "2.0004 B"),
    ],
)
def test_a_value_never_looks_equal_to_a_limit_that_it_has_passed_or_not_reached(
    unit: ValueUnit, value: float, shown: str
) -> None:
    """With three digits each but `2.01 s` would be the limit itself, which is the control."""
    assert unit.show_beside((2.0,), value) == shown
    assert (unit.show(value) == unit.show(2.0)) == (shown != "2.01 s")


@pytest.mark.parametrize(("limit", "shown"), [(1.2345e9, "1.2345 GB"), (2e9, "2 GB")])
def test_a_limit_has_the_digits_that_a_person_wrote(limit: float, shown: str) -> None:
    assert ValueUnit.BYTES.show_limit(limit) == shown


def test_a_batch_that_is_just_too_long_shows_by_how_much() -> None:
    """2,000.1 ms in intervals of 2 s: `1 (warning from 1)` hid why there was an alarm."""
    slow = [report(n, at=NOW - 40 + 2 * n, top={"batchDuration": 2_001}) for n in range(20)]
    verdict = judge(batch_longer_than_trigger.CHECK, window(slow, spec=spec(trigger=TriggerSpec(processing_time=2.0))))
    assert verdict.status is Status.WARNING
    assert "in intervals of 2 s, is 1.0005 (warning from 1, critical above 5)" in verdict.reason
