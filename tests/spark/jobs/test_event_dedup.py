"""event_dedup in micro-batches: killed in mid-batch, started again, and right to the event.

12 files of four minutes of events each. Each file repeats some events of its own and of the file before it; the last
three also repeat events that are forgotten by then. In the first tier test_real_time_mode kills this job.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamwarden.stream.spec import Backend
from support.spark.drivers import project
from support.spark.job_runs import Survivors, passed, publish, stream, survive
from support.spark.twins import assert_the_twin_agrees

pytestmark = [pytest.mark.spark, pytest.mark.full]

START = datetime(2023, 11, 14, 9, 0, tzinfo=UTC)
FILES, EVENTS, AGAIN = 12, 40, 10
LATE = 3


def event(number: int) -> str:
    at = START + timedelta(seconds=6 * number)
    told = {"event_time": f"{at:%Y-%m-%dT%H:%M:%S}.000Z", "event_id": f"e{number}", "user_id": number % 7}
    return json.dumps({**told, "action": "view"})


def lines() -> list[list[str]]:
    rng = random.Random(11)
    files = []
    for file in range(FILES):
        mine = range(file * EVENTS, (file + 1) * EVENTS)
        recent = range(max(0, (file - 1) * EVENTS), (file + 1) * EVENTS)
        old = [1, 2] if file >= FILES - LATE else []
        files.append([event(number) for number in (*mine, *rng.sample(recent, AGAIN), *old)])
    return files


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivors]:
    with project(tmp_path_factory.mktemp("event_dedup")) as made:
        spec = stream("event_dedup", made.data, Backend.ROCKSDB)
        publish(Path(str(spec.source.path)), lines())
        yield survive(made, [spec])


def test_a_kill_in_mid_batch_changes_no_row(runs: Survivors) -> None:
    outcome = passed(runs.specs[Backend.ROCKSDB])
    assert outcome.expected == FILES * EVENTS
    assert (outcome.notes["repeats"], outcome.notes["late_rows"]) == (FILES * AGAIN, 2 * LATE)


def test_an_unbroken_twin_writes_the_same_events(runs: Survivors, tmp_path: Path) -> None:
    twin = assert_the_twin_agrees(runs.specs[Backend.ROCKSDB], tmp_path / "twins", of="event_dedup")
    assert twin.key == ("event_id", "event_time")
