"""How long a restart should take: two predictions, each term with its source.

The field's theorem: recovery time is proportional to (N_current - N_checkpoint) x T_batch. It assumes that each batch
since the snapshot is redone as a whole (an upper bound of the state's part) and omits the start-up, which dominates
small streams. The sharper prediction: start-up + snapshot copy + rows changed since the last uploaded snapshot x cost
per row + the redone batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.stream.spec import Backend
from streamwarden.units import format_count

ROW_COST: Final = {Backend.ROCKSDB: 24e-6, Backend.HDFS: 2.4e-6}
"""Seconds to replay one changed row: upper end of the measured 5-24 us (RocksDB); HDFS-backed ten times less."""

COPY_RATE: Final = 100e6
"""Bytes a second at which a snapshot is fetched and unpacked; a deliberately low figure for a local disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """The state a restart loads.

    Args:
        version: oldest of the partitions' newest uploaded snapshots; state version N+1 is the state after batch N.
            None: no snapshot was uploaded, everything is replayed from the changelogs.
        size: bytes of those snapshots, all partitions.
    """

    backend: Backend | str
    version: int | None
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One addend of a prediction, in seconds, with where it came from."""

    name: str
    seconds: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPrediction:
    """`seconds` is the sum of the terms; None if one of them is not known (then `missing` says which)."""

    formula: str
    terms: tuple[Term, ...]
    missing: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        return None if self.missing else sum(term.seconds for term in self.terms)


def predict_theorem(current: int | None, snapshot: SnapshotFacts, batch_seconds: float | None) -> RecoveryPrediction:
    """(N_current - N_checkpoint) x T_batch.

    Args:
        current: last planned batch.
        batch_seconds: T_batch, the median duration of a committed batch.
    """
    formula = "(N_current - N_checkpoint) x T_batch"
    if current is None or batch_seconds is None:
        return RecoveryPrediction(formula=formula, terms=(), missing=("no committed batch to take T_batch from",))
    covered = -1 if snapshot.version is None else snapshot.version - 1
    distance = max(current - covered, 0)
    source = f"planned batch {current}, last batch in an uploaded snapshot {covered}, T_batch {batch_seconds:.2f} s"
    return RecoveryPrediction(
        formula=formula, terms=(Term(name="batches to redo", seconds=distance * batch_seconds, source=source),)
    )


def predict_restart(
    *,
    startup: float | None,
    snapshot: SnapshotFacts,
    rows_changed: Sequence[int | None],
    redone_batch: float | None,
) -> RecoveryPrediction:
    """Start-up + snapshot copy + rows changed since the last uploaded snapshot x cost per row + redone batch.

    Args:
        startup: seconds from launch to the first planned batch in an earlier life.
        rows_changed: state rows updated or removed by each batch since the snapshot; None where a kill lost the report:
            such a batch counts as the mean of the others.
        redone_batch: seconds of one batch in a cold JVM (the first batch of an earlier life).
    """
    terms, missing = state_load(snapshot, rows_changed)
    if startup is None:
        missing.append("start-up: no earlier life of this stream planned a batch")
    else:
        terms.insert(0, Term(name="start-up", seconds=startup, source="launch to first planned batch, earlier life"))
    if redone_batch is None:
        missing.append("redone batch: no earlier life committed a batch")
    else:
        terms.append(Term(name="redone batch", seconds=redone_batch, source="first batch of an earlier life (cold)"))
    formula = "start-up + snapshot copy + rows changed since the last uploaded snapshot x cost per row + redone batch"
    return RecoveryPrediction(formula=formula, terms=tuple(terms), missing=tuple(missing))


def predict_new_executor(
    *, snapshot: SnapshotFacts, rows_changed: Sequence[int | None], first_batch: float | None
) -> RecoveryPrediction:
    """Snapshot copy + rows changed since the last uploaded snapshot x cost per row + a batch on a new executor.
    `first_batch`: seconds of the first batch of this life: planned by the driver, it waited for its executor."""
    terms, missing = state_load(snapshot, rows_changed)
    if first_batch is None:
        missing.append("batch on a new executor: this life committed no batch")
    else:
        source = "first batch of this life (it waited for its executor)"
        terms.append(Term(name="batch on a new executor", seconds=first_batch, source=source))
    formula = "snapshot copy + rows changed since the last uploaded snapshot x cost per row + a batch on a new executor"
    return RecoveryPrediction(formula=formula, terms=tuple(terms), missing=tuple(missing))


def predict_batch(batch_seconds: float | None) -> RecoveryPrediction:
    """T_batch: a driver that survived the fault runs the next batch, or the one that hung, on the state that it has."""
    if batch_seconds is None:
        return RecoveryPrediction(formula="T_batch", terms=(), missing=("no committed batch to take T_batch from",))
    term = Term(name="one batch", seconds=batch_seconds, source="median duration of a committed batch")
    return RecoveryPrediction(formula="T_batch", terms=(term,))


def state_load(snapshot: SnapshotFacts, rows_changed: Sequence[int | None]) -> tuple[list[Term], list[str]]:
    """The terms of loading the state (snapshot copy, replay of what changed since), and what is missing for them."""
    missing: list[str] = []
    # What a provider of somebody's own costs is not known: take it for the dearer of the two.
    backend = snapshot.backend if isinstance(snapshot.backend, Backend) else Backend.ROCKSDB
    cost = ROW_COST[backend]
    terms = [
        Term(
            name="snapshot copy",
            seconds=snapshot.size / COPY_RATE,
            source=f"{snapshot.size} bytes of uploaded snapshots at {COPY_RATE / 1e6:.0f} MB/s",
        )
    ]
    counts = [rows for rows in rows_changed if rows is not None]
    if rows_changed and not counts:
        missing.append("changed rows: no batch since the snapshot was reported")
    else:
        rows = sum(counts) / len(counts) * len(rows_changed) if counts else 0.0
        guessed = len(rows_changed) - len(counts)
        source = f"{rows:,.0f} rows changed in {format_count(len(rows_changed), 'batch')} since the snapshot"
        source += f" ({guessed} of them not reported, taken as the mean)" if guessed else ""
        source += f", {cost * 1e6:g} us each ({backend.value})"
        terms.append(Term(name="state replay", seconds=rows * cost, source=source))
    return terms, missing
