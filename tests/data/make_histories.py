"""Writes tests/data/histories/*.json.gz: what two real streams reported, so that advice can be compared with the facts.

    .venv/bin/python tests/data/make_histories.py            # about six minutes

`flight_departures` (windows that close: its state is bounded) and `flight_dedup_unbounded` (its state only grows) read
the flights of 2013, a thousand a second. After two minutes both drivers are killed with SIGKILL and started again at
once. Each file holds the stream's spec, its drivers, Spark's reports with the times of both logs, the runner's
measurements, and what lay under `state/` every ten seconds. `tests/support/histories.py` reads them.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import sqlite3
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.config.loading import load_stream
from streamwarden.config.stored_spec import spec_to_dict
from streamwarden.errors import StreamwardenError
from streamwarden.services.analysis.tuning import state_files
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.replay.replay import replay
from streamwarden.stream.spec import StreamSpec

ROOT = Path("/tmp/histories")  # the paths inside the files begin with it
TARGET = Path(__file__).parent / "histories"
REPOSITORY = Path(__file__).parents[2]
STREAMS = ("flight_departures", "flight_dedup_unbounded")

SPEEDUP = 95_000.0
"""Of the year 2013: a thousand flights a second."""
KILLED_AFTER, SECONDS, EVERY = 120.0, 300.0, 10.0
"""From the first batch: when the drivers are killed, when they are stopped, and between two looks at the state."""


def main() -> None:
    """Record both streams."""
    shutil.rmtree(ROOT, ignore_errors=True)
    TARGET.mkdir(exist_ok=True)
    specs = [load_stream(REPOSITORY / f"config/streams/{name}.yaml", project=REPOSITORY, data=ROOT) for name in STREAMS]
    database = ROOT / "streamwarden.db"
    ROOT.mkdir(parents=True)
    with Store(f"sqlite:///{database}") as store:
        store.migrate()
        fleet = Fleet(store, ROOT)
        over = threading.Event()
        feeder = threading.Thread(target=feed, args=(over,), daemon=True)
        feeder.start()
        try:
            looks, kills = observe(fleet, store, specs)
        finally:
            over.set()
            for spec in specs:
                fleet.stop(spec.name, requested_by="recording", reason="the recording is over")
        for spec in specs:
            write(store, database, spec, looks[spec.name], kills[spec.name])


def feed(over: threading.Event) -> None:
    """Publish the flights until the recording is over."""

    def sleep(seconds: float) -> None:
        if over.wait(seconds):
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        replay(ROOT / "input/flights", speedup=SPEEDUP, sleep=sleep)


def observe(
    fleet: Fleet, store: Store, specs: list[StreamSpec]
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, float]]:
    """Start the streams, look at their state, kill them once. Returns the looks of each, and when they were killed."""
    for spec in specs:
        fleet.start(spec, launched_by="recording")
    while not all(store.batches.window(spec.name, 1) for spec in specs):
        time.sleep(1)
    begun, kills = time.time(), dict[str, float]()
    looks: dict[str, list[dict[str, Any]]] = {spec.name: [] for spec in specs}
    while time.time() < begun + SECONDS:
        time.sleep(EVERY)
        for spec in specs:
            with suppress(StreamwardenError, OSError):
                looks[spec.name].append({"at": time.time(), "files": asdict(state_files(open_path(spec.checkpoint)))})
        if not kills and time.time() > begun + KILLED_AFTER:
            for spec in specs:
                kills[spec.name] = time.time()
                kill(fleet, store, spec)
    return looks, kills


def kill(fleet: Fleet, store: Store, spec: StreamSpec) -> None:
    """Kill the driver and start the stream again."""
    record = store.drivers.latest(spec.name)
    assert record is not None
    assert record.process is not None
    os.kill(record.process.pid, signal.SIGKILL)
    while fleet.observe(record.driver_id).alive:
        time.sleep(0.1)
    fleet.start(spec, launched_by="recording")


def write(store: Store, database: Path, spec: StreamSpec, looks: list[dict[str, Any]], killed_at: float) -> None:
    """The file of one stream."""
    with sqlite3.connect(database) as connection:
        rows = connection.execute(
            "SELECT query_id, batch_id, planned_at, committed_at, progress FROM batches WHERE stream = ? ORDER BY at",
            (spec.name,),
        ).fetchall()
    batches = [
        {"query_id": query, "batch_id": batch, "planned_at": planned, "committed_at": committed,
         "progress": None if progress is None else json.loads(progress)}
        for query, batch, planned, committed, progress in rows
    ]  # fmt: skip
    document = {
        "spec": spec_to_dict(spec),
        "killed_at": killed_at,
        "drivers": [asdict(each) for each in store.drivers.history(spec.name, 0.0)],
        "batches": batches,
        "measurements": [asdict(each) for each in store.measurements.recent(spec.name, 0.0)],
        "states": looks,
    }
    text = json.dumps(document, default=str).replace(str(REPOSITORY), "/srv/project")
    path = TARGET / f"{spec.name}.json.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{path.name}: {len(batches)} batches, {path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
