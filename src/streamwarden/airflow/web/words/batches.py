"""The batches of a stream as lines of a table: what each read, wrote and changed, where its time went, and what is
unusual about it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.health.window import Batch
from streamwarden.progress import Progress

FEW: Final = 5
"""Of fewer executed batches none is marked as the slowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Seconds of a batch: to plan it, to execute it with its sink and the commit of its state, to write both logs."""

    planning: float
    execution: float
    logs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """One batch.

    Args:
        began: Unix seconds; None: unknown.
        seconds: how long it took, from its report, else from the files of both logs; None: it has not ended.
        rows_in, rows_out: None: no report, or the sink does not say.
        updated, removed, dropped: rows of the state, and rows that came after the watermark, of all operators.
        note: what is unusual, in few words, or empty.
        bad: whether a person should look at the batch.
    """

    batch_id: int
    began: float | None
    seconds: float | None
    phases: Phases | None = None
    rows_in: int | None = None
    rows_out: int | None = None
    updated: int | None = None
    removed: int | None = None
    dropped: int | None = None
    watermark: float | None = None
    note: str = ""
    bad: bool = False


def lines(batches: Sequence[Batch]) -> list[BatchLine]:
    """The lines of these batches, given oldest first, newest first."""
    slowest = _slowest(batches)
    return [_line(batch, batch is slowest) for batch in reversed(batches)]


def _slowest(batches: Sequence[Batch]) -> Batch | None:
    executed = [batch for batch in batches if batch.progress is not None and batch.progress.has_run]
    return max(executed, key=lambda batch: _seconds(batch) or 0.0) if len(executed) >= FEW else None


def _line(batch: Batch, is_slowest: bool) -> BatchLine:
    note, bad = _note(batch, is_slowest)
    began = batch.progress.at if batch.progress is not None else batch.planned_at
    line = BatchLine(batch_id=batch.batch_id, began=began, seconds=_seconds(batch), note=note, bad=bad)
    return line if batch.progress is None else _reported(line, batch.progress)


def _reported(line: BatchLine, report: Progress) -> BatchLine:
    return replace(
        line,
        phases=Phases(
            planning=report.planning_ms / 1000, execution=report.execution_ms / 1000, logs=report.logs_ms / 1000
        ),
        rows_in=report.rows,
        rows_out=report.rows_written,
        updated=sum(operator.rows_updated for operator in report.operators),
        removed=sum(operator.rows_removed for operator in report.operators),
        dropped=sum(operator.rows_dropped_by_watermark for operator in report.operators),
        watermark=report.watermark,
    )


def _seconds(batch: Batch) -> float | None:
    if batch.progress is not None:
        return batch.progress.duration_ms / 1000
    if batch.planned_at is None or batch.committed_at is None:
        return None
    return batch.committed_at - batch.planned_at


def _note(batch: Batch, is_slowest: bool) -> tuple[str, bool]:
    if not batch.stands:
        return "taken back by a restore", False
    if batch.committed_at is None and batch.progress is None:
        return "not committed yet", False
    if batch.progress is None:
        return "its report was lost, as in a kill", True
    return ("the slowest of these", False) if is_slowest else ("", False)
