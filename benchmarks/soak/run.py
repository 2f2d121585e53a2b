"""Kills a stream many times in every phase of its batches, lets it end, and compares its whole output with the oracle.

Each run is the job `flight_departures` over 100,000 flights in batches of 500, with a sink of files, a PostgreSQL table
or a Kafka topic. The driver is killed (SIGKILL to its process group) at a random moment of its start, or of a batch
that follows its first, second … or fifth commit, and is started again at once, until the run has had its kills. The
moments of the batches are drawn as those of `kill_driver`: as many before the sink writes as while it writes, and as
between its write and the commit. Then the run ends by itself, and the oracle of the job judges the output. The moments
come from the seed; where they fall depends on the machine, and the table says it. The exit code is 1 if a row is lost,
duplicated, unexpected or wrong.

With `--standby` the stream has a warm standby. A batch is cut only when one waits, so that it takes over; a kill of the
start that follows meets a stream without one. The stream has a trigger of its own, and reads the rest of its input when
it has had its kills. At the end, as a control, a row of the files is removed and another one doubled: the oracle has to
find both, or the exit code is 2.

    python benchmarks/soak/run.py [--kills 200] [--seed 1] [--sinks files postgresql kafka] [--standby]
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

import pyarrow as pa
import pyarrow.parquet as pq

from streamwarden.adapters.connections import variable
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.layout import COMMITS
from streamwarden.checkpoint.formats.logs import LogPosition, log_position, written_at
from streamwarden.config.loading import load_catalog
from streamwarden.drills.fault_order import draw
from streamwarden.drills.faults.driver.batch_instants import Aim
from streamwarden.drills.records.phases import BatchCourse, BatchPhase
from streamwarden.drills.records.types import ForkView
from streamwarden.lifecycle.handovers import ask_to_hold
from streamwarden.lifecycle.settings import RETAIN
from streamwarden.lifecycle.supervision.standby import PROMOTED
from streamwarden.services.drilling.checkpoint import ForkCheckpoint
from streamwarden.services.fleet.recorded_starts import starts_of
from streamwarden.services.fleet.standbys.waiting import waiting
from streamwarden.services.replay.replay import replay
from streamwarden.services.verifying.verification import verify
from streamwarden.services.workspace import Workspace
from streamwarden.sinks.files.sink import FileSink
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.sources.base import StoredSource
from streamwarden.stream.spec import SinkSpec, Standby, StreamSpec, TriggerSpec
from streamwarden.verification.reconciliation import Reconciliation

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY / "tests"))

RECORDS: Final = 100_000
RECORDS_A_BATCH: Final = 500
KILLS_A_RUN: Final = 34
CONNECTION: Final = "soak"

START: Final = (0.2, 8.0)
"""Share of the kills that come during a start, and the seconds after the launch until which they come."""
TAKEOVER: Final = 2.0
"""Seconds after the launch until which these kills come if a standby took over."""
PACED: Final = TriggerSpec(processing_time=2.0)
"""Of a stream with a standby: its input lasts while standbys start."""
RECORDS_A_PACED_BATCH: Final = 200
BATCHES_A_STANDBY: Final = 60
"""Batches that come at most, on a busy machine, until a standby waits and takes over."""
COMMITS_A_LIFE: Final = 5
"""The other kills come in a batch, after one to so many commits of the driver."""
COMPARED: Final = 8
"""Newest batches whose phases are measured before a kill."""
PATIENCE: Final = 180.0
"""Seconds within which a driver plans a batch, and at the end reads the rest."""
POLL: Final = 0.003

_KINDS: Final = ("lost", "duplicated", "unexpected", "wrong")


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: where it fell, the newest commit at that moment, and the driver that was launched next."""

    place: str
    at: float
    committed: int | None
    successor: str = ""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds from a kill to the next commit, and whether a standby took over."""

    seconds: float
    warm: bool


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its kills, how it recovered from each, the verdict, and that of the control."""

    kills: tuple[Kill, ...]
    recoveries: tuple[Recovery, ...]
    outcome: Reconciliation
    control: Reconciliation | None = None


def main() -> int:
    """Parse the options, run, print the tables; 1 if an output was not exactly once."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--sinks", nargs="+", choices=SINKS, default=list(SINKS))
    options.add_argument("--standby", action="store_true", help="a warm standby takes over")
    given = options.parse_args()
    commits = 2 if given.standby else COMMITS_A_LIFE
    runs: dict[str, list[Run]] = {}
    for at, name in enumerate(given.sinks):
        share = given.kills // len(given.sinks) + (at < given.kills % len(given.sinks))
        with SINKS[name]() as sink:
            moments = random.Random(f"{given.seed}-{name}")  # noqa: S311
            runs[name] = soak(sink, share, moments, commits=commits, standby=given.standby)
        print(name, [summary(run.outcome) for run in runs[name]], file=sys.stderr, flush=True)
    print(report(runs))
    every = [run for each in runs.values() for run in each]
    if any(not run.outcome.exactly_once for run in every):
        return 1
    controls = [run.control for run in every if run.control is not None]
    print("\n".join(f"control: {summary(control)}" for control in controls))
    return 0 if all((control.lost, control.duplicated) == (1, 1) for control in controls) else 2


def soak(
    sink: SinkSpec | None,
    kills: int,
    moments: random.Random,
    records: int = RECORDS,
    commits: int = COMMITS_A_LIFE,
    *,
    standby: bool = False,
) -> list[Run]:
    """Runs until there were so many kills. `sink` None: the files of the stream in the catalogue.

    Args:
        commits: see `COMMITS_A_LIFE`.
        standby: a standby takes over after each kill.
    """
    done: list[Run] = []
    shares = planned(kills, moments)
    if standby:
        records = min(records, RECORDS_A_PACED_BATCH * BATCHES_A_STANDBY * kills)
    while shares:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            data = Path(folder)
            spec = stream(data, sink, records, f"run_{len(done)}", standby=standby)
            with Workspace.open(project=REPOSITORY, data=data, store_url=f"sqlite:///{data}/store.db") as workspace:
                done.append(one_run(workspace, spec, shares[:KILLS_A_RUN], moments, commits))
            shares = shares[len(done[-1].kills) :]
    return done


def planned(kills: int, moments: random.Random) -> list[float | None]:
    """For each kill an instant of a batch, from 0 to 1 (see `batch_instants`); None: it comes in a start."""
    in_start = round(START[0] * kills)
    shares: list[float | None] = [*draw((kills - in_start,), moments.randrange(2**31), int).shares, *[None] * in_start]
    moments.shuffle(shares)
    return shares


def stream(data: Path, sink: SinkSpec | None, records: int, run: str, *, standby: bool) -> StreamSpec:
    """The stream of the catalogue with one file a batch, which ends when it has read its input, or has a standby."""
    spec = load_catalog(REPOSITORY, data).get("flight_departures")
    assert isinstance(spec.source, StoredSource), "the catalogue declares it"
    rows = RECORDS_A_PACED_BATCH if standby else RECORDS_A_BATCH
    replay(Path(str(spec.source.path)), rows_per_file=rows, limit=records)
    if isinstance(sink, PostgresqlSink):
        sink = replace(sink, table=f"{sink.table}_{run}")
    elif isinstance(sink, KafkaSink):
        sink = replace(sink, topic=f"{sink.topic}-{run}")
    conf = {**spec.spark.conf, RETAIN: "100000", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    made = replace(
        spec,
        source=spec.source.limited_to(1),
        sink=sink or spec.sink,
        state=replace(spec.state, shuffle_partitions=2),
        spark=replace(spec.spark, conf=conf),
    )
    return replace(made, trigger=PACED, standby=Standby.WARM) if standby else to_its_end(made)


def to_its_end(spec: StreamSpec) -> StreamSpec:
    """The stream that ends when it has read its input."""
    return replace(spec, trigger=TriggerSpec(processing_time=None, available_now=True), standby=Standby.NONE)


def one_run(
    workspace: Workspace, spec: StreamSpec, shares: Sequence[float | None], moments: random.Random, commits: int
) -> Run:
    """Kill, start again, let it end, judge."""
    struck: list[Kill] = []
    while True:
        driver = workspace.fleet.start(spec, launched_by="soak").record.driver_id
        if struck and not struck[-1].successor:
            struck[-1] = replace(struck[-1], successor=driver)
        if len(struck) >= len(shares):
            break
        share = shares[len(struck)]
        if not await_moment(workspace, spec, driver, share, moments, commits):
            break
        if workspace.fleet.kill(driver):
            workspace.fleet.wait(driver, timeout=PATIENCE)
            struck.append(kill_of(workspace, spec, share, time.time()))
    if spec.standby is Standby.WARM:
        driver = read_the_rest(workspace, spec, struck[-1].committed if struck else None)
    workspace.fleet.wait(driver, timeout=10 * PATIENCE)
    starts = starts_of(workspace.store, spec.name, spec.checkpoint)
    outcome = verify(spec, starts=starts, bounded_from=0)
    recovered = tuple(recoveries(workspace, spec, struck))
    print(f"{summary(outcome)}; {recovered}", file=sys.stderr, flush=True)
    control = None
    if spec.standby is Standby.WARM and isinstance(spec.sink, FileSink):
        damage(spec.sink)
        control = verify(spec, starts=starts, bounded_from=0)
    return Run(tuple(struck), recovered, outcome, control)


def read_the_rest(workspace: Workspace, spec: StreamSpec, committed: int | None) -> str:
    """Stop the stream, once it has recovered from its last kill, and start it without a standby; returns the driver.

    Args:
        committed: the newest batch at that kill.
    """
    began = time.monotonic()
    while newest_commit(spec) <= (-1 if committed is None else committed) and time.monotonic() - began < PATIENCE:
        time.sleep(0.1)
    workspace.fleet.stop(spec.name, requested_by="soak", reason="it has had its kills")
    assert isinstance(spec.source, StoredSource)
    rest = replace(to_its_end(spec), source=spec.source.limited_to(50))
    return workspace.fleet.start(rest, launched_by="soak").record.driver_id


def damage(sink: FileSink) -> None:
    """Remove the first row of a data file, and write its second one twice."""
    files = sorted(Path(sink.path).glob("*.parquet"), key=lambda file: file.stat().st_size)
    rows = pq.read_table(files[-1])
    files[-1].with_name(f".{files[-1].name}.crc").unlink(missing_ok=True)
    pq.write_table(pa.concat_tables([rows.slice(1), rows.slice(1, 1)]), files[-1])


def await_moment(
    workspace: Workspace, spec: StreamSpec, driver: str, share: float | None, moments: random.Random, commits: int
) -> bool:
    """Wait for a moment of the driver's life; in a batch it is paused there. False if it ended before."""
    looked = 0.0

    def lives_until(reached: Callable[[], bool]) -> bool:
        nonlocal looked
        began = time.monotonic()
        while not reached():
            if time.monotonic() - began > PATIENCE:
                return False
            if time.monotonic() - looked > 0.5:
                looked = time.monotonic()
                if workspace.fleet.observe(driver).exit is not None:
                    return False
            time.sleep(POLL)
        return True

    has_standby = spec.standby is Standby.WARM
    if share is None:
        until = time.monotonic() + moments.random() * (TAKEOVER if has_standby else START[1])
        return lives_until(lambda: time.monotonic() >= until)
    if has_standby and not lives_until(lambda: is_backed(workspace, driver)):
        return False
    wanted = newest_commit(spec) + moments.randint(1, commits)
    if not lives_until(lambda: newest_commit(spec) >= wanted):
        return False
    reached = paused_at(workspace, spec, driver, share)
    return lives_until(reached)


def is_backed(workspace: Workspace, driver: str) -> bool:
    """Whether a standby of this driver waits."""
    folder = Path(workspace.fleet.log_path(driver)).parent
    return any(one.record.leader == driver and one.is_ready(time.time()) for one in waiting(folder.parent))


def paused_at(workspace: Workspace, spec: StreamSpec, driver: str, share: float) -> Callable[[], bool]:
    """Pauses the driver when a batch is at the instant; returns whether it is."""
    record = workspace.fleet.observe(driver).record
    aim = Aim(
        share, lambda batch: [course_of(workspace, spec, each) for each in range(max(batch - COMPARED, 0), batch)]
    )
    if aim.phase is BatchPhase.WRITTEN:
        ask_to_hold(Path(record.folder), True)

    def reached() -> bool:
        batch = position(spec).planned
        if batch is None:
            return False
        course = course_of(workspace, spec, batch)
        if course.committed_at is not None or (course.planned_at or 0.0) < record.launched_at:
            return False
        due = aim.due_at(batch, course)
        if due is None or time.time() < due or not workspace.fleet.freeze(driver):
            return False
        if course_of(workspace, spec, batch).committed_at is None:
            return True
        workspace.fleet.thaw(driver)
        return False

    return reached


def course_of(workspace: Workspace, spec: StreamSpec, batch: int) -> BatchCourse:
    """How far a batch has come."""
    view = ForkView(
        stream=spec.name,
        origin=spec.name,
        checkpoint=spec.checkpoint,
        output=spec.sink.place,
        batch=None,
        unseen=None,
        batches_left=None,
        input_digest="",
        spec=spec,
    )
    return ForkCheckpoint(workspace.store).course(view, batch)


def newest_commit(spec: StreamSpec) -> int:
    """The newest committed batch; -1 before the first."""
    committed = position(spec).committed
    return -1 if committed is None else committed


def position(spec: StreamSpec) -> LogPosition:
    """Where the logs stand; empty before the first start."""
    return log_position(open_path(spec.checkpoint))


def kill_of(workspace: Workspace, spec: StreamSpec, share: float | None, at: float) -> Kill:
    """The kill of a driver that has ended: where it fell, by what is on the disk."""
    now = position(spec)
    if share is None:
        return Kill("in a start", at, now.committed)
    phase = None if now.planned is None else course_of(workspace, spec, now.planned).phase
    return Kill("after the commit" if phase is None else str(phase), at, now.committed)


def recoveries(workspace: Workspace, spec: StreamSpec, kills: Iterable[Kill]) -> Iterator[Recovery]:
    """From each kill to the next commit."""
    for kill in kills:
        batch = -1 if kill.committed is None else kill.committed
        committed = written_at(open_path(spec.checkpoint), COMMITS, batch + 1)
        if committed is not None:
            events = workspace.store.drivers.events(kill.successor)
            yield Recovery(committed - kill.at, any(event.kind == PROMOTED for event in events))


def summary(outcome: Reconciliation) -> str:
    """`0 lost, 0 duplicated, …`."""
    return ", ".join(f"{getattr(outcome, kind)} {kind}" for kind in _KINDS) + f", problems: {list(outcome.problems)}"


def report(runs: dict[str, list[Run]]) -> str:
    """The table of the sinks and the table of the phases."""
    heads = ["sink", "runs", "kills", "rows", *_KINDS, "written again", "recovery: median, 90 %, longest"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for name, each in runs.items():
        outcomes = [run.outcome for run in each]
        counts = [sum(getattr(one, kind) for one in outcomes) for kind in _KINDS]
        seconds = sorted(recovery.seconds for run in each for recovery in run.recoveries)
        cells = [name, len(each), sum(len(run.kills) for run in each), sum(one.actual for one in outcomes), *counts]
        repeated = sum(one.repeated or 0 for one in outcomes)
        lines.append(f"| {' | '.join(map(str, cells))} | {repeated} | {spread(seconds)} |")
    places = Counter((name, kill.place) for name, each in runs.items() for run in each for kill in run.kills)
    order = ["in a start", *map(str, BatchPhase), "after the commit"]
    lines += ["", f"| the kill fell | {' | '.join(runs)} | all |", f"|---|{'---|' * (len(runs) + 1)}"]
    for place in order:
        hits = [places[name, place] for name in runs]
        lines.append(f"| {place} | {' | '.join(map(str, hits))} | {sum(hits)} |")
    return "\n".join([*lines, *by_successor(runs)])


def by_successor(runs: dict[str, list[Run]]) -> Iterator[str]:
    """The recoveries by a standby beside those by a start; nothing if no standby took over."""
    every = [recovery for each in runs.values() for run in each for recovery in run.recoveries]
    if not any(recovery.warm for recovery in every):
        return
    yield "\n| after the kill | times | median | 95 % | longest |\n|---|---|---|---|---|"
    for name, warm in (("a standby took over", True), ("a process was started", False)):
        seconds = sorted(recovery.seconds for recovery in every if recovery.warm is warm)
        yield f"| {name} | {len(seconds)} | {spread(seconds, 0.95).replace(', ', ' | ') if seconds else '- | - | -'} |"


def spread(seconds: Sequence[float], share: float = 0.9) -> str:
    """`8.1 s, 9.4 s, 12.0 s`: the median, the value that this share does not exceed, and the most."""
    if not seconds:
        return "-"
    high = seconds[min(len(seconds) - 1, int(share * len(seconds)))]
    return f"{statistics.median(seconds):.1f} s, {high:.1f} s, {seconds[-1]:.1f} s"


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
