"""Predicted state size, S = N_keys x (S_key + S_value_avg) x F_versioning, beside the measured one.

N_keys comes from the newest report, S_key and S_value_avg from rows that the store itself wrote. F_versioning is
not a constant: it depends on how a backend stores a row, so it is computed here from its parts.

- HDFS-backed, in memory: each row is two UnsafeRow objects with their byte arrays, shared by all versions; each version
  in memory has its own hash map, with a node for each row; changed rows exist once more.
- RocksDB, on disk: each row is compressed, gets a few bytes of RocksDB's own, and is in as many files as the kept
  snapshots hold copies (`layers`). How much a row takes there depends on how alike neighbouring keys are, so it is
  measured from the stream's own snapshots. A removed row leaves a tombstone, its key, until a merge. Changelogs hold
  each updated row once more, and the key of each removed one.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.lifecycle.settings import IN_MEMORY, number
from streamwarden.progress import Progress
from streamwarden.stream.spec import Backend
from streamwarden.tuning.growth import Growth, growth_of
from streamwarden.tuning.history import History, StateFiles, state_rows
from streamwarden.tuning.layers import Change, Files, content, files_of_snapshots
from streamwarden.tuning.recommendation import Decision, Number, Recommendation, unknown
from streamwarden.units import format_count, format_duration, format_size

TOPIC: Final = "state size"
CURES: Final = "state_size"
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
Measured with Spark 4.3.0 on numeric keys (docs/benchmarks.md); for a stream that has no snapshot yet."""
ZIP: Final = 4_000
"""Bytes of a RocksDB snapshot besides the rows: its manifest and options. Measured with Spark 4.3.0."""

RECORD: Final = 8
"""Bytes of a changelog's record beside key and value: their lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeEstimate:
    """Sizes in bytes.

    Args:
        versioning: F_versioning, with its parts.
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
    """The prediction as a recommendation: whether the state is bounded, what it consists of, and whether the formula
    fits this stream."""
    prediction, growth = predict(history), growth_of(history)
    if isinstance(prediction, str):
        return unknown(TOPIC, prediction) if growth is None else _of_growth(growth, prediction, ())
    where = "in memory" if history.spec.state.backend is Backend.HDFS else "on disk"
    says = f"predicted {format_size(prediction.size)} {where}"
    if prediction.measured is not None and prediction.error is not None:
        says += f", measured {format_size(prediction.measured)} (error {prediction.error:+.0f} %)"
    row = prediction.size / prediction.rows
    if prediction.versioning > MOSTLY_VERSIONS:
        says += (
            ". Nearly all of it is kept versions of rows that changed, not rows: keep fewer batches to make it smaller."
        )
    else:
        says += f": {row:.0f} bytes a row. A million more rows take {format_size(1e6 * row)} more."
    if growth is not None:
        return _of_growth(growth, says, _numbers(prediction))
    return Recommendation(topic=TOPIC, status=Decision.KEEP, says=says, numbers=_numbers(prediction))


def _of_growth(growth: Growth, size: str, numbers: tuple[Number, ...]) -> Recommendation:
    """Recommendation for state that grows: none as long as it may only be filling up."""
    pace = f"{growth.rows * 3600:,.0f} rows ({format_size(growth.bytes * 3600)}) an hour"
    until = "" if growth.critical_in is None else f", and is critical in {format_duration(growth.critical_in)}"
    numbers += (
        Number("growth", growth.rows, "rows a second", f"trend of `numRowsTotal` over {growth.batches} batches"),
        Number("rows removed", growth.removed, "rows", f"`numRowsRemoved` of the same {growth.batches} batches"),
    )
    if growth.endless:
        says = (
            f"the state only grows, by {pace}{until}: no row was removed in {format_duration(growth.span)}, and "
            "nothing seen here ever removes one. Bound it with a watermark, a timeout or a TTL (`streamwarden lint` "
            f"says where). If something else bounds it, declare that in `state.bounded_by`. Now: {size}"
        )
        return Recommendation(topic=TOPIC, status=Decision.CHANGE, says=says, numbers=numbers)
    says = (
        f"the state grows by {pace}{until}. {growth.removed:,} rows were removed in {format_duration(growth.span)}: "
        f"this history is too short to show whether the state stops growing. Now: {size}"
    )
    return Recommendation(topic=TOPIC, status=Decision.UNKNOWN, says=says, numbers=numbers)


def predict(history: History) -> SizeEstimate | str:
    """The prediction, or why there is none."""
    reports = [report for report in history.reports() if report.operators]
    if len(reports) < FEWEST:
        return f"too little history: {format_count(len(reports), 'batch')} with state reported, {FEWEST} are needed"
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
            steady = [sum(operator.memory_used_bytes for operator in report.operators) for report in reports[-STEADY:]]
            measured: float | None = statistics.median(steady)
            measured_how = f"`memoryUsedBytes`, median of {len(steady)} reports"
        case Backend.ROCKSDB:
            size, how = _on_disk(history, reports, rows, key, value, files)
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
    rows_per_map = rows / instances
    table = 2 ** max(4, math.ceil(math.log2(max(1.0, rows_per_map / LOAD_FACTOR)))) * REFERENCE * instances
    row = 2 * (UNSAFE_ROW + ARRAY) + key + value
    changed = statistics.fmean(report.rows_changed for report in reports[-STEADY:])
    old = (versions - 1) * min(changed, rows) * (UNSAFE_ROW + ARRAY + value)
    size = rows * row + versions * (rows * NODE + table) + old
    return size, (
        f"({key + value:.0f} B a row + {2 * (UNSAFE_ROW + ARRAY)} B of its objects + {versions} versions in memory x "
        f"{NODE + table / rows:.0f} B of a hash map + {old / rows:.0f} B of changed rows) / {key + value:.0f} B"
    )


def _on_disk(
    history: History, reports: Sequence[Progress], rows: int, key: float, value: float, files: StateFiles
) -> tuple[float, str]:
    """(bytes, how). Copies in the snapshots' files, changes in the changelogs, and what each snapshot takes besides."""
    ratio, row = compression(files), key + value
    changes, start = _changes(reports)
    layers = {kept: files_of_snapshots(start, changes, kept) for kept in set(files.snapshots)}
    held = [content(layers[kept].values()) for kept in files.snapshots]
    copies = sum(amount.rows for amount in held) / len(held)
    tombstones = sum(amount.tombstones for amount in held) / len(held)
    updated, removed = _logged(reports, files)
    share = key / row
    per_copy, measured = _row_on_disk(files, layers[max(layers, key=len)], share, ratio * row + SST_ROW)
    own = ZIP * sum(map(len, files.snapshots))
    logged = ratio * (updated * (row + RECORD) + removed * (key + RECORD))
    size = (copies + tombstones * share) * per_copy + logged + own
    return size, (
        f"({copies / rows:.2f} copies of a row in {sum(map(len, files.snapshots))} kept snapshots of {files.instances} "
        f"stores x {per_copy:.1f} B ({measured}) + {tombstones / rows:.2f} tombstones a row x "
        f"{per_copy * share:.1f} B + {updated / rows:.2f} updates and {removed / rows:.2f} removals a row in the "
        f"changelogs, {format_size(logged)} + {format_size(own)} of the snapshots' own / rows) / {row:.0f} B; "
        f"compressed to {ratio:.2f} (changelogs of {len(files.changed)} versions)"
    )


def _row_on_disk(files: StateFiles, layers: Mapping[int, Files], tombstone: float, guess: float) -> tuple[float, str]:
    """(bytes that a row takes in a snapshot's files, how that is known): their bytes by what they hold.

    Args:
        layers: version -> files of the snapshot, of one instance; tombstone: what one takes of a row.
        guess: for a stream whose snapshots were not read.
    """
    held = {version: content([layers[version]]).weight(tombstone) / files.instances for version in layers}
    bytes_per_row = [size / held[version] for version, size in files.snapshot_bytes.items() if held.get(version)]
    if not bytes_per_row:
        return guess, "from the changelogs' compression"
    return statistics.median(bytes_per_row), f"median of {len(bytes_per_row)} snapshots"


def _logged(reports: Sequence[Progress], files: StateFiles) -> tuple[float, float]:
    """(updates, removals) in the kept changelogs; a version whose report is lost counts as the mean of the others."""
    kept = range(max(1, files.oldest), files.newest + 1)
    changes_of = {
        report.batch_id + 1: (
            sum(operator.rows_updated for operator in report.operators),
            sum(operator.rows_removed for operator in report.operators),
        )
        for report in reports
    }
    means = tuple(statistics.fmean(column) for column in zip(*changes_of.values(), strict=True))
    changes = [changes_of.get(version, means) for version in kept]
    return float(sum(updated for updated, _ in changes)), float(sum(removed for _, removed in changes))


def compression(files: StateFiles) -> float:
    """Compressed by plain bytes of the sampled changelogs."""
    return sum(stored for stored, _ in files.changed.values()) / sum(plain for _, plain in files.changed.values())


def _changes(reports: Sequence[Progress]) -> tuple[list[Change], int]:
    """(changes of each batch, rows before the first). A batch whose report is lost counts as one that changed nothing:
    its rows are in the next one's total."""
    changes: list[Change] = []
    removed = sum(operator.rows_removed for operator in reports[0].operators)
    updated = sum(operator.rows_updated for operator in reports[0].operators)
    first = reports[0].batch_id == 0
    before = start = 0 if first else max(0, state_rows(reports[0]) + removed - updated)
    for report in reports:
        total = state_rows(report)
        if changes:
            changes += [
                Change(version=version, total=before, new=0, updated=0)
                for version in range(changes[-1].version + 1, report.batch_id + 1)
            ]
        removed = sum(operator.rows_removed for operator in report.operators)
        new = max(0, total - before + removed)
        touched = sum(operator.rows_updated for operator in report.operators)
        changes.append(
            Change(version=report.batch_id + 1, total=total, new=new, updated=max(0, touched - new), removed=removed)
        )
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
