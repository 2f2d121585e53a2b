"""How many sessions with a heartbeat each every 30 seconds one driver holds, by its state in the JVM and in Python.

A real driver (launcher, supervisor process, spark-submit, runner) of `device_heartbeats` on two cores. All sessions
begin with one reading, in files of 250,000; from then on each of them has a heartbeat every 30 seconds. Timed are the
batches of the last `--minutes`, and the output of these minutes is counted: in each interval each session has one row.

    python benchmarks/session_timers/run.py [--sessions 250000 500000 1000000 2000000 4000000] [--minutes 2] [--python]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamwarden.adapters import processes
from streamwarden.adapters.jvm.environments import own
from streamwarden.adapters.jvm.maven_project import build
from streamwarden.adapters.store import Store
from streamwarden.lifecycle import driver_folder as files
from streamwarden.progress import Progress
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.monitoring.health_monitor import HealthMonitor
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StateSpec, StreamSpec, TriggerSpec

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PROCESSORS: Final = REPOSITORY / "spark_jobs" / "processors" / "pom.xml"

HEARTBEAT: Final = 30
TRIGGER: Final = 5.0
IN_A_FILE: Final = 250_000
ON_A_DEVICE: Final = 10
WARM: Final = 2 * HEARTBEAT
"""Seconds between the last reading and the first batch that counts."""

CHECKS: Final = ("state_size", "checkpoint_duration", "state_update_latency", "state_cleanup_time", "memory_usage")


@dataclass(frozen=True)
class Held:
    """What a driver with so many sessions needed.

    Args:
        batches: seconds of each timed batch; commits: seconds in which each committed its state.
        rows_per_second: heartbeats written; cores: processor seconds of the driver's processes per second.
        resident: bytes of the driver's processes; verdicts: check -> its status at the end.
        whole: each session has one row at each point of the grid.
    """

    sessions: int
    where: str
    batches: Sequence[float]
    commits: Sequence[float]
    update_ms: float
    rows_per_second: float
    cores: float
    resident: int
    verdicts: dict[str, str]
    whole: bool


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--sessions", type=int, nargs="+", default=[250_000, 500_000, 1_000_000, 2_000_000, 4_000_000])
    options.add_argument("--minutes", type=float, default=2)
    options.add_argument("--python", action="store_true", help="state in Python instead of the JVM")
    chosen = options.parse_args()
    jar = None if chosen.python else PROCESSORS
    if jar is not None:
        build(jar, own())
    print("| sessions | state | batch: median, longest | commit | heartbeats a second | cores | memory | each once |")
    print("|---|---|---|---|---|---|---|---|")
    for sessions in chosen.sessions:
        with tempfile.TemporaryDirectory(prefix="session-timers-") as folder:
            held = hold(sessions, Path(folder), chosen.minutes * 60, jar)
        print(line(held), flush=True)
    return 0


def hold(sessions: int, root: Path, seconds: float, jar: Path | None) -> Held:
    """Run one driver with so many sessions, and count for `seconds` after all of them are there."""
    spec = stream(root, jar)
    publish(sessions, Path(str(spec.source.path)))
    with Store(f"sqlite:///{root / 'store.db'}") as store:
        store.migrate()
        fleet = Fleet(store, root)
        driver = fleet.start(spec, launched_by="benchmark").record
        try:
            await_sessions(store, spec, sessions)
            time.sleep(WARM)
            process = files.read_process(Path(driver.folder))
            assert process is not None
            pids, began = processes.tree(process.pid), time.time()
            used = processor_seconds(pids)
            time.sleep(seconds)
            cores = (processor_seconds(pids) - used) / (time.time() - began)
            ended, resident = time.time(), processes.resident_bytes(process) or 0
            verdicts = HealthMonitor(store).judge(spec, ended, CHECKS)
            done = [report for report in reports(store, spec) if began <= report.at < ended - TRIGGER]
        finally:
            fleet.stop(spec.name, requested_by="benchmark", reason="done")
    rows, whole = counted(Path(str(spec.sink.path)), began, done[-1].at, sessions)
    operators = [report.operators[0] for report in done]
    return Held(
        sessions=sessions,
        where="Python" if jar is None else "JVM",
        batches=[report.duration_ms / 1000 for report in done],
        commits=[operator.commit_ms / 1000 / (operator.partitions or 1) for operator in operators],
        update_ms=statistics.median(operator.update_ms / max(operator.rows_updated, 1) for operator in operators),
        rows_per_second=rows / (done[-1].at - began),
        cores=cores,
        resident=resident,
        verdicts={verdict.check: str(verdict.status) for verdict in verdicts},
        whole=whole,
    )


def stream(root: Path, jar: Path | None) -> StreamSpec:
    """The stream `device_heartbeats` in a folder of its own."""
    buckets = () if jar is None else ("buckets=256",)
    (root / "input").mkdir()
    return StreamSpec(
        name="sessions",
        job=str(REPOSITORY / "spark_jobs" / "device_heartbeats.py"),
        checkpoint=str(root / "checkpoint"),
        args=(f"heartbeat={HEARTBEAT}s", "inactive=1h", *buckets),
        source=FilesSource(path=str(root / "input"), max_files_per_trigger=1),
        sink=ParquetSink(path=str(root / "output")),
        quarantine=str(root / "quarantine"),
        trigger=TriggerSpec(processing_time=TRIGGER),
        state=StateSpec(shuffle_partitions=4, ttl=86_400.0),
        spark=SparkSpec(driver_memory=2 * 2**30, maven=None if jar is None else str(jar)),
        project=str(REPOSITORY),
    )


def publish(sessions: int, source: Path) -> None:
    """One reading of each session."""
    for first in range(0, sessions, IN_A_FILE):
        hidden = source / f".{first:09}"
        hidden.write_text("".join(readings(first, min(first + IN_A_FILE, sessions))))
        hidden.rename(source / f"{first:09}.json")


def readings(first: int, end: int) -> Iterator[str]:
    """Their lines."""
    for number in range(first, end):
        reading = {"device_id": f"d-{number // ON_A_DEVICE}", "session_id": f"s-{number}", "state": "on"}
        yield f"{json.dumps(reading)}\n"


def reports(store: Store, spec: StreamSpec) -> list[Progress]:
    """The reports of all batches, in their order."""
    return [batch.progress for batch in store.batches.window(spec.name, 10_000) if batch.progress is not None]


def await_sessions(store: Store, spec: StreamSpec, sessions: int) -> None:
    """Wait until all readings are read, and each session has had a heartbeat."""
    deadline, read = time.monotonic() + 300 + sessions / 1000, None
    while read is None or time.time() < read + HEARTBEAT:
        if time.monotonic() > deadline:
            raise SystemExit(f"{sessions} sessions were not all there in time")
        time.sleep(1)
        if read is None and sum(report.rows for report in reports(store, spec)) >= sessions:
            read = time.time()


def processor_seconds(pids: Sequence[int]) -> float:
    """Of these processes, up to now."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / 100


COUNTED: Final = """
    SELECT count(*) FILTER (WHERE moment >= $began AND moment < $ended),
        count(*) FILTER (WHERE moment >= $first AND moment < $last),
        count(DISTINCT hash(session_id, moment)) FILTER (WHERE moment >= $first AND moment < $last)
    FROM (SELECT session_id, epoch("at") AS moment FROM read_parquet($files) WHERE kind = 'HEARTBEAT')
"""


def counted(output: Path, began: float, ended: float, sessions: int) -> tuple[int, bool]:
    """Heartbeats between the two moments (Unix seconds), and whether each session had one in each whole interval."""
    import duckdb

    first = began + HEARTBEAT
    intervals = int((ended - HEARTBEAT - first) // HEARTBEAT)
    moments = {"began": began, "ended": ended, "first": first, "last": first + intervals * HEARTBEAT}
    with duckdb.connect() as database:
        found = database.execute(COUNTED, {"files": f"{output}/*.parquet", **moments}).fetchone()
    assert found is not None
    total, rows, different = found
    return int(total), intervals > 0 and rows == different == intervals * sessions


def line(held: Held) -> str:
    """One line of the table."""
    alarms = [f"{check} {status}" for check, status in held.verdicts.items() if status != "OK"]
    once = "yes" if held.whole else "**no**"
    return (
        f"| {held.sessions:,} | {held.where} | {statistics.median(held.batches):.1f} s, {max(held.batches):.1f} s | "
        f"{max(held.commits):.2f} s, {held.update_ms:.3f} ms a row | {held.rows_per_second:,.0f} | {held.cores:.2f} | "
        f"{held.resident / 1e9:.2f} GB{'; ' if alarms else ''}{', '.join(alarms)} | {once} |"
    )


if __name__ == "__main__":
    sys.exit(main())
