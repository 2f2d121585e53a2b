"""Finds missing and damaged files under `state/`, with their consequence in Spark.

Only files that the next start reads are opened; `loading` determines them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from streamwarden.checkpoint.diagnosis.damage import (
    RESTORE,
    Consequence,
    Damage,
    fails_first_batch,
    recovers,
    refuses_start,
)
from streamwarden.checkpoint.diagnosis.loading import diagnose_load
from streamwarden.checkpoint.diagnosis.logs import Logs
from streamwarden.checkpoint.diagnosis.operator_names import infer_name
from streamwarden.checkpoint.diagnosis.partitions import (
    diagnose_layout,
    expected_layout,
    missing_class,
    of_provider,
)
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import (
    COMMITS,
    SINK_LOG,
    STATE,
    Damaged,
    batch_ids,
    list_or_empty,
    read_bytes,
)
from streamwarden.checkpoint.formats.logs import CommitRecord, OffsetRecord
from streamwarden.checkpoint.formats.operators import (
    Foreign,
    OperatorMetadata,
    operator_metadata_path,
    read_operator_metadata,
)
from streamwarden.checkpoint.formats.schemas import FAMILIES, StateSchema, parse_schema, schema_paths
from streamwarden.checkpoint.formats.state import StateStore
from streamwarden.checkpoint.spark_version import STATEFUL_OPERATORS

_MISSING_STATE: Final = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
"""Spark's class if `state/` is empty or missing."""
_PROCESSOR: Final = "transformWithState"
_NO_METADATA: Final = "STDS_FAILED_TO_READ_OPERATOR_METADATA"
_OTHER_OPERATOR: Final = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
_WRITES_OPERATORS: Final = "spark.sql.streaming.stateStore.encodingFormat"
"""A setting in the offset log since Spark 4.0, the first version that writes metadata of every operator."""


def operators_of(
    checkpoint: Location, stores: Sequence[StateStore], logs: Logs
) -> tuple[dict[int, OperatorMetadata], list[Damage]]:
    """The metadata of each operator that has some, and its damages."""
    metadata: dict[int, OperatorMetadata] = {}
    damages = []
    latest = logs.latest_offsets()
    numbers = sorted({store.operator for store in stores})
    complete = numbers == list(range(len(numbers)))  # else a folder is missing, and Spark fails before it compares
    for operator in numbers:
        where = operator_metadata_path(checkpoint, operator)
        if where is None:
            folder = join(STATE, str(operator), "_metadata")
            if list_or_empty(checkpoint / STATE / str(operator) / FAMILIES):
                damages.append(refuses_start(folder, "the operator's metadata is missing", RESTORE, _NO_METADATA))
            elif latest is not None and _WRITES_OPERATORS in latest.conf:
                damages.append(_unread(folder, "the operator's metadata is missing"))
            continue
        try:
            metadata[operator] = read_operator_metadata(checkpoint, operator, where)
        except Foreign as error:
            damages += [refuses_start(where, str(error), RESTORE, _OTHER_OPERATOR)] if complete else []
        except Damaged as error:
            second = "/_metadata/v2/" in where
            damages.append(refuses_start(where, str(error)) if second else _unread(where, str(error)))
    return metadata, damages


def diagnose_state(
    checkpoint: Location,
    stores: Sequence[StateStore],
    operators: Mapping[int, OperatorMetadata],
    schemas: Mapping[int, Sequence[StateSchema]],
    logs: Logs,
) -> Iterator[Damage]:
    """Every damage under `state/` that affects the next start."""
    version, latest = logs.state_version, logs.latest_offsets()
    if version == 0 or latest is None:
        return
    if not stores:
        empty = batch_ids(list_or_empty(checkpoint / STATE))
        if empty:
            yield fails_first_batch(join(STATE, str(empty[0])), "the operator has no state", missing_class(latest))
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
    records = {batch: record.sources for batch, record in logs.offsets.items() if isinstance(record, OffsetRecord)}
    if any(records.get(batch - 1) == sources for batch, sources in records.items()):
        return fails_first_batch(STATE, f"{what} and ran batches without new data", _MISSING_STATE)
    spark = f"A query without stateful operators needs none; a stateful one refuses to start ({_MISSING_STATE})."
    return Damage(STATE, what, Consequence.HARMLESS, spark, f"nothing, if the query keeps no state; else {RESTORE}")


def second_format(stores: Sequence[StateStore]) -> bool:
    """Whether the checkpoint has format 2: its state files carry unique ids."""
    return any(file.unique_id for store in stores for file in store.files)


def _never_committed(batch: int) -> Damage:
    """A driver was killed between the sink's manifest and the commit. A checkpoint of format 2 cannot continue from
    there: the sink skips the batch, so Spark loads no state, and the commit has no state ids to name."""
    return Damage(
        join(COMMITS, str(batch)),
        "the file is missing, while the sink's manifest lists the batch; the checkpoint has format 2",
        Consequence.REFUSES,
        "Spark fails at each start (assertion failed: CheckpointInfo length: 0).",
        f"move {SINK_LOG}/{batch} and its checksum file out of the output: the batch runs again; "
        f"if it is {batch}.compact, {RESTORE}",
    )


def diagnose_schemas(
    checkpoint: Location, stores: Sequence[StateStore], operators: Mapping[int, OperatorMetadata]
) -> tuple[dict[int, tuple[StateSchema, ...]], list[Damage]]:
    """Operator -> the schemas of its stores; and their damages. Spark checks the schemas at every start.

    Spark writes a missing schema again, except that of transformWithState.
    """
    schemas_of: dict[int, tuple[StateSchema, ...]] = {}
    damages = []
    for operator in sorted({store.operator for store in stores}):
        own = [store for store in stores if store.operator == operator]
        schemas = []
        for name, where in sorted(schema_paths(checkpoint, own, operators.get(operator)).items()):
            try:
                schema = parse_schema(name, where, read_bytes(checkpoint / where))
                kinds = operators[operator].variables if operator in operators else {}
                families = tuple(replace(family, kind=kinds.get(family.name)) for family in schema.families)
                schemas.append(replace(schema, families=families))
            except Damaged as error:
                damages.append(_broken_schema(where, str(error), operators.get(operator)))
        schemas_of[operator] = tuple(schemas)
        if operator in operators:
            damages += _lost_schema(checkpoint, operators[operator])
            damages += _other_name(checkpoint, operators[operator], own, schemas)
    return schemas_of, damages


def _other_name(
    checkpoint: Location, metadata: OperatorMetadata, stores: Sequence[StateStore], schemas: Sequence[StateSchema]
) -> Iterator[Damage]:
    """A name that Spark does not use, while the schema says which operator it is."""
    inferred = infer_name([store.name for store in stores], schemas)
    if inferred is not None and metadata.name not in STATEFUL_OPERATORS:
        where = operator_metadata_path(checkpoint, metadata.operator) or join(STATE, str(metadata.operator))
        yield refuses_start(where, f"it names the operator {metadata.name[:40]!r}", RESTORE, _OTHER_OPERATOR)


def _lost_schema(checkpoint: Location, metadata: OperatorMetadata) -> Iterator[Damage]:
    """A schema of format 3 that the operator's metadata names and that is missing."""
    if not metadata.schema_files:
        return
    newest = metadata.schema_files[-1]
    folder = join(STATE, str(metadata.operator), FAMILIES)
    if any(newest in list_or_empty(checkpoint / folder / store) for store in metadata.stores):
        return
    path, what = join(folder, metadata.stores[0], newest), "the state's schema is missing"
    if metadata.name.startswith(_PROCESSOR):
        yield refuses_start(path, what)
    else:
        yield recovers(path, what, "Spark starts and writes it again, unchecked against the state.")


def _broken_schema(where: str, what: str, metadata: OperatorMetadata | None) -> Damage:
    needed = metadata is not None and metadata.name.startswith(_PROCESSOR)
    remove = f"{RESTORE}, or remove it: Spark writes it again, unchecked against the state"
    return refuses_start(where, what, RESTORE if needed else remove)


def _committed_ids(logs: Logs, version: int, operator: int) -> frozenset[str]:
    """Checkpoint format 2: of several attempts at the newest version only the one that the commit names counts."""
    record = logs.commits.get(version - 1)
    if not isinstance(record, CommitRecord) or not record.state_ids:
        return frozenset()
    return _strings(record.state_ids.get(str(operator)))


def _committed_operators(logs: Logs) -> int:
    """Number of operators that the newest commit names; 0 in checkpoint format 1, where it names none."""
    record = logs.commits.get(-1 if logs.committed is None else logs.committed)
    named = record.state_ids if isinstance(record, CommitRecord) else {}
    return 1 + max((int(operator) for operator in named), default=-1)


def _strings(value: object) -> frozenset[str]:
    """Every string in nested lists."""
    if isinstance(value, str):
        return frozenset((value,))
    if isinstance(value, list):
        return frozenset().union(*(_strings(item) for item in value))
    return frozenset()


def _unread(path: str, what: str) -> Damage:
    return recovers(path, what, "Spark starts and writes it again; a change of operators goes unnoticed once.")
