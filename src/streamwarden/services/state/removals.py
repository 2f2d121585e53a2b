"""What left the state in each batch, as Spark's progress reports say: evicted by the watermark or a timeout, expired by
a time to live, dropped before it came in.

No report says how many bytes that freed: RocksDB frees them when it compacts, later.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from streamwarden.health.window import Batch
from streamwarden.progress import OperatorProgress

_EXPIRED: Final = "numValuesRemovedDueToTTLExpiry"
_TIMERS: Final = "numExpiredTimers"
"""Metrics of `transformWithState`, which counts neither among the removed rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One operator in one batch.

    Args:
        at: start of the batch, Unix seconds. watermark: in force in it, Unix seconds; None: there is none.
        removed: rows that the operator took out. expired: values whose time to live was over. timers: that fired.
        late: rows that came later than the watermark, and never got in.
        removal_ms: summed over tasks. left: rows afterwards.
    """

    batch: int
    at: float
    watermark: float | None
    operator: int
    name: str
    removed: int
    expired: int
    timers: int
    late: int
    removal_ms: int
    left: int


def removals(batches: Iterable[Batch]) -> tuple[Removal, ...]:
    """Of every batch with a report, each operator. A report that a kill lost is left out."""
    reports = (batch.progress for batch in batches if batch.progress is not None)
    return tuple(
        _removal(report.batch_id, report.at, report.watermark, operator)
        for report in reports
        for operator in report.operators
    )


def _removal(batch: int, at: float, watermark: float | None, operator: OperatorProgress) -> Removal:
    return Removal(
        batch=batch,
        at=at,
        watermark=watermark,
        operator=operator.index,
        name=operator.name,
        removed=operator.rows_removed,
        expired=operator.custom.get(_EXPIRED, 0),
        timers=operator.custom.get(_TIMERS, 0),
        late=operator.rows_dropped_by_watermark,
        removal_ms=operator.removal_ms,
        left=operator.rows_total,
    )
