"""Spark's settings as numbers."""

import pytest

from streamwarden.lifecycle.settings import DELTAS, MAINTENANCE, flag, number, seconds


@pytest.mark.parametrize(("text", "value"), [("2s", 2), ("500 ms", 0.5), ("60000", 60), ("1h", 3600), ("soon", 60)])
def test_a_bare_number_of_an_interval_is_milliseconds_and_nonsense_is_the_default(text: str, value: float) -> None:
    assert seconds({MAINTENANCE: text}, MAINTENANCE) == value


def test_what_is_not_set_is_sparks_default() -> None:
    assert (number({}, DELTAS), seconds({}, MAINTENANCE), flag({}, "x", True)) == (10, 60, True)


def test_a_number_and_a_flag_are_read_as_spark_reads_them() -> None:
    assert number({DELTAS: " 7 "}, DELTAS) == 7
    assert number({DELTAS: "many"}, DELTAS) == 10
    assert not flag({"x": " False"}, "x", True)
