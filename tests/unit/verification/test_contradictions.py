"""Facts of a checkpoint that cannot be true."""

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.errors import VerificationError
from streamwarden.verification.comparing.starts import Start
from streamwarden.verification.contradictions import contradictions, disorder
from streamwarden.verification.oracle import RateFacts, RunFacts

BEGAN = 1_000_000
RATE = RateFacts(began_ms=BEGAN, ends={0: 2, 1: 100}, rows_per_second=10)
TIMES = {0: BEGAN + 2_500, 1: BEGAN + 100_900}
FACTS = RunFacts(files={}, watermarks={0: 0, 1: 0}, committed=1, times=TIMES, rate=RATE)


def test_a_rate_source_that_gave_less_than_its_clock_says_is_reported() -> None:
    """It is its own measure of what was to be read: fewer seconds, fewer rows owed."""
    assert contradictions(FACTS) == []
    short = replace(FACTS, rate=replace(RATE, ends={0: 2, 1: 30}))
    assert contradictions(short) == [
        "seconds of the rate source that the clock contradicts: batch 1 ends at second 30, 71 s before it was planned"
    ]


def test_a_rate_source_that_claims_to_have_begun_late_is_reported() -> None:
    late = replace(FACTS, rate=replace(RATE, began_ms=BEGAN - 70_000, ends={0: 72, 1: 170}))
    [problem] = contradictions(late)
    assert problem.endswith("it began 72 s before batch 0 was planned")


def test_times_outside_the_drivers_life_are_reported() -> None:
    life = Start(at=BEGAN / 1000, planned=None, committed=None, ended=BEGAN / 1000 + 110)
    honest = replace(FACTS, rate=None, starts=(life,))
    assert contradictions(honest) == []
    [problem] = contradictions(replace(honest, times={0: TIMES[0], 1: TIMES[1] + 600_000}))
    assert problem.startswith("batch that was planned while its driver did not run: batch 1 says ")


def test_only_a_start_brings_another_version_of_the_state() -> None:
    """Which version ran which batch decides what its rows are."""
    two = replace(FACTS, rate=None, times={}, state={0: frozenset({"a.b"}), 1: frozenset({"a.c"})})
    assert contradictions(two) == ["state that changed its schema where no driver started: batch 1"]
    assert contradictions(replace(two, starts=(Start(at=0.0, planned=1, committed=0),))) == []


def test_a_start_with_unknown_logs_may_have_brought_another_version_of_the_state() -> None:
    unknown = Start(at=0.0, planned=None, committed=None, logs_known=False)
    two = replace(FACTS, rate=None, times={}, state={0: frozenset({"a.b"}), 1: frozenset({"a.c"})}, starts=(unknown,))
    with pytest.raises(VerificationError, match="state that changed its schema"):
        contradictions(two)
    assert contradictions(replace(two, state={0: frozenset({"a.b"})})) == []


def test_files_of_an_input_that_was_all_there_are_read_oldest_first() -> None:
    """One that comes after its turn may have rows that are late by then."""
    a, b, c = (Path("in", name) for name in "abc")
    times = {a: 1, b: 2, c: 3}
    assert disorder({0: [b, a], 1: [], 2: [c]}, times) == []
    assert disorder({0: [a], 1: [c], 2: [b]}, times) == [
        "input file that was read after its turn: b in batch 2, and a newer one in batch 1"
    ]
    assert disorder({0: [a], 1: [b], 2: [c]}, dict.fromkeys((a, b, c), 7)) == [], "one time, any order"


def test_each_source_has_an_order_of_its_own() -> None:
    flights, weather = Path("flights/a"), Path("weather/b")
    assert disorder({0: [flights], 1: [weather]}, {flights: 9, weather: 1}) == []
