"""Windows for the checks, made of progress reports as Spark 4.3 wrote them, with single fields changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.health.check import Check
from streamwarden.health.evaluate import evaluate
from streamwarden.health.thresholds import DEFAULTS, Thresholds
from streamwarden.health.verdict import Verdict
from streamwarden.health.window import Batch, Measurement, Probed, Window
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.progress import Progress, parse_progress
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StreamSpec, TriggerSpec

DATA = Path(__file__).resolve().parents[2] / "data" / "health"
NOW = 1_800_000_000.0
STREAM = "orders"


def recorded(backend: str) -> list[dict[str, Any]]:
    """The reports of a real run: 12 batches of 20,000 rows and a final one without data."""
    return [json.loads(line) for line in (DATA / f"spark-4.3.0-{backend}.jsonl").read_text().splitlines()]


_TEMPLATES = {backend: recorded(backend)[5] for backend in ("rocksdb", "hdfs")}


def spec(**changes: Any) -> StreamSpec:
    """Two cores, four partitions, a trigger of 10 s."""
    settings: dict[str, Any] = {
        "name": STREAM,
        "job": "/project/orders.py",
        "checkpoint": "/data/orders",
        "source": FilesSource(path="/data/in"),
        "sink": ParquetSink(path="/data/out"),
        "trigger": TriggerSpec(processing_time=10.0),
        "spark": SparkSpec(master="local[2]"),
    }
    return StreamSpec(**{**settings, **changes})


def report(
    batch: int = 0,
    at: float = NOW,
    *,
    backend: str = "rocksdb",
    top: Mapping[str, Any] | None = None,
    durations: Mapping[str, int] | None = None,
    operator: Mapping[str, Any] | None = None,
    custom: Mapping[str, int] | None = None,
    operators: int = 1,
    watermark: float | None = None,
    source: Mapping[str, Any] | None = None,
) -> Progress:
    """The recorded report of `backend`, as batch `batch` at Unix time `at`, with the given fields replaced."""
    raw = {**_TEMPLATES[backend], "batchId": batch, "timestamp": iso(at), **(top or {})}
    if durations:
        raw["durationMs"] = {**raw["durationMs"], **durations}
    if operator or custom:
        changed = {**raw["stateOperators"][0], **(operator or {})}
        changed["customMetrics"] = {**changed["customMetrics"], **(custom or {})}
        raw["stateOperators"] = [changed, *raw["stateOperators"][1:]]
    raw["stateOperators"] = raw["stateOperators"] * operators
    if source:
        raw["sources"] = [{**raw["sources"][0], **source}, *raw["sources"][1:]]
    if watermark is not None:
        raw["eventTime"] = {**raw["eventTime"], "watermark": iso(watermark)}
    return parse_progress(raw)


def idle_report(batch: int, at: float) -> Progress:
    """What Spark reports under the next batch's id when a trigger found no data."""
    idle = {"numInputRows": 0, "batchDuration": 7, "durationMs": {"latestOffset": 7, "triggerExecution": 7}}
    return parse_progress({**_TEMPLATES["rocksdb"], "batchId": batch, "timestamp": iso(at), **idle})


def window(reports: Iterable[Progress] = (), **changes: Any) -> Window:
    """A window of these reports, at NOW."""
    batches = tuple(batch_of(each) for each in reports)
    return Window(**{"spec": spec(), "now": NOW, "batches": batches, **changes})


def batch_of(progress: Progress, query_id: str | None = None) -> Batch:
    return Batch(
        stream=STREAM,
        query_id=query_id or progress.query_id,
        batch_id=progress.batch_id,
        planned_at=progress.at,
        committed_at=progress.at + progress.duration_ms / 1000,
        progress=progress,
    )


def resident(values: Iterable[float], *, until: float = NOW) -> tuple[Measurement, ...]:
    """Samples of resident memory in bytes, ten seconds apart, the newest at `until`."""
    found = list(values)
    return tuple(measured("resident_bytes", value, until - 10 * (len(found) - 1 - i)) for i, value in enumerate(found))


def measured(name: str, value: float, at: float, source: str = "runner") -> Measurement:
    return Measurement(stream=STREAM, name=name, at=at, value=value, unit="bytes", source=source)


def log(
    planned: int | None, committed: int | None, *, planned_at: float | None = None, committed_at: float | None = None
) -> LogPosition:
    return LogPosition(
        query_id=_TEMPLATES["rocksdb"]["id"],
        planned=planned,
        planned_at=planned_at,
        committed=committed,
        committed_at=committed_at,
    )


def driver(number: int, launched_at: float, **changes: Any) -> DriverRecord:
    settings: dict[str, Any] = {
        "driver_id": f"driver-{number}",
        "stream": STREAM,
        "checkpoint": "/data/orders",
        "token": number,
        "folder": f"/data/drivers/{number}",
        "launched_by": "test",
        "launched_at": launched_at,
    }
    return DriverRecord(**{**settings, **changes})


def ended(kind: ExitKind, at: float, **changes: Any) -> ExitRecord:
    return ExitRecord(kind=kind, ended_at=at, **changes)


def judge(check: Check, of: Window, thresholds: Thresholds = DEFAULTS) -> Verdict:
    """The verdict of one check, the stream's own thresholds applied."""
    part = of.part if of.part in check.judges else sorted(check.judges)[0]
    without: dict[str, Any] = {field: _UNDECLARED for field in Probed if field not in check.probes}
    (verdict,) = evaluate(replace(of, part=part, **without), thresholds, [check])
    assert "the check itself failed" not in verdict.reason, verdict.reason
    return verdict


class _Undeclared:
    """A field of a window that the check does not name in its probes: nothing can be done with it."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("the check reads what it does not name in its probes")

    def __bool__(self) -> bool:
        return bool(self.read)

    def __iter__(self) -> Any:
        return self.read


_UNDECLARED = _Undeclared()


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
