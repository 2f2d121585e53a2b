"""What is missing or damaged under `state/`, and what Spark will do about it.

Only files that the next start reads are opened; `loading` says which these are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from streamwarden.checkpoint.diagnosis import RESTORE, Logs
from streamwarden.checkpoint.filesystem import FileSystem, join
from streamwarden.checkpoint.findings import Consequence, Finding
from streamwarden.checkpoint.integrity import check_schema
from streamwarden.checkpoint.layout import STATE, Damaged
from streamwarden.checkpoint.loading import NO_FILE, diagnose_load, refuses
from streamwarden.checkpoint.logs import CommitRecord
from streamwarden.checkpoint.operators import OperatorMetadata, operator_metadata_path, read_operator_metadata
from streamwarden.checkpoint.state import StateStore

_MISSING_STATE: Final = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
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
            yield refuses(STATE, "there is no state, while the query has a watermark", _MISSING_STATE)
        return
    yield from _diagnose_layout(stores, operators)
    codec = latest.conf.get("spark.sql.streaming.stateStore.compression.codec", "lz4")
    for store in stores:
        if store.partition < _partitions(store.operator, stores, operators):
            ids = _committed_ids(logs, version, store.operator)
            yield from diagnose_load(fs, path, store, version, ids=ids, codec=codec)
            yield from _diagnose_schema(fs, path, store)


def _diagnose_layout(stores: Sequence[StateStore], operators: Mapping[int, OperatorMetadata]) -> Iterator[Finding]:
    """Operators are numbered from 0 without a hole, and so are the partitions of each."""
    present = {(store.operator, store.partition) for store in stores}
    last = max(operator for operator, _ in present)
    for operator in range(last + 1):
        if not any(each == operator for each, _ in present):
            yield refuses(join(STATE, str(operator)), "the operator's folder is missing", _MISSING_STATE)
            continue
        for partition in range(_partitions(operator, stores, operators)):
            if (operator, partition) not in present:
                yield refuses(join(STATE, str(operator), str(partition)), "the partition is missing", NO_FILE)


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


def _committed_ids(logs: Logs, version: int, operator: int) -> frozenset[str]:
    """Checkpoint format 2: of several attempts at the newest version only the one that the commit names counts."""
    record = logs.commits.get(version - 1)
    if not isinstance(record, CommitRecord) or not record.state_ids:
        return frozenset()
    return _strings(record.state_ids.get(str(operator)))


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


def _unread(path: str, what: str) -> Finding:
    return Finding(
        path=path,
        what=what,
        consequence=Consequence.RECOVERS,
        spark="Spark starts and writes it anew; a change of operators goes unnoticed once.",
        next_step="nothing: start the stream",
    )
