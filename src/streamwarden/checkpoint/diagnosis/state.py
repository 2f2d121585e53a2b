"""What is missing or damaged under `state/`, and what Spark will do about it.

Only files that the next start reads are opened; `loading` says which these are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from streamwarden.checkpoint.diagnosis.damage import Consequence, Damage, finding
from streamwarden.checkpoint.diagnosis.loading import diagnose_load, refuses
from streamwarden.checkpoint.diagnosis.logs import RESTORE, Logs
from streamwarden.checkpoint.diagnosis.partitions import (
    diagnose_layout,
    expected_layout,
    missing_class,
    of_provider,
)
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.layout import COMMITS, SINK_LOG, STATE, Damaged, batch_ids, list_or_empty
from streamwarden.checkpoint.logs import CommitRecord, OffsetRecord
from streamwarden.checkpoint.operators import OperatorMetadata, operator_metadata_path, read_operator_metadata
from streamwarden.checkpoint.schemas import FAMILIES, StateSchema, parse_schema, schema_paths
from streamwarden.checkpoint.state import StateStore

_REFUSES: Final = "Spark refuses to start."
_MISSING_STATE: Final = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
"""Only while nothing at all is under `state/`."""
_PROCESSOR: Final = "transformWithState"
_NO_METADATA: Final = "STDS_FAILED_TO_READ_OPERATOR_METADATA"
_WRITES_OPERATORS: Final = "spark.sql.streaming.stateStore.encodingFormat"
"""A setting that the offset log records since Spark 4.0, which also writes metadata of every operator."""


def operators_of(
    checkpoint: Location, stores: Sequence[StateStore], logs: Logs
) -> tuple[dict[int, OperatorMetadata], list[Damage]]:
    """The metadata of each operator that has some, and what is wrong with it."""
    found: dict[int, OperatorMetadata] = {}
    findings = []
    latest = logs.latest_offsets()
    for operator in sorted({store.operator for store in stores}):
        where = operator_metadata_path(checkpoint, operator)
        if where is None:
            folder = join(STATE, str(operator), "_metadata")
            if list_or_empty(checkpoint / STATE / str(operator) / FAMILIES):
                findings.append(_no_metadata(folder, "the operator's metadata is missing", _NO_METADATA))
            elif latest is not None and _WRITES_OPERATORS in latest.conf:
                findings.append(_unread(folder, "the operator's metadata is missing"))
            continue
        try:
            found[operator] = read_operator_metadata(checkpoint, operator, where)
        except Damaged as error:
            second = "/_metadata/v2/" in where
            findings.append(_no_metadata(where, str(error)) if second else _unread(where, str(error)))
    return found, findings


def diagnose_state(
    checkpoint: Location,
    stores: Sequence[StateStore],
    operators: Mapping[int, OperatorMetadata],
    schemas: Mapping[int, Sequence[StateSchema]],
    logs: Logs,
) -> Iterator[Damage]:
    """Everything wrong under `state/` that matters for the next start."""
    version, latest = logs.state_version, logs.latest_offsets()
    if version == 0 or latest is None:
        return
    if not stores:
        empty = batch_ids(list_or_empty(checkpoint / STATE))
        if empty:
            yield refuses(join(STATE, str(empty[0])), "the operator has no state", missing_class(latest))
        elif latest.watermark_ms > 0:
            yield _no_state(logs)
        return
    if logs.skipped and second_format(stores):
        yield _never_committed(version - 1)
        return
    layout = expected_layout(stores, operators, schemas, latest)
    yield from diagnose_layout(stores, layout, version, latest, _committed_operators(logs))
    codec = latest.conf.get("spark.sql.streaming.stateStore.compression.codec", "lz4")
    for store in stores:
        usable = of_provider(store, latest)
        if store.partition < layout[store.operator].partitions and usable.files:
            ids = _committed_ids(logs, version, store.operator)
            yield from diagnose_load(checkpoint, usable, version, ids=ids, codec=codec)


def _no_state(logs: Logs) -> Damage:
    """Only a query with state runs batches without new data; one without may have a watermark too."""
    what = "there is no state, while the query has a watermark"
    records = {batch: each.sources for batch, each in logs.offsets.items() if isinstance(each, OffsetRecord)}
    if any(records.get(batch - 1) == sources for batch, sources in records.items()):
        return refuses(STATE, f"{what} and ran batches without new data", _MISSING_STATE)
    spark = f"A query without stateful operators needs none; a stateful one refuses to start ({_MISSING_STATE})."
    return finding(STATE, what, Consequence.HARMLESS, spark, f"nothing, if the query keeps no state; else {RESTORE}")


def second_format(stores: Sequence[StateStore]) -> bool:
    """Whether the checkpoint has format 2: its state files carry unique ids."""
    return any(file.unique_id for store in stores for file in store.files)


def _never_committed(batch: int) -> Damage:
    """A driver killed after the sink's manifest and before the commit. Checkpoint format 2 has no way back from there:
    the sink skips the batch, so no state is loaded, and the commit has no state ids to name."""
    entry = f"{SINK_LOG}/{batch}"
    return Damage(
        path=join(COMMITS, str(batch)),
        what="the file is missing, while the sink's manifest lists the batch; the checkpoint has format 2",
        consequence=Consequence.REFUSES,
        spark="Spark fails at each start (assertion failed: CheckpointInfo length: 0).",
        next_step=f"move {entry} and its checksum file out of the output: the batch runs again; "
        f"if it is {batch}.compact, {RESTORE}",
    )


def diagnose_schemas(
    checkpoint: Location, stores: Sequence[StateStore], operators: Mapping[int, OperatorMetadata]
) -> tuple[dict[int, tuple[StateSchema, ...]], list[Damage]]:
    """Operator -> the schemas of its stores; and what is wrong with them. Spark checks them at every start.

    A schema that is not there is written anew, but for that of transformWithState.
    """
    found: dict[int, tuple[StateSchema, ...]] = {}
    findings = []
    for operator in sorted({store.operator for store in stores}):
        own = [store for store in stores if store.operator == operator]
        schemas = []
        for name, where in sorted(schema_paths(checkpoint, own, operators.get(operator)).items()):
            try:
                schema = parse_schema(name, where, (checkpoint / where).read())
                kinds = operators[operator].variables if operator in operators else {}
                families = tuple(replace(each, kind=kinds.get(each.name)) for each in schema.families)
                schemas.append(replace(schema, families=families))
            except Damaged as error:
                findings.append(_broken_schema(where, str(error), operators.get(operator)))
        found[operator] = tuple(schemas)
        if operator in operators:
            findings += _lost_schema(checkpoint, operators[operator])
    return found, findings


def _lost_schema(checkpoint: Location, metadata: OperatorMetadata) -> Iterator[Damage]:
    """Of format 3: the operator's metadata names the file."""
    if not metadata.schema_files:
        return
    newest = metadata.schema_files[-1]
    folder = join(STATE, str(metadata.operator), FAMILIES)
    if any(newest in list_or_empty(checkpoint / folder / store) for store in metadata.stores):
        return
    refuses_it = metadata.name.startswith(_PROCESSOR)
    yield Damage(
        path=join(folder, metadata.stores[0], newest),
        what="the state's schema is missing",
        consequence=Consequence.REFUSES if refuses_it else Consequence.RECOVERS,
        spark=_REFUSES if refuses_it else "Spark starts and writes it anew, unchecked against the state.",
        next_step=RESTORE if refuses_it else "nothing: start the stream",
    )


def _broken_schema(where: str, what: str, metadata: OperatorMetadata | None) -> Damage:
    needed = metadata is not None and metadata.name.startswith(_PROCESSOR)
    return Damage(
        path=where,
        what=what,
        consequence=Consequence.REFUSES,
        spark=_REFUSES,
        next_step=RESTORE if needed else f"{RESTORE}, or remove it: Spark writes it anew, unchecked against the state",
    )


def _committed_ids(logs: Logs, version: int, operator: int) -> frozenset[str]:
    """Checkpoint format 2: of several attempts at the newest version only the one that the commit names counts."""
    record = logs.commits.get(version - 1)
    if not isinstance(record, CommitRecord) or not record.state_ids:
        return frozenset()
    return _strings(record.state_ids.get(str(operator)))


def _committed_operators(logs: Logs) -> int:
    """How many operators the newest commit names; 0 in checkpoint format 1, where it names none."""
    record = logs.commits.get(-1 if logs.committed is None else logs.committed)
    named = record.state_ids if isinstance(record, CommitRecord) else {}
    return 1 + max((int(each) for each in named if each.isdigit()), default=-1)


def _strings(value: object) -> frozenset[str]:
    """Every string in nested lists."""
    if isinstance(value, str):
        return frozenset((value,))
    if isinstance(value, list):
        return frozenset().union(*(_strings(each) for each in value))
    return frozenset()


def _no_metadata(path: str, what: str, error_class: str | None = None) -> Damage:
    """An operator with column families finds its schema through its metadata."""
    return Damage(
        path=path,
        what=what,
        consequence=Consequence.REFUSES,
        spark=f"Spark refuses to start{f' ({error_class})' if error_class else ''}.",
        next_step=RESTORE,
        error_class=error_class,
    )


def _unread(path: str, what: str) -> Damage:
    return Damage(
        path=path,
        what=what,
        consequence=Consequence.RECOVERS,
        spark="Spark starts and writes it anew; a change of operators goes unnoticed once.",
        next_step="nothing: start the stream",
    )
