"""Events a second and state bytes a key of each job of the catalogue, supervised and under Spark alone.

Each round runs a job twice over the same input, from empty checkpoints: once as a supervised driver (launcher, keeper,
runner, listener, lease, store) and once as the same query with the same settings under a bare spark-submit; which goes
first alternates. What is compared is the time within batches (the sum of `triggerExecution` over the batches with
input, from the second on: the first one warms the JVM up, and both pay for it), so the start of the JVM is left out.

State bytes a key are those of the checkpoint (uploaded snapshots and changelogs) at the end, over the rows that the
state holds then.

    python benchmarks/throughput/run.py [--rounds 3] [--rows 100000] [JOB ...]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from streamwarden.adapters.config import load_stream, spec_to_dict
from streamwarden.adapters.files import LocalFiles
from streamwarden.adapters.fleet import Fleet
from streamwarden.adapters.launch import driver_environment
from streamwarden.adapters.replay import replay
from streamwarden.adapters.spark_home import spark_home
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.state import state_stores
from streamwarden.lifecycle import folder as files
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.submission import driver_properties, properties_text
from streamwarden.progress import Progress, parse_progress
from streamwarden.stream import StreamSpec, TriggerSpec

PROJECT = Path(__file__).resolve().parents[2]
FILES = 12
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def event_lines(rows: int) -> Iterator[str]:
    """Of 5,000 users, 50 a second."""
    chance = random.Random(1)  # noqa: S311 (test data)
    for number in range(rows):
        at = START + timedelta(milliseconds=number * 20)
        stamp = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
        yield json.dumps({"event_time": stamp, "user_id": chance.randrange(5000), "action": f"a{number % 9}"})


def repeated_lines(rows: int) -> Iterator[str]:
    """Of 5,000 users, 50 a second; one in ten is the event of a second before once more."""
    chance = random.Random(6)  # noqa: S311 (test data)
    for number in range(rows):
        event = number - 50 if number >= 50 and chance.random() < 0.1 else number
        at = START + timedelta(milliseconds=event * 20)
        stamp = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
        yield json.dumps({"event_time": stamp, "event_id": f"e{event}", "user_id": event % 5000, "action": "a"})


def session_lines(rows: int) -> Iterator[str]:
    """Some five of each id; one in five is its last."""
    chance = random.Random(2)  # noqa: S311 (test data)
    for number in range(rows):
        user = f"web:{chance.randrange(rows // 5)}"
        yield json.dumps({"id": user, "data": f"d{number}", "is_last": chance.random() < 0.2})


def action_lines(rows: int) -> Iterator[str]:
    """Some five of each user."""
    chance = random.Random(3)  # noqa: S311 (test data)
    for number in range(rows):
        yield json.dumps({"user_id": chance.randrange(rows // 5), "action": f"a{number % 9}"})


def reading_lines(rows: int) -> Iterator[str]:
    """Of 1,000 devices with ten sessions each, 500 a second."""
    chance = random.Random(4)  # noqa: S311 (test data)
    for number in range(rows):
        at = START + timedelta(milliseconds=number * 2)
        stamp = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
        device, session = chance.randrange(1000), chance.randrange(10)
        yield json.dumps({"device_id": f"d{device}", "session_id": f"s{session}", "state": "on", "event_time": stamp})


def purchase_lines(rows: int) -> Iterator[str]:
    """Some five of each customer."""
    chance = random.Random(5)  # noqa: S311 (test data)
    for number in range(rows):
        yield json.dumps({"customer": f"c{chance.randrange(rows // 5)}", "amount": 100 + number % 900})


def write(folder: Path, lines: Iterator[str], rows: int) -> None:
    """`FILES` files, in the order in which Spark reads them."""
    folder.mkdir(parents=True)
    share = -(-rows // FILES)
    for number in range(FILES):
        path = folder / f"{number:03d}.json"
        path.write_text("".join(f"{line}\n" for _, line in zip(range(share), lines, strict=False)))
        os.utime(path, (1_800_000_000 + number, 1_800_000_000 + number))


def flights(spec: StreamSpec, rows: int) -> None:
    """Real ones, as many as are wanted."""
    replay(Path(str(spec.source.path)), parts=spec.source.parts, rows_per_file=-(-rows // FILES), limit=rows)


def lines_of(make: Callable[[int], Iterator[str]]) -> Callable[[StreamSpec, int], None]:
    """Publishes what `make` makes."""
    return lambda spec, rows: write(Path(str(spec.source.path)), make(rows), rows)


INPUTS: dict[str, Callable[[StreamSpec, int], None]] = {
    "flight_departures": flights,
    "aircraft_rotations": flights,
    "flight_dedup": flights,
    "flight_weather": flights,
    "event_windows": lines_of(event_lines),
    "event_dedup": lines_of(repeated_lines),
    "device_heartbeats_event_time": lines_of(reading_lines),
    "state_evolution": lines_of(purchase_lines),
    "user_sessions": lines_of(session_lines),
    "user_action_counts": lines_of(action_lines),
}


@dataclass(frozen=True)
class Run:
    """One run of one job."""

    rows: int
    seconds: float
    state_rows: int
    state_bytes: int

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--rows", type=int, default=100_000, help="input rows of a run")
    options.add_argument("jobs", nargs="*", metavar="JOB", help=f"some of {', '.join(INPUTS)}; default: all")
    given = options.parse_args()
    for job in given.jobs:
        if job not in INPUTS:
            options.error(f"there is no input for {job!r}: choose from {', '.join(INPUTS)}")
    print("| job | events/s supervised | events/s bare | bare/supervised time, each round | state bytes a row |")
    print("|---|---|---|---|---|", flush=True)
    for job in given.jobs or INPUTS:
        with tempfile.TemporaryDirectory(prefix=f"throughput-{job}-") as folder:
            pairs = [
                pair(job, Path(folder) / str(number), given.rows, number % 2 == 0) for number in range(given.rounds)
            ]
        print(row(job, pairs), flush=True)
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    print(f"\n{given.rounds} rounds of {given.rows} rows; load of a core now: {load:.1f}")
    return 0


def row(job: str, pairs: list[tuple[Run, Run]]) -> str:
    """A line of the table."""
    supervised = statistics.median(one.rate for one, _ in pairs)
    bare = statistics.median(other.rate for _, other in pairs)
    ratios = ", ".join(f"{one.rate / other.rate:.3f}" for one, other in pairs)
    last = pairs[-1][0]
    size = f"{last.state_bytes / last.state_rows:.0f} ({last.state_rows:,} rows)" if last.state_rows else "none left"
    return f"| `{job}` | {supervised:,.0f} | {bare:,.0f} | {ratios} | {size} |"


def pair(job: str, root: Path, rows: int, supervised_first: bool) -> tuple[Run, Run]:
    """The supervised and the bare run of one round."""
    runs = {}
    for kind in (supervised, bare) if supervised_first else (bare, supervised):
        data = root / kind.__name__
        spec = bounded(job, data)
        INPUTS[job](spec, rows)
        runs[kind] = kind(spec, data)
    return runs[supervised], runs[bare]


def bounded(job: str, data: Path) -> StreamSpec:
    """The repository's stream, a file of each source a batch; it ends with its input."""
    spec = load_stream(PROJECT / "config/streams" / f"{job}.yaml", project=PROJECT, data=data)
    return replace(
        spec,
        source=replace(spec.source, max_files_per_trigger=1),
        trigger=TriggerSpec(processing_time=None, available_now=True),
    )


def supervised(spec: StreamSpec, data: Path) -> Run:
    """As a driver of Streamwarden."""
    with Store(f"sqlite:///{data / 'store.db'}") as store:
        store.migrate()
        fleet = Fleet(store, data)
        record = fleet.start(spec, launched_by="benchmark").record
        seen = fleet.wait(record.driver_id, timeout=900)
        if seen.exit is None or seen.exit.kind is not ExitKind.COMPLETED:
            raise SystemExit(f"the driver did not complete: {seen.exit}")
        reports = [batch.progress for batch in store.batches.window(spec.name) if batch.progress is not None]
    return measured(spec, reports)


def bare(spec: StreamSpec, data: Path) -> Run:
    """Under spark-submit alone, with the same settings."""
    folder = data / "bare"
    (folder / files.TEMPORARY).mkdir(parents=True)
    document, reports = folder / "spec.json", folder / "reports.jsonl"
    document.write_text(json.dumps(spec_to_dict(spec)))
    conf = driver_properties(spec, folder, python=sys.executable)
    conf["spark.sql.warehouse.dir"] = str(data / "warehouse")
    (folder / files.PROPERTIES).write_text(properties_text(conf))
    command = [str(spark_home() / "bin" / "spark-submit"), "--properties-file", str(folder / files.PROPERTIES)]
    command += [str(Path(__file__).with_name("bare.py")), str(document), str(reports)]
    environment = driver_environment(spec, data, "sqlite://", None, own_spark=True)
    with (folder / "log").open("w") as log:
        ended = subprocess.run(command, env=environment, stdout=log, stderr=log, timeout=900, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"the bare query failed:\n{(folder / 'log').read_text()[-2000:]}")
    return measured(spec, [parse_progress(json.loads(line)) for line in reports.read_text().splitlines()])


def measured(spec: StreamSpec, reports: list[Progress]) -> Run:
    """From the reports of all batches and the checkpoint."""
    fed = [report for report in reports if report.rows]
    warm = fed[1:] or fed  # a job with a clock reads all of its input in one batch
    last = [report for report in reports if report.operators][-1]
    return Run(
        rows=sum(report.rows for report in warm),
        seconds=sum(report.durations_ms["triggerExecution"] for report in warm) / 1000,
        state_rows=sum(operator.rows_total for operator in last.operators),
        state_bytes=sum(store.bytes for store in state_stores(LocalFiles(), spec.checkpoint)),
    )


if __name__ == "__main__":
    sys.exit(main())
