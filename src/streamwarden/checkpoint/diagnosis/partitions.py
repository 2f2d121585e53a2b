"""Folders that `state/` must have (operators, partitions and stores), and the files that the state store reads there.

`spark.sql.shuffle.partitions` in `offsets/N` fixes how many partitions an operator has; Spark does not read the number
in the operator's metadata. A global aggregation and a global limit always have one partition.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.checkpoint.diagnosis.damage import Damage, fails_first_batch, loses_rows
from streamwarden.checkpoint.diagnosis.loading import NO_DELTA, NO_FILE
from streamwarden.checkpoint.diagnosis.operator_names import single_partition
from streamwarden.checkpoint.filesystem import join
from streamwarden.checkpoint.formats.layout import OFFSETS, STATE, gaps
from streamwarden.checkpoint.formats.logs import OffsetRecord
from streamwarden.checkpoint.formats.operators import OperatorMetadata
from streamwarden.checkpoint.formats.schemas import StateSchema
from streamwarden.checkpoint.formats.state import FileKind, StateStore

PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
HDFS: Final = "HDFSBackedStateStoreProvider"
ROCKSDB: Final = "RocksDBStateStoreProvider"
_SHOWN: Final = 10
_KINDS: Final[Mapping[str, frozenset[FileKind]]] = {
    HDFS: frozenset({FileKind.DELTA, FileKind.SNAPSHOT}),
    ROCKSDB: frozenset({FileKind.CHANGELOG, FileKind.ZIP}),
}


@dataclass(frozen=True, slots=True)
class OperatorLayout:
    """Number of partitions of an operator, and the stores that each of them has."""

    partitions: int
    stores: tuple[str, ...]


def expected_layout(
    stores: Sequence[StateStore],
    operators: Mapping[int, OperatorMetadata],
    schemas: Mapping[int, Sequence[StateSchema]],
    record: OffsetRecord,
) -> dict[int, OperatorLayout]:
    """Operator -> what Spark will load of it. Without a schema, a single partition may be complete."""
    layouts = {}
    for operator in sorted({store.operator for store in stores}):
        own = [store for store in stores if store.operator == operator]
        metadata = operators.get(operator)
        known_schemas = schemas.get(operator, ())
        single = single_partition(known_schemas) or (not known_schemas and not any(store.partition for store in own))
        named = (
            record.shuffle_partitions or (metadata and metadata.partitions) or 1 + max(store.partition for store in own)
        )
        there = tuple(sorted({store.name for store in own if store.files} or {store.name for store in own}))
        names = metadata.stores if metadata and set(metadata.stores) >= set(there) else there
        layouts[operator] = OperatorLayout(1 if single else named, names)
    return layouts


def diagnose_layout(
    stores: Sequence[StateStore],
    layout: Mapping[int, OperatorLayout],
    version: int,
    record: OffsetRecord,
    committed_operators: int,
) -> Iterator[Damage]:
    """Operators are numbered from 0 without a gap, and so are the partitions of each; each partition has every store.

    Args:
        version: of the state that Spark loads next.
        committed_operators: how many operators the newest commit names (checkpoint format 2); 0 if it names none.
    """
    missing = missing_class(record)
    for lost in gaps(sorted(layout), 0, max(1 + max(layout), committed_operators) - 1):
        yield from _missing(STATE, lost, "the operator's folder is missing", missing)
    for operator, expected in layout.items():
        folder = join(STATE, str(operator))
        own = [store for store in stores if store.operator == operator]
        partitions = sorted({store.partition for store in own if store.partition < expected.partitions})
        for lost in gaps(partitions, 0, expected.partitions - 1):
            yield from _missing(folder, lost, "the partition is missing", missing)
        for partition in partitions:
            there = [store for store in own if store.partition == partition]
            yield from _diagnose_partition(join(folder, str(partition)), there, expected, record, missing)
        yield from _diagnose_unread(folder, own, layout[operator], version, record.batch)


def of_provider(store: StateStore, record: OffsetRecord) -> StateStore:
    """The store with only the files that the state store provider of the checkpoint reads."""
    kinds = _KINDS.get(provider_name(record) or "")
    return store if kinds is None else replace(store, files=tuple(file for file in store.files if file.kind in kinds))


def missing_class(record: OffsetRecord) -> str:
    """The error class with which a batch fails if its state is missing."""
    return NO_DELTA if provider_name(record) == HDFS else NO_FILE


def provider_name(record: OffsetRecord) -> str | None:
    """The state store provider that the checkpoint has fixed, without its package; None if it does not say."""
    return record.conf[PROVIDER].rpartition(".")[2] if PROVIDER in record.conf else None


def _missing(folder: str, lost: range, what: str, error_class: str) -> Iterator[Damage]:
    """Folders that are missing; of many the first ones."""
    for number in lost[:_SHOWN]:
        yield fails_first_batch(join(folder, str(number)), what, error_class)


def _diagnose_partition(
    folder: str, there: Sequence[StateStore], layout: OperatorLayout, record: OffsetRecord, missing: str
) -> Iterator[Damage]:
    if not any(store.files for store in there):
        yield fails_first_batch(folder, "the partition has no state", missing)
        return
    for name in layout.stores:
        store = next((candidate for candidate in there if candidate.name == name), None)
        if store is None:
            yield fails_first_batch(join(folder, name), "the store is missing", missing)
        elif not of_provider(store, record).files:
            what = f"it has no file of {provider_name(record)}, which offsets/{record.batch} names"
            yield fails_first_batch(store.folder, what, missing)


def _diagnose_unread(
    folder: str, own: Sequence[StateStore], layout: OperatorLayout, version: int, batch: int
) -> Iterator[Damage]:
    """Partitions beyond the number that the offset log fixes, with state of the version that Spark loads next. A
    query that was repartitioned to fewer partitions keeps some with older versions."""
    for store in own:
        if store.partition >= layout.partitions and store.newest >= version:
            what = f"{OFFSETS}/{batch} fixes {layout.partitions} partitions, so this one is not read"
            spark = "Spark starts without the state of this partition: its rows are missing from what it emits later."
            next_step = f"restore {OFFSETS}/{batch} from a copy of the checkpoint"
            yield loses_rows(join(folder, str(store.partition)), what, spark, next_step)
            return
