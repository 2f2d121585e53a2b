"""flight_dedup and its bad example, right to the row, on the state store that says how large its state is. With
`--full` they are killed in mid-batch and started again, and run on RocksDB, too.

16 files of three hours of flights each. Each file repeats some flights of its own and of the file before it, which are
remembered, and some of eight files before, which are too late. The bad example reads the same.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamwarden.health.checks.state import state_growth
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.progress import Progress
from streamwarden.stream.spec import Backend, HealthSpec
from support.spark.drivers import project
from support.spark.job_runs import Survivors, brought_to_end, forged, in_tiers, of_tier, passed, publish, stream
from support.spark.twins import assert_the_twin_agrees
from support.spark.verdicts import verify
from support.streams import health_windows

pytestmark = pytest.mark.spark

FIRST = Backend.HDFS
START = datetime(2023, 11, 1, tzinfo=UTC)
FILES, FLIGHTS = 16, 60
AGAIN = "again"
BAD = (
    "not json",
    '{"flight_id":"cut off","event_time":"2023-11-01T06:00:00.000Z"',
    '{"flight_id":null,"event_time":"2023-11-01T06:00:00.000Z"}',
    '{"flight_id":"no time"}',
    '{"flight_id":"no such time","event_time":"2023-11-01"}',
    '{"flight_id":"wrong type","event_time":"2023-11-01T06:00:00.000Z","dep_delay":"none"}',
)
FUTURE = '{"flight_id":"future","event_time":"2099-01-01T00:00:00.000Z"}'


def flight(name: str, at: datetime, **changes: Any) -> str:
    told = {
        "flight_id": name,
        "event_time": f"{at:%Y-%m-%dT%H:%M:%S}.000Z",
        "origin": "JFK",
        "carrier": "B6",
        "dest": "BOS",
        "tailnum": f"N{len(name)}",
        "departed_at": f"{at + timedelta(minutes=7):%Y-%m-%dT%H:%M:%S}.000Z",
        "dep_delay": 7,
    }
    return json.dumps({**told, **changes})


def lines() -> list[list[str]]:
    rng = random.Random(5)
    files: list[list[str]] = []
    for number in range(FILES):
        begin = START + timedelta(hours=3 * number)
        new = [flight(f"{number}-{n}", begin + timedelta(minutes=3 * n)) for n in range(FLIGHTS)]
        file = [*new, *rng.sample(new, 10)]
        if number:
            file += rng.sample(files[number - 1][:FLIGHTS], 10)
        if number >= 12:  # in the second life: what a kill loses of the reports shall not matter
            file += rng.sample(files[number - 8][:FLIGHTS], 5)
        files.append(file)
    files[0].append(flight(AGAIN, START))
    files[4] += BAD
    files[9].append(flight(AGAIN, START + timedelta(hours=27)))
    return files


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Survivors]:
    texts = lines()
    texts[4].append(FUTURE)
    with project(tmp_path_factory.mktemp("flight_dedup")) as made:
        specs = [stream("flight_dedup", made.data, backend) for backend in of_tier(request.config, FIRST)]
        publish(Path(str(specs[0].source.path)), texts)
        yield brought_to_end(request, made, specs)


@pytest.fixture(scope="module")
def unbounded(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Survivors]:
    with project(tmp_path_factory.mktemp("unbounded")) as made:
        specs = [stream("flight_dedup_unbounded", made.data, backend) for backend in of_tier(request.config, FIRST)]
        publish(Path(str(specs[0].source.path)), lines())
        yield brought_to_end(request, made, specs)


@pytest.mark.parametrize("backend", in_tiers(FIRST))
def test_every_row_is_right(runs: Survivors, backend: Backend) -> None:
    outcome = passed(runs.specs[backend])
    assert outcome.expected == FILES * FLIGHTS + 2  # the flight that was forgotten came twice
    assert outcome.notes["late_rows"] == 4 * 5
    assert outcome.notes["repeats"] == FILES * 10 + (FILES - 1) * 10


@pytest.mark.full  # in the first tier a twin judges this job in drills/test_crash_and_damage_drills
def test_an_unbroken_twin_writes_the_same_flights(runs: Survivors, tmp_path: Path) -> None:
    assert_the_twin_agrees(runs.specs[FIRST], tmp_path / "twins", of="flight_dedup")


@pytest.mark.parametrize("backend", in_tiers(FIRST))
def test_late_flights_and_repeats_are_counted(runs: Survivors, backend: Backend) -> None:
    second_life = [each for each in runs.reports(backend) if each.operators and each.batch_id >= 12]
    assert sum(each.operators[0].rows_dropped_by_watermark for each in second_life) == 4 * 5
    assert sum(each.operators[0].custom["numDroppedDuplicateRows"] for each in second_life) == 4 * 20


@pytest.mark.parametrize("backend", in_tiers(FIRST))
def test_what_is_no_flight_is_counted_and_kept_aside(runs: Survivors, backend: Backend) -> None:
    books = verify(runs.specs[backend]).notes["books"]
    assert isinstance(books, dict)
    assert books["malformed"] == len(BAD) + 1
    assert len(runs.quarantined(backend)) == len(BAD) + 1


@pytest.mark.full
def test_an_unbroken_twin_of_the_bad_example_writes_the_same_flights(unbounded: Survivors, tmp_path: Path) -> None:
    assert_the_twin_agrees(unbounded.specs[FIRST], tmp_path / "twins", of="flight_dedup_unbounded")


@pytest.mark.parametrize("backend", in_tiers(FIRST))
def test_the_bad_example_is_right_to_the_row_too(unbounded: Survivors, backend: Backend) -> None:
    outcome = verify(unbounded.specs[backend])
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.expected == FILES * FLIGHTS + 1
    assert outcome.notes["remembered"] == outcome.expected


@pytest.mark.parametrize("backend", in_tiers(FIRST))
def test_the_state_is_what_the_oracle_says_is_remembered(
    runs: Survivors, unbounded: Survivors, backend: Backend
) -> None:
    """Five files of flights, however many there were; and all of them."""
    for each, most in ((runs, 5 * FLIGHTS + 1), (unbounded, FILES * FLIGHTS + 1)):
        held = [report.operators[0].rows_total for report in each.reports(backend) if report.operators]
        assert held[-1] == verify(each.specs[backend]).notes["remembered"]
        assert max(held) <= most
    assert max(held) == most


def growth(runs: Survivors, critical: float) -> Verdict:
    """What the check says of the real reports, had each of the files come when its last flight was due.

    The first 18 hours, in which any state fills up, are left out.
    """
    limits = {"state_size": {"warning": critical / 2, "critical": critical}}
    spec = replace(runs.specs[FIRST], health=HealthSpec(thresholds=limits))

    def due(report: Progress) -> float:
        return (START + timedelta(hours=3 * (report.batch_id + 1))).timestamp()

    reports = [replace(each, at=due(each)) for each in runs.reports(FIRST) if each.batch_id >= 6]
    assert len(reports) >= 10
    batches = tuple(health_windows.batch_of(each) for each in reports)
    return health_windows.judge(state_growth.CHECK, Window(spec=spec, now=due(reports[-1]), batches=batches))


def test_the_growth_check_catches_the_bad_example_and_not_the_good_one(runs: Survivors, unbounded: Survivors) -> None:
    """Critical is the size that five days of flights need, and two have passed. Spark estimates a state on the heap."""
    last = unbounded.reports(FIRST)[-1].operators[0]
    size = last.custom["stateOnCurrentVersionSizeBytes"] / last.rows_total
    five_days = size * 5 * 8 * FLIGHTS
    bad, good = growth(unbounded, five_days), growth(runs, five_days)
    assert bad.status is Status.WARNING, bad
    assert "state grows by" in bad.reason
    assert bad.value == pytest.approx(3 * 86_400, rel=0.3)
    assert good.status is Status.OK, good


def test_a_dropped_a_doubled_and_an_altered_row_are_named(runs: Survivors, tmp_path: Path) -> None:
    found = forged(
        runs.specs[FIRST],
        tmp_path,
        altered=lambda rows: [{**rows[0], "dest": "MIA"}, *rows[1:]],
        foreign=lambda rows: [*rows, {**rows[0], "flight_id": "foreign"}],
    )
    assert found == {"altered": (0, 0, 0, 1), "foreign": (0, 0, 1, 0)}
