"""The input of a recommendation: one stream's own history, gathered once.

Sequences are oldest first; times are in seconds.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from streamwarden.checkpoint.compact_logs import CompactLog
from streamwarden.health.check import Check, Thresholds
from streamwarden.health.signals.series import batch_seconds
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import Verdict
from streamwarden.health.window import Batch, Measurement, Window
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.progress import Progress
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_count

ENOUGH: Final = 20
"""Fewest reports for rates and medians: fewer show the stream's start rather than its normal state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFiles:
    """The checkpoint's state directory, all operators together.

    Args:
        bytes: under `state/`, all versions that are kept.
        by_partition: bytes of each partition.
        instances: state stores (operators x partitions x stores).
        snapshots: for each instance, the versions with a snapshot: one instance may be behind the others.
        oldest, newest: the versions between which something is kept.
        rows, keys, values: sampled rows of the kept changes, and the bytes of their keys and values.
        changed: version -> (stored, plain) bytes of its changelogs or deltas, of a sample of versions.
        snapshot_bytes: version -> mean bytes of the files that an instance's snapshot names, of the newest (RocksDB).
    """

    bytes: int
    by_partition: Mapping[int, int]
    instances: int
    snapshots: tuple[tuple[int, ...], ...] = ()
    oldest: int = 0
    newest: int = 0
    rows: int = 0
    keys: int = 0
    values: int = 0
    changed: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    snapshot_bytes: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Args:
    conf: Spark's settings in force, as the runner submits them.
    batches: of the checkpoint's query, the newest few hundred.
    files: None if the checkpoint could not be read.
    logs: the compacted logs of the sink and of the sources.
    first_reports: run id -> report of the first batch of that run, however old it is.
    thresholds: the project's; the stream's own override them.
    acceptable_recovery: longest recovery that is accepted, with where that is declared.
    problems: what could not be read, and why.
    """

    spec: StreamSpec
    conf: Mapping[str, str]
    now: float
    batches: tuple[Batch, ...] = ()
    drivers: tuple[DriverRecord, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    files: StateFiles | None = None
    logs: tuple[CompactLog, ...] = ()
    first_reports: Mapping[str, Progress] = field(default_factory=dict)
    thresholds: Thresholds = DEFAULTS
    acceptable_recovery: tuple[float, str] = (90.0, "the default target of a drill")
    problems: tuple[str, ...] = ()

    def reports(self) -> list[Progress]:
        """The reports of batches that ran."""
        return [batch.progress for batch in self.batches if batch.progress is not None and batch.progress.has_run]

    def in_force(self, check: str) -> Mapping[str, float]:
        """The thresholds of one check, with the stream's own."""
        return self.thresholds.with_overrides(self.spec.health.thresholds).of(check)

    def judge(self, check: Check) -> Verdict:
        """The verdict of a health check on the same batches, so that no advice contradicts it."""
        window = Window(spec=self.spec, now=self.batches_end(), batches=self.batches)
        return check.judge(window, self.thresholds.with_overrides(self.spec.health.thresholds))

    def batches_end(self) -> float:
        """When the newest batch ended, Unix seconds."""
        return max((report.at + report.duration_ms / 1000 for report in self.reports()), default=self.now)

    def with_rows(self) -> list[Progress]:
        """Reports of batches that had input."""
        return [report for report in self.reports() if report.rows > 0]

    def batch_seconds(self) -> float | None:
        """Median duration of a batch."""
        taken = batch_seconds(self.batches)
        return statistics.median(taken) if taken else None

    def too_few(self, found: Sequence[Progress]) -> str:
        """Why `found` is too little for a recommendation; empty if it is enough."""
        if len(found) >= ENOUGH:
            return ""
        return f"too little history: {format_count(len(found), 'batch')} with rows reported, {ENOUGH} are needed"


def state_rows(report: Progress) -> int:
    """Rows in the state after the batch, all operators together."""
    return sum(operator.rows_total for operator in report.operators)


def arrivals(reports: Sequence[Progress]) -> float | None:
    """Input rows a second over the time that the reports span, from start to start; None for one instant."""
    if len(reports) < 2 or reports[-1].at <= reports[0].at:
        return None
    return sum(report.rows for report in reports[:-1]) / (reports[-1].at - reports[0].at)
