"""The parts of the platform whose cost is measured, each in a process of its own.

A part gets the project's folder and for how long it is measured. It prints as JSON what it took, without its imports.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from streamwarden.adapters.processes import identity
from streamwarden.adapters.store import Store
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.services.workspace import DATA_VARIABLE, PROJECT_VARIABLE, STORE_VARIABLE
from streamwarden.units import HOUR

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.simulated import KEPT, STEP, add_batch, history, input_of, lay_out_folders

MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Args:
    cpu, wall: seconds, without the imports of a part that goes on.
    memory: bytes at most; imports: bytes of its imports alone.
    """

    cpu: float
    wall: float
    memory: float
    imports: float = 0.0


def triggers(folder: Path, streams: int, seconds: float) -> Cost:
    """The triggers of living drivers, in one event loop, as Airflow's triggerer runs them."""
    from streamwarden.airflow.triggers import DriverTrigger

    async def first_event(trigger: DriverTrigger) -> None:
        await anext(trigger.run())

    async def watch() -> None:
        made = [DriverTrigger(stream=name, project=str(folder), driver_id=f"{name}-1") for name in names(streams)]
        tasks = [asyncio.create_task(first_event(trigger)) for trigger in made]
        await asyncio.sleep(5 + streams / 100)  # until each has looked at its driver for the first time
        marks.append((time.process_time(), time.monotonic()))
        await asyncio.sleep(seconds)
        marks.append((time.process_time(), time.monotonic()))
        for task in tasks:
            assert not task.done(), (
                f"a trigger fired, although its driver is alive: {task.exception() or task.result()}"
            )
            task.cancel()

    imports, marks = _memory(), list[tuple[float, float]]()
    asyncio.run(watch())
    (cpu, wall), (cpu_after, wall_after) = marks
    return Cost(cpu_after - cpu, wall_after - wall, _memory(), imports)


def health(folder: Path, streams: int, seconds: float) -> Cost:
    """A round of the health checks each minute, in a process that begins and ends: with its imports."""
    command = [str(Path(sys.executable).with_name("streamwarden")), "check"]
    began, rounds = time.monotonic(), 0
    while True:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        rounds += 1
        with Store(os.environ[STORE_VARIABLE]) as store:
            assert store.verdicts.latest(), f"no round was made: {done.stdout[-500:]}"
        if time.monotonic() - began + MINUTE > seconds:
            break
        time.sleep(max(0.0, began + rounds * MINUTE - time.monotonic()))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(used.ru_utime + used.ru_stime, rounds * MINUTE, used.ru_maxrss * 1024.0)


def housekeeping(folder: Path, streams: int, seconds: float) -> Cost:
    """One run of the DAG `housekeeping` in the store and the data folder, of which there is one an hour."""
    from streamwarden.services.housekeeping import sweep

    imports, before = _memory(), time.process_time()
    with Store(os.environ[STORE_VARIABLE]) as store:
        store.roll_up(time.time())
        store.prune(time.time())
        sweep(store, folder / "var", time.time())
    return Cost(time.process_time() - before, HOUR, _memory(), imports)


def drivers(folder: Path, streams: int, seconds: float) -> Cost:
    """What the drivers of the streams write: a batch of each every ten seconds. It is the streams' cost, and counts for
    nothing here; without it the other parts would find nothing new."""
    end, turn = time.monotonic() + seconds, 0
    with Store(os.environ[STORE_VARIABLE], busy_timeout=30) as store:
        began = time.monotonic()
        while time.monotonic() < end:
            for name in names(streams):
                batch = KEPT + turn
                add_batch(folder / "checkpoints" / name, batch, time.time())
                store.batches.upsert_progress(name, history(time.time(), 1, first=batch)[0])
            turn += 1
            time.sleep(max(0.0, began + turn * STEP - time.monotonic()))
    return Cost(time.process_time(), seconds, _memory())


PARTS: Final[dict[str, Callable[[Path, int, float], Cost]]] = {
    part.__name__: part for part in (triggers, health, housekeeping, drivers)
}


def start(part: str, folder: Path, streams: int, seconds: float) -> subprocess.Popen[bytes]:
    """The process of a part; `ended` waits for its cost."""
    home = {
        "AIRFLOW_HOME": str(folder / "airflow"),
        PROJECT_VARIABLE: str(folder),
        DATA_VARIABLE: str(folder / "var"),
        STORE_VARIABLE: f"sqlite:///{folder}/store.db",
    }
    command = [sys.executable, __file__, part, str(folder), str(streams), str(seconds)]
    return subprocess.Popen(command, env={**os.environ, **home}, stdout=subprocess.PIPE)


def ended(process: subprocess.Popen[bytes]) -> Cost:
    """The cost of a part, when it has ended."""
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{process.args!r} failed")
    return Cost(**json.loads(output.splitlines()[-1]))


def fill(folder: Path, streams: int, hours: float = 1.0) -> None:
    """A project whose streams have a driver, which is this process, their checkpoints, and a history of batches."""
    process, now = identity(os.getpid()), time.time()
    (folder / "config/streams").mkdir(parents=True)
    (folder / "job.py").write_text("def build(spark, spec):\n    raise NotImplementedError\n")
    with Store(f"sqlite:///{folder}/store.db") as store:
        store.migrate()
        reports = history(now, round(hours * HOUR / STEP))
        for name in names(streams):
            home = folder / "var/drivers" / name / f"{name}-1"
            home.mkdir(parents=True)
            (home / "driver.log").touch()
            checkpoint = folder / "checkpoints" / name
            lay_out_folders(checkpoint, reports[-1].query_id)
            for batch in range(KEPT):
                add_batch(checkpoint, batch, now - STEP * (KEPT - batch))
            (folder / f"config/streams/{name}.yaml").write_text(
                f"name: {name}\njob: job.py\nsource: {{kind: files, path: {input_of(checkpoint)}, format: json}}\n"
                f"sink: {{kind: parquet, path: output/{name}}}\ncheckpoint: {checkpoint}\n"
            )
            store.drivers.launched(
                DriverRecord(
                    driver_id=f"{name}-1",
                    stream=name,
                    checkpoint=str(checkpoint),
                    token=1,
                    folder=str(home),
                    launched_by="bench",
                    launched_at=now - HOUR,
                    started_at=now - HOUR,
                    process=process,
                )
            )
            store.batches.upsert_many(name, reports)


def names(streams: int) -> list[str]:
    """Those of the streams."""
    return [f"stream_{number}" for number in range(streams)]


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


if __name__ == "__main__":
    _, wanted, place, count, limit = sys.argv
    print(json.dumps(asdict(PARTS[wanted](Path(place), int(count), float(limit)))))
