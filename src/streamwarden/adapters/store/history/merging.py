"""Merges the facts about one batch into one row, in any order of arrival.

The checkpoint's logs record when a batch was planned and committed; Spark's report has everything else. A report may
come before the logs were read or after, twice, or from a second run of the same batch after a kill. Each field of the
result is a minimum, a maximum or a first choice over all inputs, so the order of arrival does not matter.
"""

import json
from dataclasses import dataclass, replace
from enum import StrEnum

from streamwarden.adapters.store.history.compact import compact
from streamwarden.health.window import Batch
from streamwarden.progress import Progress, parse_progress


class BatchOrigin(StrEnum):
    PROGRESS = "progress"
    LOGS = "logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReport:
    """The stored part of a progress report: each field is a column; `progress` is the report itself, as JSON.

    Args:
        compact, compact_at: the compact form, and `started_at` of the report that it is of. A driver of an older
            version stores a report without it, and leaves that of the report which it replaces.
    """

    executed: bool
    started_at: float
    run_id: str
    progress: str
    duration_ms: int
    rows: int
    malformed: int
    watermark: float | None
    planning_ms: int
    execution_ms: int
    logs_ms: int
    compact: str | None = None
    compact_at: float | None = None

    @property
    def rank(self) -> tuple[bool, float, str, str]:
        """Of two reports of a batch, one of a real run wins, then the later run; the rest makes the order total."""
        return self.executed, self.started_at, self.run_id, self.progress


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """Everything known about one batch. Times are Unix seconds."""

    stream: str
    query_id: str
    batch_id: int
    planned_at: float | None = None
    committed_at: float | None = None
    report: StoredReport | None = None

    @property
    def at(self) -> float:
        """Orders the batches of a stream: committed, else started, else planned."""
        started_at = self.report.started_at if self.report else None
        times = [at for at in (self.committed_at, started_at, self.planned_at) if at is not None]
        return times[0] if times else 0.0

    @property
    def origin(self) -> BatchOrigin:
        return BatchOrigin.PROGRESS if self.report else BatchOrigin.LOGS


def merge(one: BatchRow, other: BatchRow) -> BatchRow:
    """The union of two rows of the same batch. Commutative, associative, idempotent."""
    reports = [row.report for row in (one, other) if row.report is not None]
    return replace(
        one,
        planned_at=_least(one.planned_at, other.planned_at),
        committed_at=_least(one.committed_at, other.committed_at),
        report=max(reports, key=lambda report: report.rank, default=None),
    )


def from_progress(stream: str, progress: Progress) -> BatchRow:
    """A row of one report."""
    return BatchRow(
        stream=stream,
        query_id=progress.query_id,
        batch_id=progress.batch_id,
        report=StoredReport(
            executed=progress.has_run,
            started_at=progress.at,
            run_id=progress.run_id,
            progress=json.dumps(progress.raw, ensure_ascii=False, separators=(",", ":")),
            duration_ms=progress.duration_ms,
            rows=progress.rows,
            malformed=progress.malformed,
            watermark=progress.watermark,
            planning_ms=progress.planning_ms,
            execution_ms=progress.execution_ms,
            logs_ms=progress.logs_ms,
            compact=compact(progress),
            compact_at=progress.at,
        ),
    )


def to_batch(row: BatchRow) -> Batch:
    """The batch with its whole report."""
    report = row.report
    stale = report is not None and announces_another(executed=report.executed, planned_at=row.planned_at)
    return Batch(
        stream=row.stream,
        query_id=row.query_id,
        batch_id=row.batch_id,
        planned_at=row.planned_at,
        committed_at=row.committed_at,
        progress=None if report is None or stale else parse_progress(report.progress),
    )


def announces_another(*, executed: bool, planned_at: float | None) -> bool:
    """Whether the report is not of this batch, but of an idle trigger that announced it: it counts until the batch is
    planned."""
    return not executed and planned_at is not None


def _least(one: float | None, other: float | None) -> float | None:
    return min((at for at in (one, other) if at is not None), default=None)
