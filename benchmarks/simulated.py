"""Simulated streams for the benchmarks of the platform: histories made from a report that Spark 4.3 wrote, and
checkpoints on a disk as they would lie there. No Spark runs."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.health.window import Batch, Measurement, StateInstance, WaitingInput, Window
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.progress import Progress, parse_progress
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import StreamSpec, TriggerSpec

NOW: Final = 1_800_000_000.0
"""When a history ends, Unix seconds."""
STEP: Final = 10.0
"""Seconds from one batch to the next."""
KEPT: Final = 100
"""Batches that a checkpoint keeps."""
TEMPLATE: Final = Path(__file__).resolve().parents[1] / "tests/data/health/spark-4.3.0-rocksdb.jsonl"


def make_window(number: int, batches: int) -> Window:
    """One stream's window, every kind of data in it."""
    name = f"stream_{number}"
    reports = list(make_reports(number, batches))
    last = reports[-1]
    return Window(
        spec=StreamSpec(
            name=name,
            job="/jobs/a.py",
            checkpoint=f"/data/{name}",
            source=FilesSource(path="/input", max_files_per_trigger=4),
            trigger=TriggerSpec(processing_time=STEP),
        ),
        now=NOW,
        batches=tuple(
            Batch(
                stream=name,
                query_id=each.query_id,
                batch_id=each.batch_id,
                planned_at=each.at,
                committed_at=each.at + 1,
                progress=each,
            )
            for each in reports
        ),
        hourly=tuple(_measurement(name, "state_bytes", 1e8 + 1e5 * n, NOW - 3600 * (168 - n)) for n in range(167)),
        measurements=tuple(
            _measurement(name, kind, 1.5e9, NOW - 10 * n)
            for n in reversed(range(90))
            for kind in ("resident_bytes", "state_dir_bytes")
        ),
        drivers=(
            DriverRecord(
                driver_id=f"{name}-1",
                stream=name,
                checkpoint=f"/data/{name}",
                token=1,
                folder="/data",
                launched_by="bench",
                launched_at=NOW - 4_000,
                started_at=NOW - 3_990,
            ),
        ),
        log=LogPosition(
            query_id=last.query_id,
            planned=last.batch_id + 1,
            planned_at=NOW - 1,
            committed=last.batch_id,
            committed_at=NOW - 2,
        ),
        driver_alive=True,
        state=tuple(
            StateInstance(operator=0, partition=n, snapshot=batches - 9, version=batches, size=10**8) for n in range(4)
        ),
        waiting=WaitingInput(count=12, size=10**6, since=NOW - 30, planned=80, planned_batches=20),
    )


def make_reports(number: int, batches: int) -> Iterator[Progress]:
    """Reports of one stream; every tenth stream is sick."""
    rng = random.Random(number)  # noqa: S311 - reproducible, not secret
    raw: dict[str, Any] = json.loads(TEMPLATE.read_text().splitlines()[5])
    sick = number % 10 == 0
    start = NOW - STEP * batches
    for batch in range(batches):
        at = start + STEP * batch
        operator = {
            **raw["stateOperators"][0],
            "commitTimeMs": rng.randrange(200, 900) + (40_000 if sick and rng.random() < 0.7 else 0),
            "allUpdatesTimeMs": rng.randrange(500, 1_500),
            "numRowsUpdated": rng.randrange(10_000, 20_000),
            "memoryUsedBytes": rng.randrange(10**6, 10**7),
        }
        operator["customMetrics"] = {
            **operator["customMetrics"],
            "rocksdbSstFileSize": 0 if rng.random() < 0.3 else 10**8 + batch * (10**7 if sick else 10**3),
        }
        yield parse_progress(
            {
                **raw,
                "batchId": batch,
                "timestamp": iso(at),
                "batchDuration": rng.randrange(800, 3_000) + (30_000 if sick else 0),
                "durationMs": {**raw["durationMs"], "addBatch": 50_000},
                "eventTime": {**raw["eventTime"], "watermark": iso(start if sick else at - 60)},
                "stateOperators": [operator],
            }
        )


def lay_out(folder: Path, window: Window) -> StreamSpec:
    """A checkpoint and an input folder on disk, as small as a real one: 100 batches, 4 partitions with a snapshot of
    every tenth version, 100 input files."""
    home = folder / window.spec.name
    last = window.batches[-1].batch_id
    lay_out_folders(home, window.batches[-1].query_id)
    for batch in range(max(0, last - KEPT + 1), last + 1):
        add_batch(home, batch, NOW - STEP * (last - batch))
    return StreamSpec(
        name=window.spec.name,
        job=window.spec.job,
        checkpoint=str(home),
        source=FilesSource(path=str(input_of(home)), max_files_per_trigger=4),
    )


def lay_out_folders(home: Path, query_id: str) -> None:
    """A checkpoint without a batch, and the folder of its input."""
    for part in ("offsets", "commits", "sources/0", *(f"state/0/{n}" for n in range(4))):
        (home / part).mkdir(parents=True)
    input_of(home).mkdir()
    (home / "metadata").write_text(json.dumps({"id": query_id}))


def input_of(home: Path) -> Path:
    """The folder of the input of the query with this checkpoint."""
    return home.with_name(f"{home.name}.input")


def history(until: float, batches: int, *, first: int = 0) -> list[Progress]:
    """Reports of a healthy stream, one every `STEP` seconds, oldest first."""
    raw: dict[str, Any] = json.loads(TEMPLATE.read_text().splitlines()[5])
    made = []
    for batch in range(batches):
        at = until - STEP * (batches - batch)
        event_time = {**raw["eventTime"], "watermark": iso(at - 60)}
        report = {**raw, "batchId": first + batch, "timestamp": iso(at), "eventTime": event_time}
        made.append(parse_progress(report))
    return made


def add_batch(home: Path, batch: int, at: float) -> None:
    """What a query writes for one more batch of one input file, and what it removes of the batch `KEPT` before."""
    (input_of(home) / f"{batch}.json").touch()
    for log, text in (("offsets", '{"batchWatermarkMs":0,"batchTimestampMs":0}\n{"logOffset":1}'), ("commits", "{}")):
        file = home / log / str(batch)
        file.write_text(f"v1\n{text}")
        os.utime(file, (at, at))
        (home / log / str(batch - KEPT)).unlink(missing_ok=True)
    read = range(max(0, batch - KEPT + 1), batch + 1) if batch % 10 == 9 else [batch]
    entries = [{"path": f"file://{input_of(home)}/{n}.json", "timestamp": 1, "batchId": n} for n in read]
    name = f"{batch}.compact" if batch % 10 == 9 else str(batch)
    (home / "sources/0" / name).write_text("\n".join(["v1", *map(json.dumps, entries)]))
    for partition in range(4):
        store = home / f"state/0/{partition}"
        for kind in ("changelog", "zip") if batch % 10 == 0 else ("changelog",):
            (store / f"{batch + 1}.{kind}").write_bytes(b"x" * 100)
            (store / f"{batch + 1 - KEPT}.{kind}").unlink(missing_ok=True)
    (input_of(home) / f"{batch - KEPT}.json").unlink(missing_ok=True)


def _measurement(stream: str, name: str, value: float, at: float) -> Measurement:
    return Measurement(stream=stream, name=name, at=at, value=value, unit="bytes", source="bench")


def iso(at: float) -> str:
    """Unix seconds as Spark writes them."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
