"""The crash matrix of four set-ups: every state of the files that a crash can leave, restarted and verified.

The set-ups are a windowed aggregation on both state stores, a transformWithState with timers in event time, and the
aggregation into a PostgreSQL table. Each is the job of the catalogue over twelve batches, with the states around the
default batches. The exit code is 1 if a restart gave another output that
nothing reported; its record is kept then.

    python benchmarks/crash_matrix/run.py [--only NAME]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from streamwarden.config.loading import load_catalog
from streamwarden.drills.crash_states import Ending, Origin, counted
from streamwarden.services.crash_matrix.matrix import Matrix, discard, record, restart
from streamwarden.services.replay.replay import replay
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.stream.spec import Backend, StreamSpec

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY / "tests"))

from support.servers.postgres_server import running  # noqa: E402

FILES: Final = 12
FLIGHTS: Final = 12_000
BEGAN: Final = datetime(2026, 1, 1, 9, tzinfo=UTC)
_REFUSED: Final = (Ending.REFUSED, Origin.KILL)
"""A restart that a person has to help: it is listed like a finding, and is none."""
CONNECTION: Final = "crash_matrix"


def main() -> int:
    """Run the set-ups and print the table; 1 if there is a finding."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--only", choices=SET_UPS)
    options.add_argument("--most", type=int, help="states of each set-up that are restarted; default: all")
    given = options.parse_args()
    findings = 0
    heads = ["set-up", "states", *(f"{origin}: {ending}" for origin in Origin for ending in Ending), "median", "all"]
    print(f"| {' | '.join(heads)} |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, set_up in SET_UPS.items():
        if given.only in (None, name):
            folder = Path(tempfile.mkdtemp(prefix="crash-matrix-"))
            with set_up(folder) as spec:
                recorded = record(spec, into=folder / "matrix")
                matrix = restart(recorded, recorded.states[: given.most])
                print(line(name, matrix), flush=True)
                findings += len(matrix.findings)
                for each in matrix.outcomes:
                    if each.ending is Ending.DIFFERENT or (each.ending, each.state.origin) == _REFUSED:
                        print(f"state {each.state.number}, {each.state.name}: {each.ending}, {each.detail} ({folder})")
                if not matrix.findings:
                    discard(recorded)
                    shutil.rmtree(folder)
    return int(findings > 0)


def line(name: str, matrix: Matrix) -> str:
    """One row of the table."""
    counts = counted(matrix.outcomes)
    cells = [counts[origin][ending] for origin in Origin for ending in Ending]
    median = statistics.median(each.seconds for each in matrix.outcomes)
    numbers = " | ".join(map(str, cells))
    return f"| {name} | {len(matrix.outcomes)} | {numbers} | {median:.2f} s | {matrix.seconds:.0f} s |"


def stream(name: str, data: Path) -> StreamSpec:
    """A stream of the catalogue with its data in another folder, in a small driver."""
    spec = load_catalog(REPOSITORY, data).get(name)
    return replace(spec, spark=replace(spec.spark, driver_memory=2 * 10**9))


def flights(data: Path, backend: Backend) -> StreamSpec:
    """The aggregation over some flights."""
    spec = stream("flight_departures", data)
    replay(Path(str(spec.source.path)), rows_per_file=FLIGHTS // FILES, limit=FLIGHTS)
    return replace(spec, state=replace(spec.state, backend=backend, shuffle_partitions=2))


@contextmanager
def rocksdb(data: Path) -> Iterator[StreamSpec]:
    """With Spark's state in RocksDB."""
    yield flights(data, Backend.ROCKSDB)


@contextmanager
def hdfs(data: Path) -> Iterator[StreamSpec]:
    """With Spark's state in its own format of deltas and snapshots."""
    yield flights(data, Backend.HDFS)


@contextmanager
def timers(data: Path) -> Iterator[StreamSpec]:
    """Devices that speak for some files and are silent in the next ones, each file forty seconds after the other."""
    spec = stream("device_heartbeats_event_time", data)
    folder = Path(str(spec.source.path))
    folder.mkdir(parents=True)
    for number in range(FILES):
        said = BEGAN + timedelta(seconds=40 * number)
        reading = {
            "session_id": f"s{number // 5}",
            "state": f"{number}",
            "event_time": f"{said:%Y-%m-%dT%H:%M:%S}.000Z",
        }
        readings = [{"device_id": f"d-{each}", **reading} for each in range(200) if (each + number) % 3]
        file = folder / f"readings-{number:03}.json"
        file.write_text("".join(f"{json.dumps(each)}\n" for each in readings))
        os.utime(file, (said.timestamp(), said.timestamp()))
    yield replace(spec, state=replace(spec.state, shuffle_partitions=2))


@contextmanager
def table(data: Path) -> Iterator[StreamSpec]:
    """The aggregation into a table of a server that runs as long as the benchmark."""
    with running() as server:
        server.create("departures")
        os.environ[f"AIRFLOW_CONN_{CONNECTION.upper()}"] = server.connection("departures")
        spec = flights(data, Backend.ROCKSDB)
        yield replace(spec, sink=PostgresqlSink(connection=CONNECTION, table="departures"))


SET_UPS: Final = {
    "files, RocksDB": rocksdb,
    "files, HDFS-backed": hdfs,
    "transformWithState": timers,
    "PostgreSQL": table,
}

if __name__ == "__main__":
    sys.exit(main())
