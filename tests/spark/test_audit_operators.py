"""The books of each kind of operator: right as streams of the catalogue write them, and caught without one row.

One Spark session runs the streams and reads their books, as the process of an audit does.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamwarden.config.loading import load_stream
from streamwarden.lifecycle.submission import spark_conf
from streamwarden.services.auditing.auditing import Request, judged, requested
from streamwarden.stream import StreamSpec, TriggerSpec
from streamwarden.verification.balance import GROUPS, Audit, Outcome
from support.drivers import quick
from support.forged_output import copied, rewrite
from support.job_runs import publish

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).parents[2]
BEGAN = datetime(2023, 11, 13, 12, tzinfo=UTC)
FILES, LINES = 6, 30


def text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def events(chance: random.Random) -> list[list[str]]:
    """Events of ten minutes a file, a third of them repeated, some later than the watermark."""
    made: list[list[str]] = []
    known: list[str] = []
    for number in range(FILES):
        lines = []
        for index in range(LINES):
            if known and chance.random() < 0.3:
                lines.append(chance.choice(known[-40:]))
                continue
            at = BEGAN + timedelta(minutes=10 * number, seconds=chance.randrange(-1_500, 600))
            event = {"event_time": text(at), "event_id": f"{number}-{index}", "user_id": index % 7, "action": "login"}
            known.append(json.dumps(event))
            lines.append(known[-1])
        made.append(lines)
    return made


def flights(chance: random.Random) -> list[list[str]]:
    """Flights of four hours a file; some are reported hours late, some twice."""
    made: list[list[str]] = []
    known: list[str] = []
    for number in range(FILES):
        lines = []
        for index in range(LINES):
            if known and chance.random() < 0.2:
                lines.append(chance.choice(known[-60:]))
                continue
            at = BEGAN + timedelta(hours=4 * number, minutes=chance.randrange(-600, 240))
            flight = {
                "flight_id": f"{number}-{index}",
                "event_time": text(at),
                "origin": chance.choice(["JFK", "EWR"]),
                "carrier": "AA",
                "dest": "LAX",
                "tailnum": f"N{number}-{index % 9}",
                "departed_at": text(at),
                "dep_delay": index,
            }
            known.append(json.dumps(flight))
            lines.append(known[-1])
        made.append(lines)
    return made


def weather() -> list[list[str]]:
    """An observation for each hour of one airport, and for every second hour of the other."""
    made = []
    for number in range(FILES):
        hours = [BEGAN + timedelta(hours=hour) for hour in range(4 * number - 12, 4 * number + 4)]
        hours = hours[-4:] if number else hours
        observed = [(at, origin) for at in hours for origin in ("JFK", "EWR") if origin == "JFK" or at.hour % 2]
        made.append([json.dumps({"observed_at": text(at), "origin": origin, "temp": 1.5}) for at, origin in observed])
    return made


class Streams:
    """The streams that ran, by name."""

    def __init__(self, spark: Any, data: Path) -> None:
        self.spark = spark
        self.data = data
        self.specs: dict[str, StreamSpec] = {}

    def run(self, name: str) -> StreamSpec:
        if name in self.specs:
            return self.specs[name]
        from streamwarden.spark.jobs import load_build
        from streamwarden.spark.sinks import start_query

        spec = bounded(name, self.data)
        folder = Path(str(spec.source.path))
        if not folder.exists():
            chance = random.Random(5)
            if spec.source.parts:
                publish(folder / "flights", flights(chance))
                publish(folder / "weather", weather())
            else:
                publish(folder, events(chance) if name == "event_dedup" else flights(chance))
        start_query(load_build(Path(spec.job))(self.spark, spec), spec).awaitTermination()
        self.specs[name] = spec
        return spec

    def audit(self, spec: StreamSpec, folder: Path, last: int | None = None) -> Audit:
        """An audit in this session, in place of a process of its own."""
        from streamwarden.spark.audit import main

        request = requested(spec, last)
        assert isinstance(request, Request)
        folder.mkdir()
        (folder / "request.json").write_text(json.dumps(request.document))
        main(folder)
        result = json.loads((folder / "result.json").read_text())
        assert "failed" not in result, result
        return judged(spec, request, result)


def bounded(name: str, data: Path) -> StreamSpec:
    spec = load_stream(REPOSITORY / f"config/streams/{name}.yaml", project=REPOSITORY, data=data)
    return replace(
        spec,
        source=replace(spec.source, max_files_per_trigger=1),
        trigger=TriggerSpec(available_now=True),
        state=replace(spec.state, shuffle_partitions=1),
    )


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streams]:
    from pyspark.sql import SparkSession

    data = tmp_path_factory.mktemp("operators")
    conf = spark_conf(bounded("event_dedup", data)) | {
        **quick(data),
        "spark.master": "local[2]",
        "spark.local.dir": str(data),
        "spark.sql.warehouse.dir": str(data / "warehouse"),
    }
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield Streams(session, data)
    session.stop()


OPERATORS = {
    "event_dedup": "deduplication",
    "flight_dedup": "deduplication within the watermark",
    "aircraft_rotations": "session windows",
    "flight_weather": "join of two streams",
}


@pytest.mark.parametrize("name", OPERATORS)
def test_the_books_of_an_operator(streams: Streams, tmp_path: Path, name: str) -> None:
    """They balance from the first batch, and from the state after the third batch; without one row they do not."""
    spec = streams.run(name)
    whole = streams.audit(spec, tmp_path / "whole")
    assert whole.outcome is Outcome.BALANCED, whole.to_dict()
    assert whole.operator == OPERATORS[name]
    assert whole.counts is not None
    assert whole.totals["output"][whole.counts]
    newest = streams.audit(spec, tmp_path / "newest", last=3)
    assert newest.outcome is Outcome.BALANCED, newest.to_dict()
    assert newest.range is not None
    assert newest.range.after > 0

    copy = copied(spec, tmp_path / "forged")
    rewrite(copy, lambda rows: rows[1:])
    forged = streams.audit(copy, tmp_path / "forged-books")
    assert forged.outcome is Outcome.UNBALANCED
    assert forged.unbalanced == 1
    assert forged.worst[0].differences[str(forged.counts)] >= 1
    assert GROUPS not in forged.worst[0].differences


def test_a_query_that_cannot_be_balanced_is_not_called_balanced(streams: Streams, tmp_path: Path) -> None:
    """Two operators that keep state: the rows of the first are not in the output."""
    spec = streams.run("event_dedup")
    job = tmp_path / "twice.py"
    text_of_job = Path(spec.job).read_text()
    job.write_text(text_of_job.replace('"event_time"])', '"event_time"]).dropDuplicates(["event_id", "event_time"])'))
    assert job.read_text() != text_of_job
    found = streams.audit(replace(spec, job=str(job)), tmp_path / "books")
    assert found.outcome is Outcome.UNDECIDED
    assert "several operators that keep state" in str(found.impossible)
