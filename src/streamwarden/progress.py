"""Progress: what Spark reports for one micro-batch, parsed once.

Unknown keys stay in `raw`; missing keys become None or zero, so that reports of several Spark versions can be read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from streamwarden.errors import StreamwardenError

INPUT_METRIC: Final = "input"
"""Name of the observed metric of a source's rows (`read`, `malformed`); of a second source, `input_1`, and so on."""

_BATCH_PHASES: Final = ("walCommit", "addBatch", "commitOffsets")
"""Phases that Spark times only when it plans and executes a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProgress:
    """One stateful operator in one batch. Spark's times are sums over the operator's tasks, in milliseconds.

    Args:
        index: position of the operator in the report.
        partitions: state store instances that took part (`numShufflePartitions`), None in old reports.
        custom: Spark's `customMetrics` (RocksDB's and the providers' own).
    """

    index: int
    name: str
    rows_total: int
    rows_updated: int
    rows_removed: int
    rows_dropped_by_watermark: int
    memory_used_bytes: int
    update_ms: int
    removal_ms: int
    commit_ms: int
    partitions: int | None
    custom: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    description: str
    start_offset: Any
    end_offset: Any
    latest_offset: Any
    rows: int
    input_rows_per_second: float | None
    processed_rows_per_second: float | None
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One `StreamingQueryProgress`.

    Args:
        at: start of the batch's trigger, Unix seconds.
        durations_ms: phase -> milliseconds (`triggerExecution`, `addBatch`, `walCommit`, `commitOffsets`, …).
        watermark: event-time watermark in force in this batch, Unix seconds, or None.
        event_time_max: largest event time seen in the batch, Unix seconds, or None.
    """

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    at: float
    rows: int
    duration_ms: int
    durations_ms: Mapping[str, int]
    input_rows_per_second: float | None
    processed_rows_per_second: float | None
    watermark: float | None
    event_time_max: float | None
    operators: tuple[OperatorProgress, ...]
    sources: tuple[SourceProgress, ...]
    sink: str
    observed_metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def has_run(self) -> bool:
        """Whether the report is of a batch that ran. Spark also reports triggers that found no data (every 10 s), under
        the id of the batch that would come next.

        Each sign is enough by itself, because Spark reports a batch only after it ran. No batch has to show all: one
        that was planned before a restart has no `walCommit`, and one without data has no rows.
        """
        return self.rows > 0 or any(phase in self.durations_ms for phase in _BATCH_PHASES)

    @property
    def malformed(self) -> int:
        """Input rows that could not be used, of all sources that `read_rows` reads."""
        counted = (
            metric.get("malformed")
            for name, metric in self.observed_metrics.items()
            if name == INPUT_METRIC or name.startswith(f"{INPUT_METRIC}_")
        )
        return sum(value for value in counted if isinstance(value, int))


def parse_progress(text: str | Mapping[str, Any]) -> Progress:
    """Parse Spark's progress JSON. Raises StreamwardenError if it has no query id, batch id or timestamp."""
    raw: Mapping[str, Any] = json.loads(text) if isinstance(text, str) else text
    missing = [key for key in ("id", "runId", "batchId", "timestamp") if raw.get(key) is None]
    if missing:
        raise StreamwardenError(
            f"a progress report lacks {', '.join(missing)}",
            expected="the JSON of Spark's StreamingQueryProgress",
            next_step="pass the report as Spark printed it",
        )
    durations = {str(key): int(value) for key, value in (raw.get("durationMs") or {}).items()}
    event_time = raw.get("eventTime") or {}
    return Progress(
        query_id=str(raw["id"]),
        run_id=str(raw["runId"]),
        name=raw.get("name"),
        batch_id=int(raw["batchId"]),
        at=parse_timestamp(str(raw["timestamp"])),
        rows=int(raw.get("numInputRows") or 0),
        duration_ms=int(raw.get("batchDuration") or durations.get("triggerExecution") or 0),
        durations_ms=durations,
        input_rows_per_second=_number(raw.get("inputRowsPerSecond")),
        processed_rows_per_second=_number(raw.get("processedRowsPerSecond")),
        watermark=_event_time(event_time.get("watermark")),
        event_time_max=_event_time(event_time.get("max")),
        operators=tuple(_operator(index, each) for index, each in enumerate(raw.get("stateOperators") or ())),
        sources=tuple(_source(each) for each in raw.get("sources") or ()),
        sink=str((raw.get("sink") or {}).get("description") or ""),
        observed_metrics=raw.get("observedMetrics") or {},
        raw=raw,
    )


def parse_timestamp(text: str) -> float:
    """Unix seconds of Spark's ISO-8601 timestamps (`2026-01-01T00:00:00.000Z`)."""
    return datetime.fromisoformat(text).timestamp()


def _event_time(text: str | None) -> float | None:
    """None also for the epoch: Spark reports it as the watermark before any event time was seen."""
    at = parse_timestamp(text) if text else None
    return at or None


def _number(value: object) -> float | None:
    """Spark writes NaN and Infinity as text or leaves the key out."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if abs(number) != float("inf") and number == number else None


def _operator(index: int, raw: Mapping[str, Any]) -> OperatorProgress:
    def count(key: str) -> int:
        return int(raw.get(key) or 0)

    partitions = raw.get("numShufflePartitions")
    return OperatorProgress(
        index=index,
        name=str(raw.get("operatorName") or "unknown"),
        rows_total=count("numRowsTotal"),
        rows_updated=count("numRowsUpdated"),
        rows_removed=count("numRowsRemoved"),
        rows_dropped_by_watermark=count("numRowsDroppedByWatermark"),
        memory_used_bytes=count("memoryUsedBytes"),
        update_ms=count("allUpdatesTimeMs"),
        removal_ms=count("allRemovalsTimeMs"),
        commit_ms=count("commitTimeMs"),
        partitions=int(partitions) if partitions is not None else None,
        custom={str(key): int(value) for key, value in (raw.get("customMetrics") or {}).items()},
    )


def _source(raw: Mapping[str, Any]) -> SourceProgress:
    return SourceProgress(
        description=str(raw.get("description") or ""),
        start_offset=raw.get("startOffset"),
        end_offset=raw.get("endOffset"),
        latest_offset=raw.get("latestOffset"),
        rows=int(raw.get("numInputRows") or 0),
        input_rows_per_second=_number(raw.get("inputRowsPerSecond")),
        processed_rows_per_second=_number(raw.get("processedRowsPerSecond")),
        metrics={str(key): str(value) for key, value in (raw.get("metrics") or {}).items()},
    )
