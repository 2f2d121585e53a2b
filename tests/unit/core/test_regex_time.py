"""No regular expression of the product takes more than linear time: its input may be a file of a user, or a log."""

import re

import pytest

from support.generated_input import bounded
from support.regex_time import Use, attacks, uses

LENGTH = 20_000
LONGEST = 0.075
"""Seconds of processor time. Linear patterns need some milliseconds, quadratic ones some seconds."""
USES = uses()


def ends_in_time(use: Use, text: str) -> bool:
    try:
        with bounded(LONGEST):
            use.run(text)
    except AssertionError:
        return False
    return True


def test_the_patterns_of_the_product_are_found() -> None:
    assert len(USES) > 60


@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use.where}-{use.method}")
def test_a_pattern_takes_linear_time(use: Use) -> None:
    assert [text[:40] for text in attacks(use.pattern, LENGTH) if not ends_in_time(use, text)] == []


@pytest.mark.parametrize("pattern", [r"\s*([0-9]+)\s+per\s+(.+?)\s*", r"(a+)+b", r"\s+x"])
def test_a_pattern_that_takes_longer_is_noticed(pattern: str) -> None:
    use = Use("here", re.compile(pattern), "search" if pattern == r"\s+x" else "fullmatch")
    assert not all(ends_in_time(use, text) for text in attacks(use.pattern, LENGTH))
