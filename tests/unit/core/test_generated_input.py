"""The bounds of `support.generated_input` catch an endless loop and an allocation that is too large."""

from itertools import repeat

import pytest

from support.generated_input import bounded


def test_work_within_the_bounds_passes() -> None:
    with bounded():
        assert sum(range(1000)) == 499500


def test_a_loop_that_does_not_end_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="did not end within"), bounded(seconds=0.05):
        sum(1 for _ in repeat(None))


def test_too_much_memory_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="needs more than"), bounded():
        bytearray(300 * 10**6)


def test_other_errors_of_the_block_pass_through() -> None:
    with pytest.raises(ValueError, match="wrong"), bounded():
        raise ValueError("wrong")
