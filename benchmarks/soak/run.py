"""Kills a stream many times at random moments, lets it end, and compares its whole output with the oracle.

Each run is the job `flight_departures` over 100,000 flights in batches of 500, with a sink of files, a PostgreSQL table
or a Kafka topic. The driver is killed (SIGKILL to its process group) at a random moment of its start, or of the batch
that follows its first, second … or fifth commit, and is started again at once, until the run has had its kills. Then it
ends by itself, and the oracle of the job judges the output. The moments come from the seed; where they fall depends on
the machine. The exit code is 1 if a row is lost, duplicated, unexpected or wrong.

    python benchmarks/soak/run.py [--kills 200] [--seed 1] [--sinks files postgresql kafka]
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from streamwarden.adapters.connections import variable
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.batch_progress import read_traces
from streamwarden.checkpoint.formats.layout import COMMITS, OFFSETS
from streamwarden.checkpoint.formats.logs import LogPosition, log_position, written_at
from streamwarden.config.loading import load_catalog
from streamwarden.lifecycle.settings import RETAIN
from streamwarden.services.fleet.recorded_starts import starts_of
from streamwarden.services.replay.replay import replay
from streamwarden.services.verifying.verification import verify
from streamwarden.services.workspace import Workspace
from streamwarden.sinks.base import Sink
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.sources.base import StoredSource
from streamwarden.stream.spec import SinkSpec, StreamSpec, TriggerSpec
from streamwarden.verification.reconciliation import Reconciliation

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY / "tests"))

RECORDS: Final = 100_000
RECORDS_A_BATCH: Final = 500
KILLS_A_RUN: Final = 34
CONNECTION: Final = "soak"

START: Final = (0.2, 8.0)
"""Share of the kills that come during a start, and the seconds after the launch until which they come."""
COMMITS_A_LIFE: Final = 5
"""The other kills come at a random moment of a batch, after one to so many commits of the driver."""
PATIENCE: Final = 180.0
"""Seconds within which a driver plans a batch, and at the end reads the rest."""
POLL: Final = 0.02

_KINDS: Final = ("lost", "duplicated", "unexpected", "wrong")


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: the window between two writes in which it fell, and the newest commit at that moment."""

    window: str
    at: float
    committed: int | None


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its kills, the seconds from each to the next commit, and the verdict."""

    kills: tuple[Kill, ...]
    recoveries: tuple[float, ...]
    outcome: Reconciliation


def main() -> int:
    """Parse the options, run, print the tables; 1 if an output was not exactly once."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--sinks", nargs="+", choices=SINKS, default=list(SINKS))
    given = options.parse_args()
    runs: dict[str, list[Run]] = {}
    for at, name in enumerate(given.sinks):
        share = given.kills // len(given.sinks) + (at < given.kills % len(given.sinks))
        with SINKS[name]() as sink:
            runs[name] = soak(sink, share, random.Random(f"{given.seed}-{name}"))  # noqa: S311
        print(name, [summary(run.outcome) for run in runs[name]], file=sys.stderr, flush=True)
    print(report(runs))
    return int(any(not run.outcome.exactly_once for each in runs.values() for run in each))


def soak(
    sink: SinkSpec | None,
    kills: int,
    moments: random.Random,
    records: int = RECORDS,
    commits: int = COMMITS_A_LIFE,
) -> list[Run]:
    """Runs until there were so many kills. `sink` None: the files of the stream in the catalogue.

    Args:
        commits: see `COMMITS_A_LIFE`.
    """
    done: list[Run] = []
    while (left := kills - sum(len(run.kills) for run in done)) > 0:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            data = Path(folder)
            spec = stream(data, sink, records, f"run_{len(done)}")
            with Workspace.open(project=REPOSITORY, data=data, store_url=f"sqlite:///{data}/store.db") as workspace:
                done.append(one_run(workspace, spec, min(left, KILLS_A_RUN), moments, commits))
    return done


def stream(data: Path, sink: SinkSpec | None, records: int, run: str) -> StreamSpec:
    """The stream of the catalogue with one file a batch, which ends when it has read its input."""
    spec = load_catalog(REPOSITORY, data).get("flight_departures")
    assert isinstance(spec.source, StoredSource), "the catalogue declares it"
    replay(Path(str(spec.source.path)), rows_per_file=RECORDS_A_BATCH, limit=records)
    if isinstance(sink, PostgresqlSink):
        sink = replace(sink, table=f"{sink.table}_{run}")
    elif isinstance(sink, KafkaSink):
        sink = replace(sink, topic=f"{sink.topic}-{run}")
    conf = {**spec.spark.conf, RETAIN: "100000", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    return replace(
        spec,
        source=spec.source.limited_to(1),
        sink=sink or spec.sink,
        trigger=TriggerSpec(processing_time=None, available_now=True),
        state=replace(spec.state, shuffle_partitions=2),
        spark=replace(spec.spark, conf=conf),
    )


def one_run(workspace: Workspace, spec: StreamSpec, kills: int, moments: random.Random, commits: int) -> Run:
    """Kill, start again, let it end, judge."""
    struck: list[Kill] = []
    while True:
        driver = workspace.fleet.start(spec, launched_by="soak").record.driver_id
        if len(struck) >= kills or not await_moment(workspace, spec, driver, moments, commits):
            break
        if workspace.fleet.kill(driver):
            workspace.fleet.wait(driver, timeout=PATIENCE)
            struck.append(kill_of(spec, time.time()))
    workspace.fleet.wait(driver, timeout=10 * PATIENCE)
    starts = starts_of(workspace.store, spec.name, spec.checkpoint)
    outcome = verify(spec, starts=starts, bounded_from=0)
    return Run(tuple(struck), tuple(recoveries(spec, struck)), outcome)


def await_moment(workspace: Workspace, spec: StreamSpec, driver: str, moments: random.Random, commits: int) -> bool:
    """Wait for a random moment of the driver's life; False if it ended before."""
    share, latest = START
    in_start, fraction = moments.random() < share, moments.random()
    ahead = 0 if in_start else moments.randint(1, commits)
    wanted = newest_commit(spec) + ahead

    def lives_until(reached: Callable[[], bool]) -> bool:
        began = time.monotonic()
        while not reached():
            if time.monotonic() - began > PATIENCE or workspace.fleet.observe(driver).exit is not None:
                return False
            time.sleep(POLL)
        return True

    if not lives_until(lambda: newest_commit(spec) >= wanted):
        return False
    until = time.monotonic() + fraction * (latest if in_start else seconds_of(spec, newest_commit(spec)))
    return lives_until(lambda: time.monotonic() >= until)


def newest_commit(spec: StreamSpec) -> int:
    """The newest committed batch; -1 before the first."""
    committed = position(spec).committed
    return -1 if committed is None else committed


def seconds_of(spec: StreamSpec, batch: int) -> float:
    """How long a committed batch took, from its plan to its commit."""
    checkpoint = open_path(spec.checkpoint)
    planned, committed = (written_at(checkpoint, log, batch) for log in (OFFSETS, COMMITS))
    assert planned is not None
    assert committed is not None
    return committed - planned


def position(spec: StreamSpec) -> LogPosition:
    """Where the logs stand; empty before the first start."""
    return log_position(open_path(spec.checkpoint))


def kill_of(spec: StreamSpec, at: float) -> Kill:
    """The kill of a driver that has ended: between which two writes it fell, by what is on the disk."""
    now = position(spec)
    if now.planned is None or now.planned == now.committed:
        return Kill("commits/N, the next batch is not planned", at, now.committed)
    output = open_path(spec.sink.path) if spec.sink.path else None
    traces = read_traces(open_path(spec.checkpoint), output, now.planned)
    assert isinstance(spec.sink, Sink)
    arrived = traces.listed if output is not None else (spec.sink.newest(spec) or -1) >= now.planned
    if arrived:
        window = "the sink has the batch, commits/N is absent"
    elif traces.files:
        window = "data files, the sink's manifest is absent"
    elif traces.state:
        window = "state files, nothing in the sink"
    else:
        window = "offsets/N, no state file (most of a start and of a batch)"
    return Kill(window, at, now.committed)


def recoveries(spec: StreamSpec, kills: Iterable[Kill]) -> Iterator[float]:
    """Seconds from each kill to the next commit."""
    for kill in kills:
        batch = -1 if kill.committed is None else kill.committed
        committed = written_at(open_path(spec.checkpoint), COMMITS, batch + 1)
        if committed is not None:
            yield committed - kill.at


def summary(outcome: Reconciliation) -> str:
    """`0 lost, 0 duplicated, …`."""
    return ", ".join(f"{getattr(outcome, kind)} {kind}" for kind in _KINDS) + f", problems: {list(outcome.problems)}"


def report(runs: dict[str, list[Run]]) -> str:
    """The table of the sinks and the table of the windows."""
    heads = ["sink", "runs", "kills", "rows", *_KINDS, "written again", "recovery: median, 90 %, longest"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for name, each in runs.items():
        outcomes = [run.outcome for run in each]
        counts = [sum(getattr(one, kind) for one in outcomes) for kind in _KINDS]
        seconds = sorted(second for run in each for second in run.recoveries)
        cells = [name, len(each), sum(len(run.kills) for run in each), sum(one.actual for one in outcomes), *counts]
        repeated = sum(one.repeated or 0 for one in outcomes)
        lines.append(f"| {' | '.join(map(str, cells))} | {repeated} | {spread(seconds)} |")
    windows = Counter(kill.window for each in runs.values() for run in each for kill in run.kills)
    lines += ["", "| the kill fell after | times |", "|---|---|"]
    lines += [f"| {window} | {count} |" for window, count in windows.most_common()]
    return "\n".join(lines)


def spread(seconds: Sequence[float]) -> str:
    """`8.1 s, 9.4 s, 12.0 s`."""
    if not seconds:
        return "-"
    ninth = seconds[min(len(seconds) - 1, int(0.9 * len(seconds)))]
    return f"{statistics.median(seconds):.1f} s, {ninth:.1f} s, {seconds[-1]:.1f} s"


@contextmanager
def files() -> Iterator[None]:
    """The sink of the catalogue's stream."""
    yield None


@contextmanager
def postgresql() -> Iterator[SinkSpec]:
    """A table of a server that runs as long as the soak."""
    from support.servers.postgres_server import running

    with running() as server:
        server.create("soak")
        os.environ[variable(CONNECTION)] = server.connection("soak")
        yield PostgresqlSink(connection=CONNECTION, table="departures")


@contextmanager
def kafka() -> Iterator[SinkSpec]:
    """A topic of a broker that runs as long as the soak. Its readers drop repeated event ids."""
    from support.servers.kafka_broker import broker

    with broker() as made:
        os.environ[variable(CONNECTION)] = made.connection
        for number in range(20):
            made.create(f"departures-run_{number}")
        yield KafkaSink(connection=CONNECTION, topic="departures", key=("window_start", "origin", "carrier"))


SINKS: Final = {"files": files, "postgresql": postgresql, "kafka": kafka}

if __name__ == "__main__":
    sys.exit(main())
