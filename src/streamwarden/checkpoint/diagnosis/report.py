"""The checkpoint inspector: everything that a checkpoint contains, in one report, without Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from streamwarden.checkpoint.compact_logs import CompactLog, compact_logs
from streamwarden.checkpoint.diagnosis.damage import Consequence, Damage, worst
from streamwarden.checkpoint.diagnosis.folder import require_checkpoint
from streamwarden.checkpoint.diagnosis.logs import (
    Logs,
    diagnose_folders,
    diagnose_logs,
    diagnose_metadata,
    diagnose_orphans,
    read_logs,
)
from streamwarden.checkpoint.diagnosis.operator_names import infer_name
from streamwarden.checkpoint.diagnosis.partitions import missing_class, provider_name
from streamwarden.checkpoint.diagnosis.sink import diagnose_sink
from streamwarden.checkpoint.diagnosis.sources import diagnose_sources
from streamwarden.checkpoint.diagnosis.state import diagnose_schemas, diagnose_state, operators_of, second_format
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import COMMITS, OFFSETS, SINK_LOG, batch_ids, list_or_empty
from streamwarden.checkpoint.formats.logs import (
    CommitRecord,
    LogPosition,
    OffsetRecord,
    committed_times,
    log_position,
    planned_times,
    read_query_id,
    unreadable,
)
from streamwarden.checkpoint.formats.operators import OperatorMetadata
from streamwarden.checkpoint.formats.schemas import StateSchema
from streamwarden.checkpoint.formats.sink import SinkManifest, last_settled, newest_entry, read_sink_manifest
from streamwarden.checkpoint.formats.sources import file_source_log, log_offset
from streamwarden.checkpoint.formats.state import ReplayDebt, StateStore, state_stores
from streamwarden.checkpoint.offset_texts import describe_offset
from streamwarden.errors import CheckpointError

LAST_BATCHES: Final = 5
_ATTEMPTS: Final = 4
"""A running query purges files while it is read: if it has moved on, an apparent damage is read again."""
_COPIED: Final = 600.0
"""Seconds by which `offsets/N` may be younger than the plan in it. Beyond it the file was copied, and the times of
the commits, which hold none themselves, say nothing either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """One batch of the logs. Times are Unix seconds; `watermark_ms` Unix milliseconds, None before any event.

    Args:
        planned_at: as `offsets/N` says; the file's time if it cannot be read.
        committed_at: the file's time, None if the logs were copied: nothing else says when a batch was committed.
        sources: one text a source: what the batch read up to.
    """

    batch: int
    planned_at: float | None
    committed_at: float | None
    watermark_ms: int | None
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport:
    """One store of one partition: bytes on disk, versions kept, and what a restart would replay."""

    operator: int
    partition: int
    store: str
    bytes: int
    snapshots: tuple[int, ...]
    changelogs: tuple[int, ...]
    replay: ReplayDebt


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorReport:
    """One stateful operator. Sizes in bytes.

    Args:
        operator: its number; Spark numbers the operators from the sink towards the sources.
        name: Spark's; None if neither metadata nor a schema can be read.
        inferred: whether the name was inferred from the schema, as the checkpoint (older than Spark 4) has none.
        schemas: what each store keeps, by name; a store whose schema is missing or damaged is left out.
    """

    operator: int
    name: str | None
    partitions: int
    stores: tuple[str, ...]
    bytes: int
    bytes_by_partition: Mapping[int, int]
    schemas: tuple[StateSchema, ...] = ()
    inferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """State of a query as its checkpoint shows it.

    Args:
        position: query id, newest planned and newest committed batch with their times; `gap` between them.
        retained: first and last batch still in the offset log.
        batches: the last few, newest last.
        watermark_ms: watermark for the next batch, Unix milliseconds; None before any event.
        conf: settings that the checkpoint has fixed; a query that continues it keeps them whatever its own say.
        provider: state store provider, short name; shuffle_partitions: as fixed.
        formats: log or file -> format version; `checkpoint`: 2 if state files carry unique ids.
        sink_newest: newest batch in the sink's manifest; None if no output was given or it has no manifest.
        logs: what Spark compacts: how large, and when next.
        findings: what is missing or damaged, gravest first.
    """

    path: str
    output: str | None
    position: LogPosition
    retained: tuple[int, int] | None
    batches: tuple[BatchReport, ...]
    watermark_ms: int | None
    conf: Mapping[str, str]
    provider: str | None
    shuffle_partitions: int | None
    operators: tuple[OperatorReport, ...]
    stores: tuple[StoreReport, ...]
    formats: Mapping[str, str] = field(default_factory=dict)
    sink_newest: int | None = None
    logs: tuple[CompactLog, ...] = ()
    findings: tuple[Damage, ...] = ()

    @property
    def state_bytes(self) -> int:
        return sum(operator.bytes for operator in self.operators)

    @property
    def worst(self) -> Consequence | None:
        """The gravest consequence of all findings; None: nothing is wrong."""
        return worst(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON: numbers, text, lists and objects."""
        values = asdict(self)
        replays = [
            {
                "last_snapshot": store.replay.snapshot,
                "newest_version": store.replay.newest,
                "versions_since": store.replay.versions,
                "changelog_bytes_since": store.replay.changelog_bytes,
            }
            for store in self.stores
        ]
        return {
            **values.pop("position"),
            "gap": self.position.gap,
            "retained_batches": values.pop("retained"),
            "state_bytes": self.state_bytes,
            "worst": self.worst,
            **values,
            "stores": [store | {"replay": replay} for store, replay in zip(values["stores"], replays, strict=True)],
        }


def read_checkpoint(checkpoint: Location, *, output: Location | None = None) -> CheckpointReport:
    """Read a checkpoint, also while its query runs; writes nothing.

    Args:
        output: folder of the query's parquet sink: its manifest is checked too.

    Raises CheckpointError if it is not a checkpoint or cannot be read. A damage inside is reported, never raised.
    """
    checkpoint = replace(checkpoint, verified=True)
    output = None if output is None else replace(output, verified=True)
    try:
        require_checkpoint(checkpoint)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                report = _read(checkpoint, output)
            except FileNotFoundError:  # purged between listing and reading
                if attempt == _ATTEMPTS:
                    raise
                continue
            if not report.findings or _same_batch(log_position(checkpoint), report.position):
                break
        return report
    except OSError as error:
        raise unreadable(checkpoint, error) from error


def _read(checkpoint: Location, output: Location | None) -> CheckpointReport:
    """Read once. What Spark writes first is listed last, so that a running query never seems to lack a file."""
    commit_ids = batch_ids(list_or_empty(checkpoint / COMMITS))
    written = None if output is None else newest_entry(output)
    offset_ids = batch_ids(list_or_empty(checkpoint / OFFSETS))
    logs = read_logs(checkpoint, commit_ids, offset_ids, written)
    stores = state_stores(checkpoint)
    manifest = None if output is None else read_sink_manifest(output, _settled(logs, stores), strict=True)
    latest = logs.latest_offsets()
    operators, findings = operators_of(checkpoint, stores, logs)
    schemas, wrong = diagnose_schemas(checkpoint, stores, operators)
    no_state = missing_class(latest) if latest is not None and stores else None
    findings += [
        *(wrong if logs.state_version else ()),
        *diagnose_folders(checkpoint),
        *diagnose_metadata(checkpoint, logs),
        *diagnose_logs(logs, _executed(logs, stores)),
        *diagnose_orphans(checkpoint, logs),
        *diagnose_sources(checkpoint, logs),
        *diagnose_state(checkpoint, stores, operators, schemas, logs),
        *(diagnose_sink(output, manifest, logs, no_state) if output is not None else ()),
    ]
    order = list(Consequence)
    planned_at, committed_at = _times(checkpoint, logs)
    conf = dict(latest.conf) if latest else {}
    return CheckpointReport(
        path=checkpoint.path,
        output=output.path if output is not None else None,
        position=LogPosition(
            query_id=read_query_id(checkpoint),
            planned=logs.planned,
            planned_at=planned_at.get(-1 if logs.planned is None else logs.planned),
            committed=logs.committed,
            committed_at=committed_at.get(-1 if logs.committed is None else logs.committed),
        ),
        retained=(offset_ids[0], offset_ids[-1]) if offset_ids else None,
        batches=_batches(checkpoint, logs, planned_at, committed_at),
        watermark_ms=_watermark(logs),
        conf=conf,
        provider=provider_name(latest) if latest else None,
        shuffle_partitions=latest.shuffle_partitions if latest else None,
        operators=_operators(stores, operators, schemas),
        stores=_stores(stores),
        formats=_formats(logs, operators, manifest),
        sink_newest=manifest.newest if manifest else None,
        logs=compact_logs(checkpoint, output, exact=True),
        findings=tuple(sorted(findings, key=lambda finding: (-order.index(finding.consequence), finding.path))),
    )


def _settled(logs: Logs, stores: Sequence[StateStore]) -> int:
    """The newest batch that needs a whole entry in the manifest. In checkpoint format 2 Spark never commits a batch
    that the manifest lists (that is a damage), so only committed batches count."""
    written = None if second_format(stores) else logs.written
    return last_settled(logs.planned, logs.committed, written)


def _executed(logs: Logs, stores: Sequence[StateStore]) -> int | None:
    """The newest batch that left something in the state or in the manifest; None if there is neither."""
    batches = [store.newest - 1 for store in stores] + ([] if logs.written is None else [logs.written])
    return max(batches, default=None)


def _times(checkpoint: Location, logs: Logs) -> tuple[dict[int, float | None], dict[int, float | None]]:
    """Times at which each batch was planned and committed, Unix seconds."""
    planned_at, committed_at = planned_times(checkpoint), committed_times(checkpoint)
    for batch, record in logs.offsets.items():
        if isinstance(record, OffsetRecord) and record.timestamp_ms:
            modified, planned = planned_at.get(batch), record.timestamp_ms / 1000
            planned_at[batch] = planned
            if batch in committed_at and modified is not None and modified - planned > _COPIED:
                committed_at[batch] = None
    return planned_at, committed_at


def _same_batch(one: LogPosition, other: LogPosition) -> bool:
    return (one.planned, one.committed) == (other.planned, other.committed)


def _batches(
    checkpoint: Location,
    logs: Logs,
    planned_at: Mapping[int, float | None],
    committed_at: Mapping[int, float | None],
) -> tuple[BatchReport, ...]:
    files = _files_read(checkpoint, logs)
    reports = []
    for batch in sorted(logs.offsets)[-LAST_BATCHES:]:
        record = logs.offsets[batch]
        words: tuple[str, ...] = ("cannot be read",)
        watermark = None
        if isinstance(record, OffsetRecord):
            words = tuple(
                describe_offset(value, files.get(source, {}).get(batch)) for source, value in enumerate(record.sources)
            )
            watermark = record.watermark_ms or None
        reports.append(
            BatchReport(
                batch=batch,
                planned_at=planned_at.get(batch),
                committed_at=committed_at.get(batch),
                watermark_ms=watermark,
                sources=words,
            )
        )
    return tuple(reports)


def _files_read(checkpoint: Location, logs: Logs) -> dict[int, dict[int, int]]:
    """Source -> batch -> number of files. A source whose log is damaged has none: that is reported elsewhere."""
    latest = logs.latest_offsets()
    counts: dict[int, dict[int, int]] = {}
    for source, value in enumerate(latest.sources if latest else ()):
        if log_offset(value) is None:
            continue
        try:
            read = file_source_log(checkpoint, source)
        except CheckpointError:
            continue
        counts[source] = {batch: len(files) for batch, files in read.items()}
    return counts


def _watermark(logs: Logs) -> int | None:
    """The commit log says what the next batch will have; a query that never committed has that of its first batch."""
    marks = [record.next_watermark_ms for record in logs.commits.values() if isinstance(record, CommitRecord)]
    marks += [record.watermark_ms for record in logs.offsets.values() if isinstance(record, OffsetRecord)]
    return max(marks, default=0) or None


def _operators(
    stores: Sequence[StateStore],
    metadata: Mapping[int, OperatorMetadata],
    schemas: Mapping[int, tuple[StateSchema, ...]],
) -> tuple[OperatorReport, ...]:
    reports = []
    for operator in sorted({store.operator for store in stores}):
        own = [store for store in stores if store.operator == operator]
        by_partition: dict[int, int] = {}
        for store in own:
            by_partition[store.partition] = by_partition.get(store.partition, 0) + store.bytes
        names, own_schemas = tuple(sorted({store.name for store in own})), schemas.get(operator, ())
        reports.append(
            OperatorReport(
                operator=operator,
                name=metadata[operator].name if operator in metadata else infer_name(names, own_schemas),
                inferred=operator not in metadata,
                partitions=len(by_partition),
                stores=names,
                bytes=sum(by_partition.values()),
                bytes_by_partition=by_partition,
                schemas=own_schemas,
            )
        )
    return tuple(reports)


def _stores(stores: Sequence[StateStore]) -> tuple[StoreReport, ...]:
    return tuple(
        StoreReport(
            operator=store.operator,
            partition=store.partition,
            store=store.name,
            bytes=store.bytes,
            snapshots=store.snapshots,
            changelogs=store.changelogs,
            replay=store.replay,
        )
        for store in stores
    )


def _formats(logs: Logs, operators: Mapping[int, OperatorMetadata], manifest: SinkManifest | None) -> dict[str, str]:
    offsets, commits = logs.latest_offsets(), None
    for batch in sorted(logs.commits):
        record = logs.commits[batch]
        commits = record if isinstance(record, CommitRecord) else commits
    formats = {}
    if offsets is not None:
        formats[OFFSETS] = f"v{offsets.version}"
    if commits is not None:
        formats[COMMITS] = f"v{commits.version}"
        formats["checkpoint"] = "2" if commits.state_ids else "1"
    for operator, metadata in operators.items():
        formats[join("state", str(operator), "_metadata")] = f"v{metadata.version}"
    if manifest is not None and manifest.entries:
        formats[SINK_LOG] = f"v{manifest.entries[-1].version}"
    return formats
