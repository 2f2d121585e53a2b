"""flight_weather, right to the row, on the state store that has a file for each change. With `--full` it is killed in
mid-batch, and runs on RocksDB and as an inner join, too.

12 files of half an hour of flights, and 12 of weather. The observations of an hour come in the file after the one that
begins with it, so flights wait for their weather and the other way round; Newark is not observed in every third hour.
Some flights depart late, two of them later than the watermark; one old observation comes when its hour is over.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.forks.forks import fork
from streamwarden.sinks.files.output import read_output
from streamwarden.stream.spec import Backend
from support.spark.drivers import project
from support.spark.job_runs import Survivors, brought_to_end, forged, in_tiers, of_tier, passed, publish, stream
from support.spark.twins import assert_the_twin_agrees
from support.spark.verdicts import recorded, verify

pytestmark = pytest.mark.spark

START = datetime(2013, 3, 1, 9, 0, tzinfo=UTC)
FILES, FLIGHTS = 12, 25
AIRPORTS = ("JFK", "LGA", "EWR")
BAD_FLIGHTS = (
    "not json",
    '{"flight_id":null,"event_time":"2013-03-01T09:05:00.000Z","origin":"JFK"}',
    '{"flight_id":"x","origin":"JFK"}',
    '{"flight_id":"x","event_time":"2013-03-01T09:05:00.000Z","origin":"JFK","dep_delay":"late"}',
    '{"flight_id":"x","event_time":"2099-03-01T09:05:00.000Z","origin":"JFK"}',
)
BAD_WEATHER = (
    '{"observed_at":"2013-03-01T09:00:00.000Z"}',
    '{"observed_at":"2013-03-01T09:00:00.000Z","origin":"JFK","temp":"cold"}',
    '{"observed_at":"2023-11-14T23:30:00.000Z","origin":"JFK","temp":1.0}',
)
FIRST = Backend.HDFS


def text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}.000Z"


def flight(number: str, at: datetime, origin: str, delay: int | None) -> str:
    return json.dumps(
        {"flight_id": number, "event_time": text(at), "origin": origin, "carrier": "UA", "dep_delay": delay}
    )


def flights() -> list[list[str]]:
    rng = random.Random(8)
    files = []
    for number in range(FILES):
        begin = START + timedelta(minutes=30 * number)
        file = []
        for index in range(FLIGHTS):
            at = begin + timedelta(minutes=rng.randrange(30))
            late = timedelta(minutes=rng.choice((45, 80))) if rng.random() < 0.15 else timedelta(0)
            delay = None if index == 3 else rng.randrange(-5, 60)
            file.append(flight(f"{number:02d}-{index:02d}", at - late, rng.choice(AIRPORTS), delay))
        file.append(flight(f"{number:02d}-on-the-hour", begin, AIRPORTS[number % 3], 0))
        files.append(file)
    files[2] += BAD_FLIGHTS
    for number in (-2, -1):
        files[number].append(flight(f"too late {number}", START + timedelta(minutes=5), "EWR", 300))
    # The last watermark is that of a flight without weather, 08-on-the-hour: it waits on.
    files[-1].append(flight("moves the watermark", START + timedelta(hours=6), "JFK", 0))
    return files


def weather() -> list[list[str]]:
    files: list[list[str]] = [[] for _ in range(FILES)]
    for hour in range(FILES // 2):
        at = START + timedelta(hours=hour)
        for index, origin in enumerate(AIRPORTS):
            if origin == "EWR" and hour % 3 == 1:
                continue
            values = {"temp": 30.5 + hour + index, "wind_speed": 7.25 * index, "precip": 0, "visib": None}
            files[2 * hour + 1].append(json.dumps({"observed_at": text(at), "origin": origin, **values}))
    files[1] += BAD_WEATHER
    stale = {"observed_at": text(START + timedelta(hours=1)), "origin": "EWR", "temp": 99.0}
    files[-1].append(json.dumps(stale))  # it would fit flights that have come out without
    return files


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Survivors]:
    with project(tmp_path_factory.mktemp("flight_weather")) as made:
        specs = [stream("flight_weather", made.data, backend) for backend in of_tier(request.config, FIRST)]
        one, other = (Path(folder) for folder in specs[0].source.folders)
        publish(one, flights(), name="flights-")
        publish(other, weather(), name="weather-")
        yield brought_to_end(request, made, specs, after=3)  # the batch with malformed rows has long been reported


@pytest.mark.parametrize("backend", in_tiers(FIRST))
def test_every_row_is_right(runs: Survivors, backend: Backend) -> None:
    outcome = passed(runs.specs[backend])
    assert outcome.expected > FILES * FLIGHTS / 2


@pytest.mark.full  # in the first tier twins judge the windows of test_event_windows
@pytest.mark.parametrize("backend", in_tiers(FIRST))
def test_an_unbroken_twin_joins_the_same_rows(runs: Survivors, backend: Backend, tmp_path: Path) -> None:
    twin = assert_the_twin_agrees(runs.specs[backend], tmp_path / "twins", of="flight_weather")
    assert twin.outcome.expected > FILES * FLIGHTS / 2


@pytest.mark.parametrize("backend", in_tiers(FIRST))
def test_flights_whose_hour_nobody_observed_come_out_with_nulls(runs: Survivors, backend: Backend) -> None:
    notes = verify(runs.specs[backend]).notes
    output = read_output(Path(str(runs.specs[backend].sink.path)))
    rows = [dict(zip(output.columns, row, strict=True)) for row in output.rows]
    bare = [row for row in rows if row["observed_at"] is None]
    assert {row["origin"] for row in bare if row["event_time"] >= START} == {"EWR"}  # nothing is observed before that
    assert len(bare) == notes["without_weather"]
    assert len(bare) > 3
    assert all(row["temp"] is None for row in bare)
    assert any(row["visib"] is None and row["temp"] is not None for row in rows)


@pytest.mark.parametrize("backend", in_tiers(FIRST))
def test_a_flight_of_the_watermarks_very_moment_waits_on(runs: Survivors, backend: Backend) -> None:
    final = START + timedelta(hours=4)
    assert verify(runs.specs[backend]).notes["final_watermark"] == str(final)
    output = read_output(Path(str(runs.specs[backend].sink.path)))
    rows = [dict(zip(output.columns, row, strict=True)) for row in output.rows]
    assert "08-on-the-hour" not in {row["flight_id"] for row in rows}
    assert max(row["event_time"] for row in rows if row["observed_at"] is None) < final


@pytest.mark.parametrize("backend", in_tiers(FIRST))
def test_late_rows_of_both_sides_are_dropped_and_counted(runs: Survivors, backend: Backend) -> None:
    notes = verify(runs.specs[backend]).notes
    assert notes["late_flights"] == 2
    assert notes["late_observations"] == 1
    assert sum(report.operators[0].rows_dropped_by_watermark for report in runs.reports(backend)) == 3


@pytest.mark.parametrize("backend", in_tiers(FIRST))
def test_state_is_bounded_by_the_watermark_on_both_sides(runs: Survivors, backend: Backend) -> None:
    held = [report.operators[0].rows_total for report in runs.reports(backend) if report.operators]
    assert held[-1] < max(held)
    assert max(held) < 7 * (FLIGHTS + 1) + 12  # three hours and a batch of flights; as many hours of weather


@pytest.mark.parametrize("backend", in_tiers(FIRST))
def test_what_is_neither_is_counted_for_each_side_and_kept_aside(runs: Survivors, backend: Backend) -> None:
    books = verify(runs.specs[backend]).notes["books"]
    assert isinstance(books, dict)
    assert books["malformed"] == len(BAD_FLIGHTS) + len(BAD_WEATHER)
    reports = runs.reports(backend)
    counted = [
        sum(int(report.observed_metrics.get(name, {}).get("malformed") or 0) for report in reports)
        for name in ("input", "input_1")
    ]
    assert counted == [len(BAD_FLIGHTS), len(BAD_WEATHER)]
    kept = runs.quarantined(backend)
    assert len(kept) == len(BAD_FLIGHTS) + len(BAD_WEATHER)
    assert sum("/weather-" in row["file"] for row in kept) == len(BAD_WEATHER)
    assert any("temp is not of type double: cold" in row["reason"] for row in kept)


@pytest.mark.full  # in the first tier the outer join has the same rows, and those without weather
def test_an_inner_join_leaves_out_what_has_no_weather(runs: Survivors) -> None:
    outer = runs.specs[FIRST]
    inner = replace(
        outer,
        name="flight_weather_inner",
        args=("join=inner",),
        sink=replace(outer.sink, path=f"{outer.sink.path}_inner"),
        checkpoint=f"{outer.checkpoint}_inner",
    )
    runs.project.await_end(runs.project.start(inner))
    outcome = verify(inner)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.notes["without_weather"] == 0
    assert verify(replace(inner, args=())).lost > 3, "the outer join's oracle misses the flights without weather"


@pytest.mark.full  # in the first tier unit/lifecycle/forks/test_fork_plan forks a stream of two folders
def test_a_fork_reads_both_folders_anew_and_ends(runs: Survivors, tmp_path: Path) -> None:
    spec = runs.specs[FIRST]
    made = fork(spec, into=tmp_path / "fork", rewind=6)
    assert made.batch is not None
    assert made.unseen > 2
    assert runs.project.await_end(runs.project.start(made.spec)).kind is ExitKind.COMPLETED
    starts = (*recorded(spec.name), *recorded(made.spec.name))
    outcome = verify(made.spec, starts=starts)  # all of its output: what it took over and what it did again
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.expected > 0


def test_a_dropped_a_doubled_and_an_altered_row_are_named(runs: Survivors, tmp_path: Path) -> None:
    found = forged(
        runs.specs[FIRST],
        tmp_path,
        warmer=lambda rows: [{**rows[0], "temp": 99.0}, *rows[1:]],
        foreign=lambda rows: [*rows, {**rows[0], "flight_id": "no such flight"}],
    )
    assert found == {"warmer": (0, 0, 0, 1), "foreign": (0, 0, 1, 0)}
