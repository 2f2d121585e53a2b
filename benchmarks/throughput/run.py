"""Events a second and state bytes a key of each job of the catalogue, supervised and under Spark alone.

Each round runs a job twice over the same input, at the same time, each run on its own core and from an empty
checkpoint: once as a supervised driver (launcher, supervisor process, runner, listener, lease, store, all of them on
its core) and once as the same query with the same settings and the same class archive under a bare spark-submit. The
cores are swapped from round to round. What else the machine does meets both alike, and one core hides nothing: what
supervision uses is taken from its query.

What is compared is the time of each batch (`triggerExecution`) with that of the same batch of the other run. The first
third of the batches warms the JVMs up and is left out. Rates are those of one core and of small batches, which a
job's own trigger and files would make larger.

State bytes a key are those of the checkpoint (uploaded snapshots and changelogs) at the end, over the rows that the
state holds then.

    python benchmarks/throughput/run.py [--rounds 2] [--rows 54000] [JOB ...]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from streamwarden.adapters.jvm.environments import own
from streamwarden.adapters.jvm.java import find_java
from streamwarden.adapters.jvm.spark_home import spark_home
from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.formats.state import state_stores
from streamwarden.config.loading import load_stream
from streamwarden.config.stored_spec import spec_to_dict
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.submission import driver_properties, properties_text
from streamwarden.progress import Progress, parse_progress
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.fleet.launching import class_archive
from streamwarden.services.fleet.launching.launch import driver_environment
from streamwarden.services.replay.replay import replay
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import SourceSpec, StreamSpec, TriggerSpec

PROJECT = Path(__file__).resolve().parents[2]
FILES = 18
WARM_UP = 6
"""Batches that do not count."""

PATIENCE = 900.0
COMPILED_ONCE = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""HotSpot's second compiler works for minutes, and differently in each run: more than what is to be seen here."""

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


def nothing(spec: StreamSpec, rows: int) -> None:
    """The source makes its rows itself."""


PACED = ("windowed_values",)
"""Jobs whose source makes rows by the clock: a batch each `PACE` seconds, of as many rows as the others' have."""

PACE = 3
STOPPED = ("user_sessions", "user_action_counts", "flight_weather", *PACED)
"""Jobs that are stopped when their rows are read. A bounded run of one with a clock would read all of its input in one
batch, that of a join would go on with a year's weather after the last flight, that of a job with its own source would
never end."""

INPUTS: dict[str, Callable[[StreamSpec, int], None]] = {
    "flight_departures": flights,
    "aircraft_rotations": flights,
    "flight_dedup": flights,
    "flight_dedup_unbounded": flights,
    "flight_weather": flights,
    "event_windows": lines_of(event_lines),
    "event_dedup": lines_of(repeated_lines),
    "device_heartbeats_event_time": lines_of(reading_lines),
    "state_evolution": lines_of(purchase_lines),
    "user_sessions": lines_of(session_lines),
    "user_action_counts": lines_of(action_lines),
    "windowed_values": nothing,
}
"""`device_heartbeats` has its own benchmark: its work comes from timers, not from rows."""


@dataclass(frozen=True)
class Timed:
    """A batch with input."""

    rows: int
    seconds: float


@dataclass(frozen=True)
class Run:
    """One run of one job: its batches after the warm-up, and what its state came to."""

    batches: list[Timed]
    state_rows: int
    state_bytes: int

    @property
    def rate(self) -> float:
        return sum(batch.rows for batch in self.batches) / sum(batch.seconds for batch in self.batches)


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--rows", type=int, default=54_000, help="input rows of a run")
    options.add_argument("jobs", nargs="*", metavar="JOB", help=f"some of {', '.join(INPUTS)}; default: all")
    given = options.parse_args()
    for job in given.jobs:
        if job not in INPUTS:
            options.error(f"there is no input for {job!r}: choose from {', '.join(INPUTS)}")
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("this compares two runs on a core each: it needs two cores")
    print("| job | events/s supervised | events/s bare | supervised/bare time | each round | state bytes a row |")
    print("|---|---|---|---|---|---|", flush=True)
    every = []
    for job in given.jobs or INPUTS:
        with tempfile.TemporaryDirectory(prefix=f"throughput-{job}-") as folder:
            pairs = [pair(job, Path(folder) / str(number), given.rows, number) for number in range(given.rounds)]
        every.append([ratios(*each) for each in pairs])
        print(row(job, pairs, every[-1]), flush=True)
    if len(every) > 1:
        print(f"| all of them | | | {overhead([each for rounds in every for each in rounds])} | | |")
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    print(f"\n{given.rounds} rounds of {given.rows} rows in {FILES} batches; load of a core now: {load:.1f}")
    return 0


def row(job: str, pairs: list[tuple[Run, Run]], found: list[list[float]]) -> str:
    """A line of the table."""
    supervised = statistics.median(one.rate for one, _ in pairs)
    bare = statistics.median(other.rate for _, other in pairs)
    each = ", ".join(f"{math.expm1(statistics.mean(logs)):+.1%}" for logs in found)
    last = pairs[-1][0]
    size = f"{last.state_bytes / last.state_rows:.0f} ({last.state_rows:,} rows)" if last.state_rows else "none left"
    return f"| `{job}` | {supervised:,.0f} | {bare:,.0f} | {overhead(found)} | {each} | {size} |"


def ratios(one: Run, other: Run) -> list[float]:
    """Of each batch: logarithm of the time of the one run over that of the other."""
    return [math.log(a.seconds / b.seconds) for a, b in zip(one.batches, other.batches, strict=True)]


def overhead(found: list[list[float]]) -> str:
    """The mean over the rounds (a core has the same part in each), and its 95 % interval: bootstrap over batches."""
    chance = random.Random(11)  # noqa: S311 (resampling)

    def mean(rounds: list[list[float]]) -> float:
        return math.expm1(statistics.mean(statistics.mean(logs) for logs in rounds))

    drawn = sorted(mean([chance.choices(logs, k=len(logs)) for logs in found]) for _ in range(2000))
    return f"{mean(found):+.1%} ({drawn[50]:+.1%} … {drawn[1949]:+.1%})"


def pair(job: str, root: Path, rows: int, number: int) -> tuple[Run, Run]:
    """The supervised and the bare run of one round, side by side."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    ours, theirs = cores if number % 2 == 0 else cores[::-1]
    expected = rows if job in STOPPED else None
    if job in PACED:
        expected = rows * 3 // 2  # its first batch has the rows of the start, too
    specs = []
    for kind in ("supervised", "bare"):
        spec = bounded(job, root / kind, rows)
        INPUTS[job](spec, rows)
        specs.append(spec)
    with bare(specs[1], root / "bare", theirs, expected) as reports:
        return measured(specs[0], supervised(specs[0], root / "supervised", ours, expected)), measured(
            specs[1], reports()
        )


def bounded(job: str, data: Path, rows: int) -> StreamSpec:
    """The repository's stream, a file of each source a batch; it ends with its input."""
    spec = load_stream(PROJECT / "config/streams" / f"{job}.yaml", project=PROJECT, data=data)
    trigger = TriggerSpec(processing_time=0.0) if job in STOPPED else TriggerSpec(available_now=True)
    source: SourceSpec = spec.source
    if isinstance(source, FilesSource):
        source = replace(source, max_files_per_trigger=1)
    if job in PACED:
        trigger = TriggerSpec(processing_time=float(PACE))
        source = replace(spec.source, options={"rowsPerSecond": str(rows // FILES // PACE)})
    return replace(
        spec,
        source=source,
        trigger=trigger,
        spark=replace(spec.spark, master="local[1]", conf={**spec.spark.conf, **COMPILED_ONCE}),
    )


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """What is started in here stays on that core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def supervised(spec: StreamSpec, data: Path, core: int, expected: int | None) -> list[Progress]:
    """The reports of a driver of Streamwarden."""
    with Store(f"sqlite:///{data / 'store.db'}") as store:
        store.migrate()
        fleet = Fleet(store, data)

        def reports() -> list[Progress]:
            return [batch.progress for batch in store.batches.window(spec.name) if batch.progress is not None]

        with on_core(core):
            record = fleet.start(spec, launched_by="benchmark").record
        deadline = time.monotonic() + PATIENCE
        if expected is not None:
            while sum(read(spec, each) for each in reports()) < expected and time.monotonic() < deadline:
                time.sleep(1)
            fleet.stop(spec.name, requested_by="benchmark", reason="all is read")
        seen = fleet.wait(record.driver_id, timeout=PATIENCE)
        if seen.exit is None or seen.exit.kind not in (ExitKind.COMPLETED, ExitKind.STOPPED):
            raise SystemExit(f"the driver did not complete: {seen.exit}")
        return reports()


@contextmanager
def bare(spec: StreamSpec, data: Path, core: int, expected: int | None) -> Iterator[Callable[[], list[Progress]]]:
    """A driver under spark-submit alone, with the same settings; call what is yielded for its reports."""
    folder = data / "bare"
    (folder / files.TEMPORARY).mkdir(parents=True)
    document, reported = folder / "spec.json", folder / "reports.jsonl"
    document.write_text(json.dumps(spec_to_dict(spec)))
    flags = class_archive.flags(own(), find_java())
    conf = driver_properties(spec, folder, python=sys.executable, jvm_flags=flags)
    conf["spark.sql.warehouse.dir"] = str(data / "warehouse")
    (folder / files.PROPERTIES).write_text(properties_text(conf))
    command = [str(spark_home() / "bin" / "spark-submit"), "--properties-file", str(folder / files.PROPERTIES)]
    script = str(Path(__file__).with_name("bare.py"))
    command += [script, str(document), str(reported), str(expected or "all"), own_source(spec)]
    environment = driver_environment(spec, data, "sqlite://", None, own_spark=True)
    with (folder / "log").open("w") as log, on_core(core):
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def reports() -> list[Progress]:
        if process.wait(PATIENCE) != 0:
            raise SystemExit(f"the bare query failed:\n{(folder / 'log').read_text()[-2000:]}")
        return [parse_progress(json.loads(line)) for line in reported.read_text().splitlines()]

    try:
        yield reports
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)


def read(spec: StreamSpec, report: Progress) -> int:
    """Rows of the job's own input; those of a clock beside it do not count."""
    return sum(source.rows for source in report.sources if source.description.startswith(own_source(spec)))


def own_source(spec: StreamSpec) -> str:
    """How Spark's description of the job's own source begins."""
    return "RateStream" if spec.source.kind == "rate" else "FileStreamSource"


def measured(spec: StreamSpec, reports: list[Progress]) -> Run:
    """From the reports of all batches and the checkpoint."""
    fed = [Timed(rows, each.durations_ms["triggerExecution"] / 1000) for each in reports if (rows := read(spec, each))]
    last = [report for report in reports if report.operators][-1]
    return Run(
        batches=fed[WARM_UP:FILES],
        state_rows=sum(operator.rows_total for operator in last.operators),
        state_bytes=sum(store.bytes for store in state_stores(open_path(spec.checkpoint))),
    )


if __name__ == "__main__":
    sys.exit(main())
