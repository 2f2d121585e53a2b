"""Predicted state size, S = N_keys x (S_key + S_value_avg) x F_versioning, beside the measured one.

N_keys comes from the newest report, S_key and S_value_avg from rows that the store itself wrote. F_versioning is
not a constant: it depends on how a backend stores a row, so it is computed here from its parts.

- HDFS-backed, in memory: each row is two UnsafeRow objects with their byte arrays, shared by all versions; each version
  in memory has its own hash map, with a node for each row; changed rows exist once more.
- RocksDB, on disk: each row is compressed, gets a few bytes of RocksDB's own, and is in as many files as the kept
  snapshots hold copies (`layers`). Changelogs hold each changed row once more.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.lifecycle.settings import IN_MEMORY, number
from streamwarden.progress import Progress
from streamwarden.stream import Backend
from streamwarden.tuning.history import History, StateFiles, changed_rows, state_rows
from streamwarden.tuning.layers import Change, rows_kept
from streamwarden.tuning.recommendation import Decision, Number, Recommendation, unknown
from streamwarden.units import format_size

TOPIC: Final = "state size"
FEWEST: Final = 5
"""Reports with state; the measured memory is the median of as many as `STEADY`."""
STEADY: Final = 10

MOSTLY_VERSIONS: Final = 20.0
"""F_versioning above which the number of rows says little about the size."""

UNSAFE_ROW: Final = 40
"""Bytes of an UnsafeRow object: fields and header, on a 64-bit JVM with compressed references."""
ARRAY: Final = 16
"""Bytes of a byte array beside its content."""
NODE: Final = 32
"""Bytes of a java.util.HashMap.Node."""
REFERENCE: Final = 4
LOAD_FACTOR: Final = 0.75
"""Of a java.util.HashMap: its table is the next power of two above rows / 0.75."""

SST_ROW: Final = 9.0
"""Bytes a row that RocksDB adds in a file: sequence number and type, block index, bloom filter, after compression.
Measured with Spark 4.3.0, see docs/benchmarks.md."""
ZIP: Final = 4_000
"""Bytes of a RocksDB snapshot besides the rows: its manifest and options. Measured with Spark 4.3.0."""

RECORD: Final = 8
"""Bytes of a changelog's record beside key and value: their lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeEstimate:
    """Sizes in bytes.

    Args:
        versioning: F_versioning, with what it was put together from.
        measured: None if it was not measured.
    """

    rows: int
    key: float
    value: float
    versioning: float
    how: str
    measured: float | None
    measured_how: str

    @property
    def size(self) -> float:
        return self.rows * (self.key + self.value) * self.versioning

    @property
    def error(self) -> float | None:
        """The error of the prediction, in percent of the measured size."""
        return 100 * (self.size / self.measured - 1) if self.measured else None


def advise(history: History) -> Recommendation:
    """The prediction as a recommendation: what the state consists of, and whether the formula fits this stream."""
    found = predict(history)
    if isinstance(found, str):
        return unknown(TOPIC, found)
    where = "in memory" if history.spec.state.backend is Backend.HDFS else "on disk"
    says = f"predicted {format_size(found.size)} {where}"
    if found.measured is not None and found.error is not None:
        says += f", measured {format_size(found.measured)} (error {found.error:+.0f} %)"
    row = found.size / found.rows
    if found.versioning > MOSTLY_VERSIONS:
        says += (
            ". Nearly all of it is kept versions of rows that changed, not rows: keep fewer batches to make it smaller."
        )
    else:
        says += f": {row:.0f} bytes a row. A million more rows take {format_size(1e6 * row)} more."
    return Recommendation(topic=TOPIC, status=Decision.KEEP, says=says, numbers=_numbers(found))


def predict(history: History) -> SizeEstimate | str:
    """The prediction, or why there is none."""
    reports = [each for each in history.reports() if each.operators]
    if len(reports) < FEWEST:
        return f"too little history: {len(reports)} batches with state were reported, {FEWEST} are needed"
    rows, files = state_rows(reports[-1]), history.files
    if rows == 0:
        return "the state is empty"
    if files is None:
        return "the checkpoint could not be read" + "".join(f": {problem}" for problem in history.problems[:1])
    if files.rows == 0:
        return "the checkpoint keeps no changelog or delta that a row's size could be read from"
    key, value = files.keys / files.rows, files.values / files.rows
    match history.spec.state.backend:
        case Backend.HDFS:
            size, how = _in_memory(history, reports, rows, key, value)
            steady = [sum(each.memory_used_bytes for each in report.operators) for report in reports[-STEADY:]]
            measured: float | None = statistics.median(steady)
            measured_how = f"`memoryUsedBytes`, median of {len(steady)} reports"
        case Backend.ROCKSDB:
            size, how = _on_disk(history, reports, rows, key + value, files)
            measured, measured_how = float(files.bytes), "bytes under `state/`, all kept versions"
        case other:
            return f"{other} is a custom provider: how it keeps a row is not known"
    return SizeEstimate(
        rows=rows,
        key=key,
        value=value,
        versioning=size / (rows * (key + value)),
        how=how,
        measured=measured,
        measured_how=measured_how,
    )


def _in_memory(history: History, reports: Sequence[Progress], rows: int, key: float, value: float) -> tuple[float, str]:
    """(bytes, how). One map a version, each with its own nodes and table; rows are shared by the maps."""
    versions = int(number(history.conf, IN_MEMORY))
    versions = max(1, min(versions, len(reports)))
    instances = max(1, history.files.instances if history.files else 1)
    each = rows / instances
    table = 2 ** max(4, math.ceil(math.log2(max(1.0, each / LOAD_FACTOR)))) * REFERENCE * instances
    row = 2 * (UNSAFE_ROW + ARRAY) + key + value
    changed = statistics.fmean(changed_rows(report) for report in reports[-STEADY:])
    old = (versions - 1) * min(changed, rows) * (UNSAFE_ROW + ARRAY + value)
    size = rows * row + versions * (rows * NODE + table) + old
    return size, (
        f"({key + value:.0f} B a row + {2 * (UNSAFE_ROW + ARRAY)} B of its objects + {versions} versions in memory x "
        f"{NODE + table / rows:.0f} B of a hash map + {old / rows:.0f} B of changed rows) / {key + value:.0f} B"
    )


def _on_disk(
    history: History, reports: Sequence[Progress], rows: int, row: float, files: StateFiles
) -> tuple[float, str]:
    """(bytes, how). Copies in the snapshots' files, changes in the changelogs, and what each snapshot takes besides."""
    ratio = compression(files)
    changes, start = _changes(reports)
    kinds = Counter(files.snapshots)
    copies = sum(count * rows_kept(start, changes, kept) for kept, count in kinds.items()) / files.instances / rows
    mean = statistics.fmean(changed_rows(report) for report in reports)
    known = {report.batch_id + 1: changed_rows(report) for report in reports}
    in_logs = sum(known.get(version, mean) for version in range(max(1, files.oldest), files.newest + 1))
    per_copy, per_change = ratio * row + SST_ROW, ratio * (row + RECORD)
    made = sum(map(len, files.snapshots))
    own = ZIP * made
    size = rows * copies * per_copy + in_logs * per_change + own
    return size, (
        f"({copies:.2f} copies of a row in {made} kept snapshots of {files.instances} stores x {per_copy:.1f} B + "
        f"{in_logs / rows:.2f} changes a row in the changelogs x {per_change:.1f} B + {format_size(own)} of the "
        f"snapshots' own / rows) / {row:.0f} B; compressed to {ratio:.2f} (changelogs of {len(files.changed)} versions)"
    )


def compression(files: StateFiles) -> float:
    """Compressed by plain bytes of the sampled changelogs."""
    return sum(stored for stored, _ in files.changed.values()) / sum(plain for _, plain in files.changed.values())


def _changes(reports: Sequence[Progress]) -> tuple[list[Change], int]:
    """(what each batch did, rows before the first). A batch whose report is lost counts as one that changed nothing:
    its rows are in the next one's total."""
    changes: list[Change] = []
    removed = sum(each.rows_removed for each in reports[0].operators)
    updated = sum(each.rows_updated for each in reports[0].operators)
    first = reports[0].batch_id == 0
    before = start = 0 if first else max(0, state_rows(reports[0]) + removed - updated)
    for report in reports:
        total = state_rows(report)
        if changes:
            changes += [
                Change(version=version, total=before, new=0, updated=0)
                for version in range(changes[-1].version + 1, report.batch_id + 1)
            ]
        removed = sum(each.rows_removed for each in report.operators)
        new = max(0, total - before + removed)
        touched = sum(each.rows_updated for each in report.operators)
        changes.append(Change(version=report.batch_id + 1, total=total, new=new, updated=max(0, touched - new)))
        before = total
    return changes, start


def _numbers(found: SizeEstimate) -> tuple[Number, ...]:
    numbers = [
        Number("N_keys", found.rows, "rows", "`numRowsTotal` of the newest report, all operators"),
        Number("S_key", found.key, "bytes", "mean of rows sampled in the changelogs or deltas"),
        Number("S_value_avg", found.value, "bytes", "mean of the same rows"),
        Number("F_versioning", found.versioning, "", found.how),
        Number("S predicted", found.size, "bytes", "N_keys x (S_key + S_value_avg) x F_versioning"),
    ]
    if found.measured is not None and found.error is not None:
        numbers.append(Number("S measured", found.measured, "bytes", found.measured_how))
        numbers.append(Number("error", found.error, "%", "of the prediction, in percent of what was measured"))
    return tuple(numbers)
