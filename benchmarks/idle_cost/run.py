"""What the platform costs while nothing happens: processor time and memory of its parts for 100 running streams.

    python benchmarks/idle_cost/run.py [--streams 100] [--seconds 60]

Each part runs in a process of its own, on one SQLite store: the triggers of the streams' tasks, which watch living
drivers and show their logs, in one event loop, as Airflow's triggerer runs them; and an hour's housekeeping. Airflow
itself is not started: its own cost is not counted. The health round is measured by
`benchmarks/health_round/run.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from streamwarden.adapters.processes import identity
from streamwarden.adapters.store import Store
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.progress import Progress, parse_progress
from streamwarden.services.workspace import STORE_VARIABLE

PARTS: Final = ("triggers", "housekeeping")
TEMPLATE: Final = Path(__file__).resolve().parents[2] / "tests/data/health/spark-4.3.0-rocksdb.jsonl"
REPORTS: Final = 360
"""Batches of an hour, one every ten seconds."""
HOUR: Final = 3600.0


def main() -> None:
    """Measure and print; as a child, be one part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part is not None:
        measured = {"triggers": triggers, "housekeeping": housekeeping}[chosen.part]
        print(json.dumps(measured(chosen.folder, chosen.streams, chosen.seconds)))
        return
    print(f"| part, {chosen.streams:,} streams | share of a core | memory | of its imports alone |")
    print("|---|---|---|---|")
    for part in PARTS:
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder), chosen.streams)
            found = run_part(part, Path(folder), chosen.streams, chosen.seconds)
        memory, imports = found["memory"] / 1e6, found["imports"] / 1e6
        print(f"| {part} | {found['cpu'] / found['wall']:.2%} | {memory:.0f} MB | {imports:.0f} MB |", flush=True)


def run_part(part: str, folder: Path, streams: int, seconds: float) -> dict[str, float]:
    """Processor time and wall time of the part, without its imports; its memory, with and without them."""
    home = {"AIRFLOW_HOME": str(folder / "airflow"), STORE_VARIABLE: f"sqlite:///{folder}/store.db"}
    command = [sys.executable, __file__, "--part", part, "--folder", str(folder)]
    done = subprocess.run(
        [*command, "--streams", str(streams), "--seconds", str(seconds)],
        env={**os.environ, **home},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def triggers(folder: Path, streams: int, seconds: float) -> dict[str, float]:
    """The triggers of living drivers."""
    from streamwarden.airflow.triggers import DriverTrigger

    async def first_event(trigger: DriverTrigger) -> None:
        await anext(trigger.run())

    async def watch() -> None:
        names = [_name(number) for number in range(streams)]
        made = [DriverTrigger(stream=name, project=str(folder), driver_id=f"{name}-1") for name in names]
        tasks = [asyncio.create_task(first_event(trigger)) for trigger in made]
        await asyncio.sleep(5)  # until each has looked at its driver for the first time
        began.append((time.process_time(), time.monotonic()))
        await asyncio.sleep(seconds)
        began.append((time.process_time(), time.monotonic()))
        for task in tasks:
            assert not task.done(), (
                f"a trigger fired, although its driver is alive: {task.exception() or task.result()}"
            )
        for task in tasks:
            task.cancel()

    imports, began = _memory(), list[tuple[float, float]]()
    asyncio.run(watch())
    (cpu, wall), (cpu_after, wall_after) = began
    return {"cpu": cpu_after - cpu, "wall": wall_after - wall, "memory": _memory(), "imports": imports}


def housekeeping(folder: Path, streams: int, seconds: float) -> dict[str, float]:
    """What one run of the DAG `housekeeping` does in the store and the data folder; it runs once an hour."""
    from streamwarden.services.housekeeping import sweep

    imports, before = _memory(), time.process_time()
    with Store(f"sqlite:///{folder}/store.db") as store:
        store.roll_up(HOUR * 500_001)
        store.prune(HOUR * 500_001)
        sweep(store, folder / "var", HOUR * 500_001)
    return {"cpu": time.process_time() - before, "wall": HOUR, "memory": _memory(), "imports": imports}


def fill(folder: Path, streams: int) -> None:
    """A project whose streams have a driver, which is this process, and an hour of batches."""
    process = identity(os.getpid())
    (folder / "config" / "streams").mkdir(parents=True)
    with Store(f"sqlite:///{folder}/store.db") as store:
        store.migrate()
        for name in map(_name, range(streams)):
            home = folder / "var" / "drivers" / name / f"{name}-1"
            home.mkdir(parents=True)
            (home / "driver.log").touch()
            record = DriverRecord(
                driver_id=f"{name}-1",
                stream=name,
                checkpoint=str(folder / name),
                token=1,
                folder=str(home),
                launched_by="bench",
                launched_at=HOUR * 500_000,
                process=process,
            )
            store.drivers.launched(record)
            store.batches.upsert_many(name, _reports())


def _reports() -> Iterator[Progress]:
    """The reports of an hour."""
    raw = json.loads(TEMPLATE.read_text().splitlines()[5])
    for batch in range(REPORTS):
        at = datetime.fromtimestamp(HOUR * 500_000 + 10 * batch, UTC)
        yield parse_progress({**raw, "batchId": batch, "timestamp": at.isoformat(timespec="milliseconds")})


def _name(number: int) -> str:
    return f"stream_{number}"


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


if __name__ == "__main__":
    main()
