"""aircraft_rotations, right to the row, on RocksDB. With `--full` it is killed in mid-batch and started again, and runs
on the other state store, too.

16 files of three hours of flights each, of a dozen aircraft that fly often or rarely, among them cancelled flights and
some of no known aircraft. Two aircraft depart exactly at the gap, and a minute after it. The last files hold flights
that come too late, and one that comes in time for a rotation that is already written.
"""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamwarden.sinks.files.output import read_output
from streamwarden.stream.spec import Backend
from support.spark.drivers import project
from support.spark.job_runs import Survivors, brought_to_end, forged, in_tiers, of_tier, passed, publish, stream
from support.spark.twins import assert_the_twin_agrees
from support.spark.verdicts import verify

pytestmark = pytest.mark.spark

START = datetime(2023, 11, 1, tzinfo=UTC)
FILES, FLIGHTS = 16, 24
GAP = timedelta(hours=12)
BAD = (
    "not json",
    '{"flight_id":"cut off","event_time":"2023-11-01T06:00:00.000Z","origin":"JFK"',
    '{"flight_id":null,"event_time":"2023-11-01T06:00:00.000Z","origin":"JFK"}',
    '{"flight_id":"no time","origin":"JFK"}',
    '{"flight_id":"no airport","event_time":"2023-11-01T06:00:00.000Z"}',
    '{"flight_id":"wrong type","event_time":"2023-11-01T06:00:00.000Z","origin":"JFK","dep_delay":1.5}',
)
FUTURE = (
    '{"flight_id":"future","event_time":"2099-01-01T00:00:00.000Z","origin":"JFK","tailnum":"N1",'
    '"departed_at":"2099-01-01T00:07:00.000Z"}'
)


def flight(name: str, at: datetime, tail: str | None, **changes: Any) -> str:
    told = {
        "flight_id": name,
        "event_time": f"{at:%Y-%m-%dT%H:%M:%S}.000Z",
        "origin": "JFK",
        "carrier": "B6",
        "dest": "BOS",
        "tailnum": tail,
        "departed_at": f"{at + timedelta(minutes=7):%Y-%m-%dT%H:%M:%S}.000Z",
        "dep_delay": 7,
    }
    return json.dumps({**told, **changes})


def lines() -> list[list[str]]:
    rng = random.Random(7)
    files: list[list[str]] = []
    for number in range(FILES):
        begin = START + timedelta(hours=3 * number)
        file = []
        for n in range(FLIGHTS):
            at = begin + timedelta(minutes=rng.randrange(180))
            tail = f"N{int(rng.expovariate(0.25))}"  # N0 hardly rests, N12 hardly flies
            places = {"origin": rng.choice(("JFK", "EWR", "LGA")), "dest": rng.choice(("BOS", "MIA", "ORD", None))}
            file.append(flight(f"{number:02d}-{n:02d}", at, tail, **places))
        files.append(file)
    files[0] += [flight("touch 1", START, "TOUCH"), flight("apart 1", START, "APART")]
    files[4] += [flight("touch 2", START + GAP, "TOUCH")]
    files[4] += [flight("apart 2", START + GAP + timedelta(minutes=1), "APART")]
    files[3] += [*BAD, FUTURE]
    files[8] += [flight("told", START + timedelta(hours=25), "TOLD")]
    # The watermark is beyond 25 + 12 h after file 13 (39 to 42 h): the rotation is written in batch 14.
    files[15] += [flight("in time", START + timedelta(hours=34), "TOLD")]
    files[15] += [flight("too late", START + timedelta(hours=20), "TOLD"), flight("late too", START, "N3")]
    cancelled = {"departed_at": None, "dep_delay": None}
    files[14] += [flight(f"cancelled {n}", START + timedelta(hours=60), "N1", **cancelled) for n in range(3)]
    files[14] += [flight(f"unnamed {n}", START + timedelta(hours=60), None) for n in range(2)]
    return files


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Survivors]:
    with project(tmp_path_factory.mktemp("aircraft_rotations")) as made:
        specs = [
            stream("aircraft_rotations", made.data, backend) for backend in of_tier(request.config, Backend.ROCKSDB)
        ]
        publish(Path(str(specs[0].source.path)), lines())
        yield brought_to_end(request, made, specs)


@pytest.mark.parametrize("backend", in_tiers(Backend.ROCKSDB))
def test_every_row_is_right(runs: Survivors, backend: Backend) -> None:
    outcome = passed(runs.specs[backend])
    assert outcome.expected > 10


@pytest.mark.full  # in the first tier twins judge the windows of test_event_windows
def test_an_unbroken_twin_writes_the_same_rotations(runs: Survivors, tmp_path: Path) -> None:
    assert_the_twin_agrees(runs.specs[Backend.ROCKSDB], tmp_path / "twins", of="aircraft_rotations")


@pytest.mark.parametrize("backend", in_tiers(Backend.ROCKSDB))
def test_departures_a_gap_apart_are_one_rotation_and_a_minute_more_makes_two(runs: Survivors, backend: Backend) -> None:
    output = read_output(Path(str(runs.specs[backend].sink.path)))
    rows = sorted(output.keyed(("tailnum", "rotation_start"), ("rotation_end", "flights")))
    of = {tail: [(key[1], *values) for key, values in rows if key[0] == tail] for tail in ("TOUCH", "APART")}
    later = START + GAP + timedelta(minutes=1)
    assert of["TOUCH"] == [(START, START + 2 * GAP, 2)]
    assert of["APART"] == [(START, START + GAP, 1), (later, later + GAP, 1)]


@pytest.mark.parametrize("backend", in_tiers(Backend.ROCKSDB))
def test_flights_too_late_and_flights_of_no_rotation_are_counted(runs: Survivors, backend: Backend) -> None:
    notes = verify(runs.specs[backend]).notes
    assert (notes["late_rows"], notes["cancelled"], notes["unnamed"]) == (2, 3, 2)
    second_life = [each for each in runs.reports(backend) if each.operators and each.batch_id >= 14]
    assert sum(each.operators[0].rows_dropped_by_watermark for each in second_life) == 2
    counts = [each.observed_metrics["flights"] for each in second_life if "flights" in each.observed_metrics]
    assert sum(int(each["cancelled"]) for each in counts) == 3
    assert sum(int(each["unnamed"]) for each in counts) == 2


@pytest.mark.parametrize("backend", in_tiers(Backend.ROCKSDB))
def test_a_flight_in_time_for_a_rotation_that_is_told_begins_another(runs: Survivors, backend: Backend) -> None:
    output = read_output(Path(str(runs.specs[backend].sink.path)))
    rows = output.keyed(("tailnum",), ("rotation_start", "flights"))
    assert [values for key, values in rows if key == ("TOLD",)] == [(START + timedelta(hours=25), 1)]
    books = verify(runs.specs[backend]).notes["books"]
    assert isinstance(books, dict)
    assert books["open"] > 0


@pytest.mark.parametrize("backend", in_tiers(Backend.ROCKSDB))
def test_what_is_no_flight_is_counted_and_kept_aside(runs: Survivors, backend: Backend) -> None:
    books = verify(runs.specs[backend]).notes["books"]
    assert isinstance(books, dict)
    assert books["malformed"] == len(BAD) + 1
    assert len(runs.quarantined(backend)) == len(BAD) + 1


def test_a_dropped_a_doubled_and_an_altered_row_are_named(runs: Survivors, tmp_path: Path) -> None:
    found = forged(
        runs.specs[Backend.ROCKSDB],
        tmp_path,
        altered=lambda rows: [{**rows[0], "legs": ["JFK-???"]}, *rows[1:]],
        foreign=lambda rows: [*rows, {**rows[0], "tailnum": "?"}],
    )
    assert found == {"altered": (0, 0, 0, 1), "foreign": (0, 0, 1, 0)}
