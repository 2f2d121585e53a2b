"""What the oracles of flight_dedup, flight_dedup_unbounded and aircraft_rotations take for a flight, and answer."""

import json
from typing import Any

import pytest

from streamwarden.verification.batches import moment
from support.oracles.oracle_runs import WRITTEN, expectation, iso, marks_of

HOUR = 3_600_000
DAY = 1_357_084_800_000  # 2013-01-02


def flight(name: str, hour: float, **changes: Any) -> str:
    at = DAY + round(hour * HOUR)
    row = {
        "flight_id": name,
        "event_time": iso(at),
        "origin": "JFK",
        "carrier": "B6",
        "dest": "BOS",
        "tailnum": "N1",
        "departed_at": iso(at + 60_000),
        "dep_delay": 1,
    }
    return json.dumps({**row, **changes})


def marks(delay: float, *hours: list[float]) -> list[int]:
    return marks_of([[DAY + round(hour * HOUR) for hour in batch] for batch in hours], round(delay * HOUR))


BAD = [
    "not json",
    "[]",
    flight("a", 0, flight_id=None),
    flight("a", 0, event_time=None),
    flight("a", 0, event_time="2013-01-02"),
    flight("a", 0, dep_delay="1"),
    flight("a", 0, departed_at="later"),
]


@pytest.mark.parametrize("job", ["flight_dedup", "flight_dedup_unbounded", "aircraft_rotations"])
def test_what_is_no_flight_is_malformed(job: str) -> None:
    found = expectation(job, [BAD], [0, 0])
    assert (found.counts.records, found.counts.malformed) == (len(BAD), len(BAD))
    assert found.rows == {}


@pytest.mark.parametrize(
    ("job", "bad"), [("flight_dedup", 1), ("flight_dedup_unbounded", 0), ("aircraft_rotations", 1)]
)
def test_a_flight_more_than_a_day_ahead_of_its_file_moves_no_watermark(job: str, bad: int) -> None:
    future = flight("x", 0, event_time=iso((WRITTEN + 86_400) * 1000 + 1))
    delay = {"flight_dedup": 6.0, "aircraft_rotations": 2.0}.get(job)
    wanted = [0, 0] if delay is None else marks(delay, [0])
    found = expectation(job, [[flight("a", 0), future]], wanted)
    assert found.problems == ()
    assert found.counts.malformed == bad


def test_flight_is_emitted_once_and_again_after_its_state_expired() -> None:
    batches = [
        [flight("a", 0), flight("a", 0)],
        [flight("a", 0), flight("b", 12, tailnum=None, departed_at=None, dep_delay=None)],
        [],
        [flight("a", 13)],
    ]
    found = expectation("flight_dedup", batches, marks(6, [0], [12], [], [13]))
    assert found.problems == ()
    departed = moment(DAY + 60_000)
    assert found.rows == {
        ("a", moment(DAY)): ("JFK", "B6", "BOS", "N1", departed, 1),
        ("b", moment(DAY + 12 * HOUR)): ("JFK", "B6", "BOS", None, None, None),
        ("a", moment(DAY + 13 * HOUR)): ("JFK", "B6", "BOS", "N1", moment(DAY + 13 * HOUR + 60_000), 1),
    }
    assert found.notes["repeats"] == 2
    assert found.notes["remembered"] == 2
    forever = expectation("flight_dedup_unbounded", batches, [0, 0, 0, 0, 0])
    assert {key for (key,) in forever.rows} == {"a", "b"}
    assert forever.notes["repeats"] == 3


def test_reports_of_one_batch_that_differ_are_reported() -> None:
    batch = [flight("a", 0), flight("a", 0, dest="MIA")]
    for job, wanted in (("flight_dedup", marks(6, [0])), ("flight_dedup_unbounded", [0, 0])):
        (problem,) = expectation(job, [batch], wanted).problems
        assert (
            problem
            == "reports of one flight that differ, in one batch: it is undefined which of them is kept: a (batch 0)"
        )


def test_a_rotation_is_a_run_of_departures_of_one_aircraft() -> None:
    batches = [
        [flight("c", 6, dest=None), flight("a", 0), flight("b", 0, dest="MIA"), flight("z", 3, tailnum="N2")],
        [flight("d", 18), flight("none", 19, departed_at=None), flight("unnamed", 40, tailnum=None)],
        [flight("e", 40, tailnum="N3")],
    ]
    found = expectation("aircraft_rotations", batches, marks(2, [6, 0, 3], [18], [40]))
    assert found.problems == ()
    assert found.rows == {
        ("N1", moment(DAY)): (moment(DAY + 30 * HOUR), 4, ["JFK-BOS", "JFK-MIA", "JFK", "JFK-BOS"]),
        ("N2", moment(DAY + 3 * HOUR)): (moment(DAY + 15 * HOUR), 1, ["JFK-BOS"]),
    }
    assert (found.notes["cancelled"], found.notes["unnamed"]) == (1, 1)
    counts = found.counts
    assert (counts.pairs, counts.emitted, counts.open, counts.dropped) == (6, 5, 1, 0)


def test_departure_after_its_rotation_was_emitted_begins_another() -> None:
    batches = [[flight("a", 0), flight("x", 15, tailnum="N2")], [], [flight("late", 1), flight("new", 1.5)], []]
    found = expectation("aircraft_rotations", batches, marks(2, [0, 15], [], [], []))
    assert found.rows[("N1", moment(DAY))] == (moment(DAY + 12 * HOUR), 1, ["JFK-BOS"])
    assert found.counts.dropped == 1  # at 1 h its own session would be over at 13 h, where the watermark is
    assert found.counts.open == 2
