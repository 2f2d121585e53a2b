"""The oracle of flight_weather: by hand on small runs, by its laws on any run."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from streamwarden.services.verifying.oracle_files import load_oracle
from streamwarden.verification.batches import moment
from streamwarden.verification.oracle import Expectation, RunFacts
from support.oracles.oracle_runs import REPOSITORY, WRITTEN, iso, marks_of

MINUTE, HOUR = 60_000, 3_600_000
DAY = 1_357_084_800_000  # 2013-01-02
JOB = REPOSITORY / "spark_jobs" / "flight_weather.py"


def flight(name: str, minute: int, origin: str = "JFK") -> str:
    at = iso(DAY + minute * MINUTE)
    return json.dumps({"flight_id": name, "event_time": at, "origin": origin, "carrier": "B6", "dep_delay": 1})


def weather(minute: int, origin: str = "JFK", temp: float = 30.0) -> str:
    return json.dumps({"observed_at": iso(DAY + minute * MINUTE), "origin": origin, "temp": temp})


def judged(
    flights: Sequence[Sequence[str]], observations: Sequence[Sequence[str]], marks: Sequence[int], *args: str
) -> Expectation:
    """A run whose batch N reads the Nth file of both folders; a last batch without data follows."""
    with tempfile.TemporaryDirectory() as folder:
        read: dict[int, list[Path]] = {number: [] for number in range(len(flights))}
        for part, batches in (("flights", flights), ("weather", observations)):
            (Path(folder) / part).mkdir()
            for number, lines in enumerate(batches):
                path = Path(folder) / part / f"{part}-{number}.json"
                path.write_text("".join(f"{line}\n" for line in lines))
                os.utime(path, (WRITTEN, WRITTEN))
                read[number].append(path)
        inputs = [path for paths in read.values() for path in paths]
        facts = RunFacts(files=read, watermarks=dict(enumerate(marks)), committed=len(flights), args=args)
        return load_oracle(JOB)(inputs, facts)


def marks(*minutes: int) -> list[int]:
    return [0, *(DAY + minute * MINUTE for minute in minutes)]


def answers(found: Expectation) -> dict[object, tuple[object, object]]:
    """Flight -> (when the weather was observed, temperature)."""
    return {key[0]: (values[4], values[5]) for key, values in found.rows.items()}


def test_a_flight_gets_the_observation_of_its_hour_whichever_comes_first() -> None:
    flights = [[flight("early", 59), flight("on the hour", 60)], [flight("later", 61)]]
    found = judged(flights, [[weather(0, temp=1.0)], [weather(60, temp=2.0)]], marks(-60, -59))
    assert found.problems == ()
    assert answers(found) == {
        "early": (moment(DAY), 1.0),
        "on the hour": (moment(DAY + HOUR), 2.0),
        "later": (moment(DAY + HOUR), 2.0),
    }


def test_without_an_observation_it_comes_out_when_the_watermark_has_passed_it() -> None:
    flights = [[flight("passed", 60), flight("waits", 61)], [flight("moves the mark", 181)]]
    found = judged(flights, [[weather(0)], [weather(180)]], marks(-60, 61))
    assert found.problems == ()
    assert answers(found) == {"passed": (None, None), "moves the mark": (moment(DAY + 3 * HOUR), 30.0)}
    assert (found.counts.open, found.notes["without_weather"]) == (1, 1)


def test_an_inner_join_has_no_flight_without_weather() -> None:
    flights = [[flight("passed", 60)], [flight("moves the mark", 181)]]
    found = judged(flights, [[weather(0)], [weather(180)]], marks(-60, 61), "join=inner")
    assert list(answers(found)) == ["moves the mark"]


def test_another_airports_weather_is_no_answer() -> None:
    found = judged(
        [[flight("a", 5)], [flight("b", 200, "LGA")]], [[weather(0, "LGA")], [weather(181)]], marks(-115, 80)
    )
    assert answers(found)["a"] == (None, None)


def test_what_comes_later_than_the_watermark_is_left_out_on_both_sides() -> None:
    flights = [[flight("a", 300)], [], [flight("late", 180), flight("in time", 181)]]
    observed = [[weather(300)], [], [weather(180, temp=9.0), weather(181, temp=8.0)]]
    found = judged(flights, observed, marks(180, 180, 180))
    assert found.problems == ()
    assert answers(found)["in time"] == (moment(DAY + 181 * MINUTE), 8.0)
    assert (found.notes["late_flights"], found.notes["late_observations"]) == (1, 1)


def test_a_flight_that_is_owed_two_answers_is_a_problem() -> None:
    found = judged([[flight("a", 30)]], [[weather(0), weather(10)]], marks(-90))
    assert found.problems == ("flight that is owed more than one row: a",)


minutes = st.lists(st.integers(0, 600), max_size=5)
runs = st.lists(st.tuples(minutes, minutes), min_size=1, max_size=5)


def of(run: Sequence[tuple[Sequence[int], Sequence[int]]], *args: str) -> Expectation:
    """Flights at the first minutes, distinct observations on the hours of the second."""
    names = iter(range(1000))
    flights = [[flight(str(next(names)), minute) for minute in mine] for mine, _ in run]
    hours: set[int] = set()
    observed = []
    for _, theirs in run:
        fresh = list(dict.fromkeys(hour for minute in theirs if (hour := minute // 60 * 60) not in hours))
        hours |= set(fresh)
        observed.append(fresh)
    left = marks_of([[DAY + minute * MINUTE for minute in mine] for mine, _ in run], 2 * HOUR)
    right = marks_of([[DAY + minute * MINUTE for minute in theirs] for theirs in observed], HOUR)
    both = [min(one, other) for one, other in zip(left, right, strict=True)]
    return judged(flights, [[weather(minute) for minute in theirs] for theirs in observed], both, *args)


@given(runs)
def test_each_flight_is_in_the_output_or_waits_or_was_late(run: list[tuple[list[int], list[int]]]) -> None:
    found = of(run)
    assert found.problems == ()
    assert len(found.rows) == found.counts.emitted
    total = sum(len(mine) for mine, _ in run)
    assert found.counts.pairs == total == found.counts.emitted + found.counts.open + found.counts.dropped


@given(runs)
def test_the_inner_join_is_the_outer_one_without_its_nulls(run: list[tuple[list[int], list[int]]]) -> None:
    outer, inner = of(run), of(run, "join=inner")
    assert dict(inner.rows) == {key: values for key, values in outer.rows.items() if values[4] is not None}


@given(runs)
def test_an_answer_is_of_the_flights_own_hour(run: list[tuple[list[int], list[int]]]) -> None:
    for _, values in of(run).rows.items():
        if values[4] is not None:
            assert 0 <= (values[0] - values[4]).total_seconds() < 3600  # type: ignore[operator]
