"""What is missing or damaged under `state/`, and what Spark will do about it.

Only files that the next start reads are opened: of each store the snapshot that it loads and the changes after it. If
one of them is of no use, Spark (4.1 and later) tries the next older snapshot with all changes after it, down to the
empty store: so what recovers is exactly what some such way still covers without a hole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from streamwarden.checkpoint.diagnosis import RESTORE, Logs
from streamwarden.checkpoint.filesystem import FileSystem, join
from streamwarden.checkpoint.findings import Consequence, Finding
from streamwarden.checkpoint.integrity import check_schema, check_state_file
from streamwarden.checkpoint.layout import STATE, Damaged
from streamwarden.checkpoint.logs import CommitRecord
from streamwarden.checkpoint.operators import OperatorMetadata, operator_metadata_path, read_operator_metadata
from streamwarden.checkpoint.state import FileKind, Load, StateStore

_MISSING_STATE: Final = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
_CANNOT_LOAD: Final = "CANNOT_LOAD_STATE_STORE"
_NO_DELTA: Final = f"{_CANNOT_LOAD}.CANNOT_READ_DELTA_FILE_NOT_EXISTS"
_NO_FILE: Final = f"{_CANNOT_LOAD}.CANNOT_READ_STREAMING_STATE_FILE"
_WRITES_OPERATORS: Final = "spark.sql.streaming.stateStore.encodingFormat"
"""A setting that the offset log records since Spark 4.0, which also writes metadata of every operator."""


def operators_of(
    fs: FileSystem, path: str, stores: Sequence[StateStore], logs: Logs
) -> tuple[dict[int, OperatorMetadata], list[Finding]]:
    """The metadata of each operator that has some, and what is wrong with it."""
    found: dict[int, OperatorMetadata] = {}
    findings = []
    latest = logs.latest_offsets()
    for operator in sorted({store.operator for store in stores}):
        where = operator_metadata_path(fs, path, operator)
        if where is None:
            if latest is not None and _WRITES_OPERATORS in latest.conf:
                findings.append(_unread(join(STATE, str(operator), "_metadata"), "the operator's metadata is missing"))
            continue
        try:
            found[operator] = read_operator_metadata(fs, path, operator, where)
        except Damaged as error:
            findings.append(_unread(where, str(error)))
    return found, findings


def diagnose_state(
    fs: FileSystem,
    path: str,
    stores: Sequence[StateStore],
    operators: Mapping[int, OperatorMetadata],
    logs: Logs,
) -> Iterator[Finding]:
    """Everything wrong under `state/` that matters for the next start."""
    version, latest = logs.state_version, logs.latest_offsets()
    if version == 0 or latest is None:
        return
    if not stores:
        if latest.watermark_ms > 0:  # a query without state may have a watermark too, but seldom
            yield _refuses(STATE, "there is no state, while the query has a watermark", _MISSING_STATE)
        return
    yield from _diagnose_layout(stores, operators)
    codec = latest.conf.get("spark.sql.streaming.stateStore.compression.codec", "lz4")
    for store in stores:
        if store.partition < _partitions(store.operator, stores, operators):
            yield from _diagnose_store(fs, path, _of_commit(store, logs, version), version, codec)
            yield from _diagnose_schema(fs, path, store)


def _diagnose_layout(stores: Sequence[StateStore], operators: Mapping[int, OperatorMetadata]) -> Iterator[Finding]:
    """Operators are numbered from 0 without a hole, and so are the partitions of each."""
    present = {(store.operator, store.partition) for store in stores}
    last = max(operator for operator, _ in present)
    for operator in range(last + 1):
        if not any(each == operator for each, _ in present):
            yield _refuses(join(STATE, str(operator)), "the operator's folder is missing", _MISSING_STATE)
            continue
        for partition in range(_partitions(operator, stores, operators)):
            if (operator, partition) not in present:
                yield _refuses(join(STATE, str(operator), str(partition)), "the partition is missing", _NO_FILE)


def _diagnose_store(fs: FileSystem, path: str, store: StateStore, version: int, codec: str) -> Iterator[Finding]:
    first, *others = store.loads(version)
    broken = _broken_files(fs, path, store, first, codec)
    if first.complete and not broken:
        return
    other = next((way for way in others if way.complete and not _broken_files(fs, path, store, way, codec)), None)
    for name, what in broken.items():
        if other is None:
            yield _refuses(join(store.folder, name), what, f"{_CANNOT_LOAD}.UNCATEGORIZED")
            continue
        start = other.snapshot.name if other.snapshot else "the empty state"
        yield Finding(
            path=join(store.folder, name),
            what=what,
            consequence=Consequence.RECOVERS,
            spark=f"Spark 4.1 and later repairs it: it replays the changes from {start} on. An older one refuses.",
            next_step="start the stream; its first batch takes longer",
        )
    if other is None:
        for missing in first.missing:
            name, error_class = _missing_name(store, missing)
            yield _refuses(join(store.folder, name), f"the file is missing; version {version} needs it", error_class)


def _broken_files(fs: FileSystem, path: str, store: StateStore, way: Load, codec: str) -> dict[str, str]:
    """Name -> why, of the files of one way to load that cannot be read."""
    broken = {}
    for file in (*((way.snapshot,) if way.snapshot else ()), *way.changes):
        try:
            check_state_file(fs, path, store, file, codec)
        except Damaged as error:
            broken[file.name] = str(error)
    return broken


def _diagnose_schema(fs: FileSystem, path: str, store: StateStore) -> Iterator[Finding]:
    """The state's schema stands in partition 0; it is checked at every start, and written if it is not there."""
    name = "_metadata/schema"
    if name not in store.other:
        return
    try:
        check_schema(fs.read(join(path, store.folder, name)))
    except Damaged as error:
        advice = f"{RESTORE}, or remove it: Spark writes it anew, unchecked against the state"
        yield Finding(
            path=join(store.folder, name),
            what=str(error),
            consequence=Consequence.REFUSES,
            spark="Spark refuses to start.",
            next_step=advice,
        )


def _of_commit(store: StateStore, logs: Logs, version: int) -> StateStore:
    """Checkpoint format 2: of several attempts at the newest version only the one that the commit names counts."""
    record = logs.commits.get(version - 1)
    if not isinstance(record, CommitRecord) or not record.state_ids:
        return store
    known = _strings(record.state_ids.get(str(store.operator)))
    return replace(
        store, files=tuple(each for each in store.files if each.version != version or each.unique_id in known)
    )


def _strings(value: object) -> frozenset[str]:
    """Every string in nested lists."""
    if isinstance(value, str):
        return frozenset((value,))
    if isinstance(value, list):
        return frozenset().union(*(_strings(each) for each in value))
    return frozenset()


def _partitions(operator: int, stores: Sequence[StateStore], operators: Mapping[int, OperatorMetadata]) -> int:
    """As the operator's metadata says (a global aggregation has one, whatever the settings say), else as many as are
    there."""
    known = operators[operator].partitions if operator in operators else None
    return known or 1 + max(store.partition for store in stores if store.operator == operator)


def _missing_name(store: StateStore, version: int) -> tuple[str, str]:
    kinds = {file.kind for file in store.files}
    if FileKind.DELTA in kinds or FileKind.SNAPSHOT in kinds:
        return f"{version}.{FileKind.DELTA.value}", _NO_DELTA
    return f"{version}.{(FileKind.CHANGELOG if FileKind.CHANGELOG in kinds else FileKind.ZIP).value}", _NO_FILE


def _refuses(path: str, what: str, error_class: str) -> Finding:
    return Finding(
        path=path,
        what=what,
        consequence=Consequence.REFUSES,
        spark=f"Spark's first batch fails ({error_class}).",
        next_step=f"{RESTORE}, or start from an older savepoint, or from the beginning with a new checkpoint",
        error_class=error_class,
    )


def _unread(path: str, what: str) -> Finding:
    return Finding(
        path=path,
        what=what,
        consequence=Consequence.RECOVERS,
        spark="Spark starts and writes it anew; a change of operators goes unnoticed once.",
        next_step="nothing: start the stream",
    )
