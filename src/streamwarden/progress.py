"""Progress: what Spark reports for one micro-batch, parsed once.

Unknown keys stay in `raw`; missing keys become None or zero, so that reports of several Spark versions can be read.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from streamwarden.errors import ProgressError

INPUT_METRIC: Final = "input"
"""Name of the observed metric of a source's rows (`read`, `malformed`, `empty`); of a second source, `input_1`, and so
on."""

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
"""The bounds of what the store can keep as an integer."""

_FAR: Final = re.compile(r"\+?(?P<year>[0-9]{5,9})(?P<rest>-.+)")
_CYCLE: Final = 146_097 * 86_400
"""Seconds of 400 years."""

_BATCH_PHASES: Final = ("walCommit", "addBatch", "commitOffsets")
"""Phases that Spark times only when it plans and executes a batch."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class SourceProgress:
    description: str
    end_offset: Any
    latest_offset: Any
    rows: int
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One `StreamingQueryProgress`.

    Args:
        at: start of the batch's trigger, Unix seconds.
        durations_ms: phase -> milliseconds (`triggerExecution`, `addBatch`, `walCommit`, `commitOffsets`, …).
        watermark: event-time watermark in force in this batch, Unix seconds, or None.
        event_time_max: largest event time seen in the batch, Unix seconds, or None.
        has_watermark: whether the query has a watermark, also one that is not in force yet.
        rows_written: rows that the batch wrote; None if the sink does not count them, as Spark's sink of files.
        raw: the report itself; empty where only its compact form was read.
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
    has_watermark: bool = False
    rows_written: int | None = None
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
    def rows_changed(self) -> int:
        """State rows that the batch updated or removed, all operators together."""
        return sum(operator.rows_updated + operator.rows_removed for operator in self.operators)

    @property
    def planning_ms(self) -> int:
        """Wall time in which the batch was planned."""
        return self._phases("latestOffset", "getBatch", "queryPlanning")

    @property
    def execution_ms(self) -> int:
        """Wall time of the batch itself, its sink and the commit of its state."""
        return self._phases("addBatch")

    @property
    def logs_ms(self) -> int:
        """Wall time in which both logs were written."""
        return self._phases("walCommit", "commitOffsets")

    def _phases(self, *names: str) -> int:
        return sum(self.durations_ms.get(name, 0) for name in names)

    @property
    def read(self) -> int:
        """Input rows of all sources that `read_rows` reads and counts: those of a stream with a quarantine."""
        return self._counted("read")

    @property
    def malformed(self) -> int:
        """Those of them that could not be used."""
        return self._counted("malformed")

    @property
    def empty(self) -> int:
        """Those of them that are well-formed, and null in every column of the schema."""
        return self._counted("empty")

    def _counted(self, what: str) -> int:
        counted = (
            metric.get(what)
            for name, metric in self.observed_metrics.items()
            if name == INPUT_METRIC or name.startswith(f"{INPUT_METRIC}_")
        )
        return sum(value for value in counted if isinstance(value, int))


def parse_progress(text: str | Mapping[str, Any]) -> Progress:
    """Parse Spark's progress JSON. Raises ProgressError, and nothing else, for a report that is not one of Spark's: it
    has no query id, run id, batch id or timestamp, or a value of another type."""
    raw = _decoded(text) if isinstance(text, str) else text
    body = _Fields(raw)
    missing = [key for key in ("id", "runId", "batchId", "timestamp") if raw.get(key) is None]
    if missing:
        raise _not_sparks(f"a progress report lacks {', '.join(missing)}")
    durations = body.counts("durationMs")
    event_time, sink = _Fields(body.object("eventTime")), body.object("sink")
    return Progress(
        query_id=body.text("id") or "",
        run_id=body.text("runId") or "",
        name=body.text("name"),
        batch_id=body.count("batchId"),
        at=parse_timestamp(body.text("timestamp") or ""),
        rows=body.count("numInputRows"),
        duration_ms=body.count("batchDuration") or durations.get("triggerExecution") or 0,
        durations_ms=durations,
        input_rows_per_second=_number(raw.get("inputRowsPerSecond")),
        processed_rows_per_second=_number(raw.get("processedRowsPerSecond")),
        watermark=_event_time(event_time.text("watermark")),
        event_time_max=_event_time(event_time.text("max")),
        operators=tuple(_operator(index, item) for index, item in enumerate(body.objects("stateOperators"))),
        sources=tuple(_source(item) for item in body.objects("sources")),
        sink=_Fields(sink).text("description") or "",
        observed_metrics=body.nested("observedMetrics"),
        has_watermark="watermark" in body.object("eventTime"),
        rows_written=_rows_written(sink),
        raw=raw,
    )


def _rows_written(sink: Mapping[str, Any]) -> int | None:
    """Spark reports -1 for a sink that does not count."""
    count = sink.get("numOutputRows")
    return count if isinstance(count, int) and count >= 0 else None


def parse_timestamp(text: str) -> float:
    """Unix seconds of Spark's ISO-8601 timestamps (`2026-01-01T00:00:00.000Z`). Raises ProgressError.

    Milliseconds that a job read as seconds are a time like `+58841-05-18T00:00:00.000Z`, beyond Python's calendar: the
    calendar repeats itself every 400 years.
    """
    try:
        far = _FAR.fullmatch(text)
        if far is None:
            return datetime.fromisoformat(text).timestamp()
        cycles, year = divmod(int(far["year"]) - 2000, 400)
        return datetime.fromisoformat(f"{2000 + year}{far['rest']}").timestamp() + cycles * _CYCLE
    except (ValueError, OverflowError, OSError) as error:
        raise _not_sparks(f"a progress report has the time {text[:40]!r}") from error


def offset_value(offset: Any) -> Any:
    """An offset of a source, which Spark reports as JSON or as text that holds JSON; None if the text holds none."""
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return None


def _decoded(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_sparks(f"a progress report is not JSON: {str(error)[:80]}") from error
    if not isinstance(value, dict):
        raise _not_sparks(f"a progress report is not a JSON object: {text[:40]!r}")
    return value


class _Fields:
    """The fields of an object by their types; a missing field, or null, is None, 0 or empty. Raises ProgressError."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw

    def text(self, key: str) -> str | None:
        value = self._raw.get(key)
        if value is not None and not isinstance(value, str):
            raise _wrong(key, value, "text")
        return value

    def count(self, key: str) -> int:
        return _integer(key, self._raw.get(key))

    def object(self, key: str) -> Mapping[str, Any]:
        value = self._raw.get(key)
        if type(value) is not dict and value is not None and not isinstance(value, Mapping):
            raise _wrong(key, value, "an object")
        return value or {}

    def objects(self, key: str) -> Sequence[Mapping[str, Any]]:
        value = self._raw.get(key)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
            raise _wrong(key, value, "a list of objects")
        return value

    def nested(self, key: str) -> dict[str, Mapping[str, Any]]:
        inner = _Fields(self.object(key))
        return {name: inner.object(name) for name in self.object(key)}

    def counts(self, key: str) -> dict[str, int]:
        found = self.object(key)
        return {
            name: value  # nearly always, and an evaluation reads millions
            if type(value) is int and _LEAST <= value <= _MOST
            else _integer(name, value, of=f"{key}.")
            for name, value in found.items()
        }


def _integer(key: str, value: Any, of: str = "") -> int:
    """An integer that the store can keep; 0 for None. An error names the field `key`, with `of` before it."""
    if type(value) is int and _LEAST <= value <= _MOST:
        return value
    if value is None:
        return 0
    try:
        number = int(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or not _LEAST <= number <= _MOST:
        raise _wrong(f"{of}{key}", value, "a number of 64 bits")
    return number


def _wrong(key: str, value: Any, expected: str) -> ProgressError:
    return _not_sparks(f"a progress report has {str(value)[:40]!r} as {key}, which is not {expected}")


def _not_sparks(observed: str) -> ProgressError:
    return ProgressError(
        observed,
        expected="the JSON of Spark's StreamingQueryProgress",
        next_step="pass the report as Spark printed it",
    )


def _event_time(text: str | None) -> float | None:
    """None also for the epoch: Spark reports it as the watermark before any event time was seen."""
    at = parse_timestamp(text) if text else None
    return at or None


def _number(value: object) -> float | None:
    """Spark writes NaN and Infinity as text or leaves the key out."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) != float("inf") and number == number else None


def _operator(index: int, raw: Mapping[str, Any]) -> OperatorProgress:
    body = _Fields(raw)
    return OperatorProgress(
        index=index,
        name=body.text("operatorName") or "unknown",
        rows_total=body.count("numRowsTotal"),
        rows_updated=body.count("numRowsUpdated"),
        rows_removed=body.count("numRowsRemoved"),
        rows_dropped_by_watermark=body.count("numRowsDroppedByWatermark"),
        memory_used_bytes=body.count("memoryUsedBytes"),
        update_ms=body.count("allUpdatesTimeMs"),
        removal_ms=body.count("allRemovalsTimeMs"),
        commit_ms=body.count("commitTimeMs"),
        partitions=body.count("numShufflePartitions") if raw.get("numShufflePartitions") is not None else None,
        custom=body.counts("customMetrics"),
    )


def _source(raw: Mapping[str, Any]) -> SourceProgress:
    body = _Fields(raw)
    return SourceProgress(
        description=body.text("description") or "",
        end_offset=raw.get("endOffset"),
        latest_offset=raw.get("latestOffset"),
        rows=body.count("numInputRows"),
        metrics={str(key): str(value) for key, value in body.object("metrics").items()},
    )
