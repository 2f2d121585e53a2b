"""The offset log and the commit log of a checkpoint: the truth about which batches were planned and committed."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    Damaged,
    LogFile,
    batch_ids,
    is_number,
    is_partition,
    list_or_empty,
    parse_json,
    parse_object,
    read_bytes,
    read_log_file,
    require_version,
)
from streamwarden.checkpoint.spark_version import COMMIT_LOG, OFFSET_LOG
from streamwarden.errors import CheckpointError, InputGone

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_COUNT: Final = re.compile(r"[1-9][0-9]{0,9}")
_T = TypeVar("_T")
_UUID_LENGTH: Final = 36
_EXCHANGE: Final = "exchange"
_UUID_PART: Final = re.compile(r"\+?[0-9a-fA-F]{1,16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """The position of a query. A batch is planned when `offsets/N` exists and committed when `commits/N` does.

    Times are the files' modification times, Unix seconds; None if there is no such file.
    """

    query_id: str | None
    planned: int | None
    planned_at: float | None
    committed: int | None
    committed_at: float | None

    @property
    def gap(self) -> int:
        """Number of planned batches that are not committed: 0 between batches, 1 while one is running."""
        planned = -1 if self.planned is None else self.planned
        committed = -1 if self.committed is None else self.committed
        return planned - committed


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRecord:
    """`offsets/N`: what batch N reads, decided before it runs.

    Args:
        version: format of the offset log.
        watermark_ms: event-time watermark in force in the batch, Unix milliseconds; 0 before the first event.
        timestamp_ms: when the batch was planned, Unix milliseconds.
        conf: settings that Spark fixed in the checkpoint (`spark.sql.shuffle.partitions`, …).
        sources: end offset of each source in the order of the query: JSON, text, or None for a source without one.
        source_ids: names of the sources, in the same order; their positions in the older format.
    """

    batch: int
    version: int
    watermark_ms: int
    timestamp_ms: int
    conf: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[Any, ...] = ()
    source_ids: tuple[str, ...] = ()

    @property
    def shuffle_partitions(self) -> int | None:
        """Partitions of the state, as the checkpoint fixed them; None in a log too old to say."""
        text = self.conf.get(SHUFFLE_PARTITIONS, "")
        return int(text) if _COUNT.fullmatch(text) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """`commits/N`: batch N is done.

    Args:
        next_watermark_ms: watermark for the batch after it, Unix milliseconds.
        state_ids: checkpoint format 2: operator -> per partition, per store, the unique id of the committed state.
    """

    batch: int
    version: int
    next_watermark_ms: int
    state_ids: Mapping[str, Any] = field(default_factory=dict)


def log_position(checkpoint: Location) -> LogPosition:
    """The position of the checkpoint's query: two listings and two stats, safe while the query runs.

    All fields are None for a checkpoint that does not exist yet. The commit log is listed first, so that the gap of a
    running query is never too small. Raises CheckpointError if the storage cannot be read.
    """
    try:
        committed = max(batch_ids(list_or_empty(checkpoint / COMMITS)), default=None)
        planned = max(batch_ids(list_or_empty(checkpoint / OFFSETS)), default=None)
        return LogPosition(
            query_id=read_query_id(checkpoint),
            planned=planned,
            planned_at=written_at(checkpoint, OFFSETS, planned),
            committed=committed,
            committed_at=written_at(checkpoint, COMMITS, committed),
        )
    except OSError as error:
        raise unreadable(checkpoint, error) from error


def planned_times(checkpoint: Location) -> dict[int, float | None]:
    """Batch -> when `offsets/N` was written, for every batch still in the log, ascending. Unix seconds."""
    return _times(checkpoint / OFFSETS)


def committed_times(checkpoint: Location) -> dict[int, float | None]:
    """Batch -> when `commits/N` was written, for every batch still in the log, ascending. Unix seconds."""
    return _times(checkpoint / COMMITS)


def offsets(checkpoint: Location, batch: int) -> OffsetRecord:
    """`offsets/N`. Raises CheckpointError if it is missing or damaged."""
    return _record(checkpoint / OFFSETS, batch, parse_offsets)


def commit(checkpoint: Location, batch: int) -> CommitRecord:
    """`commits/N`. Raises CheckpointError if it is missing or damaged."""
    return _record(checkpoint / COMMITS, batch, parse_commit)


def _record(log: Location, batch: int, parse: Callable[[int, LogFile], _T]) -> _T:
    where = log / str(batch)
    try:
        return parse(batch, read_log_file(where))
    except (OSError, Damaged) as error:
        raise CheckpointError(
            "the file is missing" if isinstance(error, FileNotFoundError) else str(error),
            expected="a complete log file as Spark writes it",
            where=where.path,
            next_step="run `streamwarden inspect` on the checkpoint: it says what Spark will do about it",
        ) from error


def all_offsets(checkpoint: Location) -> dict[int, OffsetRecord]:
    """Every readable `offsets/N` still in the log, ascending. One that is purged meanwhile or damaged is left out."""
    records = {}
    for batch in batch_ids(list_or_empty(checkpoint / OFFSETS)):
        try:
            records[batch] = parse_offsets(batch, read_log_file(checkpoint / OFFSETS / str(batch)))
        except (FileNotFoundError, Damaged):
            continue
    return records


def first_known_batch(checkpoint: Location) -> int | None:
    """The first batch whose input the offset log still records, which takes its predecessor's file too.

    None if the log is empty. Raises OSError.
    """
    kept = batch_ids(list_or_empty(checkpoint / OFFSETS))
    return (kept[0] + 1 if kept[0] else 0) if kept else None


def require_range(checkpoint: Location, batch: int) -> None:
    """Raises InputGone if the offset log no longer records what `batch` read, CheckpointError if it is damaged."""
    kept = all_offsets(checkpoint)
    wanted = [number for number in (batch - 1, batch) if number >= 0]
    if all(number in kept for number in wanted):
        return
    expected = " and ".join(f"{OFFSETS}/{number}" for number in wanted)
    if kept and wanted[0] < min(kept):
        raise InputGone(
            f"the record of what batch {batch} read has been purged: the offset log begins at {min(kept)}",
            expected=expected,
            where=checkpoint.path,
            next_step="nothing can be done for this batch; raise spark.sql.streaming.minBatchesToRetain",
        )
    raise CheckpointError(
        f"the offset log does not say what batch {batch} read",
        expected=expected,
        where=checkpoint.path,
        next_step="run `streamwarden inspect` on the checkpoint: it says what Spark will do about it",
    )


def watermarks(checkpoint: Location) -> dict[int, int]:
    """Batch -> watermark in force in it, Unix milliseconds, for every batch still in the offset log."""
    return {batch: record.watermark_ms for batch, record in all_offsets(checkpoint).items()}


def read_query_id(checkpoint: Location) -> str | None:
    """The query's id; None if `metadata` is missing or damaged."""
    try:
        return parse_query_id(read_bytes(checkpoint / METADATA))
    except (FileNotFoundError, NotADirectoryError, Damaged):
        return None


class BeingExchanged(Damaged):
    """The metadata names the journal of an exchange in an object store, which was interrupted, instead of a query."""


def closed_by(journal: str) -> bytes:
    """The content of `metadata` while a checkpoint is exchanged in a store: Spark refuses one without an id."""
    return json.dumps({_EXCHANGE: journal}).encode()


def parse_query_id(content: bytes) -> str:
    """The id in the content of `metadata`. Raises Damaged."""
    if not content.strip():
        raise Damaged("the file is empty")
    body = parse_object(content.decode("utf-8", errors="replace"))
    if _EXCHANGE in body:
        raise BeingExchanged(f"an exchange of the checkpoint was interrupted: {body[_EXCHANGE]}")
    value = body.get("id")
    if not isinstance(value, str) or not value:
        raise Damaged("it contains no id")
    return value


def require_uuid(query_id: str) -> None:
    """Raises Damaged for an id that Java's `UUID.fromString` refuses: five hexadecimal numbers, shortened or not."""
    parts = query_id.split("-")
    numbers = all(_UUID_PART.fullmatch(part) and int(part, 16) < 1 << 63 for part in parts)
    if len(parts) != 5 or len(query_id) > _UUID_LENGTH or not numbers:
        raise Damaged(f"the id {query_id[:40]!r} is not a UUID")


def parse_offsets(batch: int, log: LogFile) -> OffsetRecord:
    """Raises Damaged if it is cut off: Spark writes the metadata line first, then one line a source."""
    require_version(log, OFFSET_LOG)
    if not log.lines:
        raise Damaged("there is nothing after the version line")
    head = parse_object(log.lines[0])
    ids, values = _sources(log.version, log.lines[1:])
    if not ids:
        raise Damaged("it contains no source offset")
    conf = head.get("conf", {})
    if not isinstance(conf, dict):
        raise Damaged("its `conf` is not an object")
    return OffsetRecord(
        batch=batch,
        version=log.version,
        watermark_ms=_count(head, "batchWatermarkMs"),
        timestamp_ms=_count(head, "batchTimestampMs"),
        conf={str(key): str(value) for key, value in conf.items()},
        sources=values,
        source_ids=ids,
    )


def parse_commit(batch: int, log: LogFile) -> CommitRecord:
    """Raises Damaged if it is cut off. Spark before 2.4 wrote `{}`; a version line alone means the same to Spark."""
    require_version(log, COMMIT_LOG)
    body = parse_object(log.lines[0]) if log.lines else {}
    state_ids = body.get("stateUniqueIds") if log.version > 1 else None
    if state_ids is not None and not _is_ids(state_ids):
        raise Damaged("its `stateUniqueIds` are not lists of ids for each operator")
    return CommitRecord(
        batch=batch,
        version=log.version,
        next_watermark_ms=_count(body, "nextBatchWatermarkMs"),
        state_ids=state_ids or {},
    )


def with_state_ids(text: str, ids: Mapping[str, Any]) -> str:
    """The text of a commit of checkpoint format 2, with the unique ids of another state after its batch."""
    version, _, body = text.partition("\n")
    return f"{version}\n{json.dumps({**json.loads(body), 'stateUniqueIds': ids}, separators=(',', ':'))}"


def written_at(checkpoint: Location, log: str, batch: int | None) -> float | None:
    """Time at which the file of `batch` was written; None if it does not exist (any more)."""
    if batch is None:
        return None
    try:
        return (checkpoint / log / str(batch)).stat().modified
    except FileNotFoundError:
        return None


def unreadable(where: Location, error: OSError) -> CheckpointError:
    """The error for storage that cannot be read."""
    return CheckpointError(
        f"the checkpoint cannot be read: {error.strerror or error}",
        expected="a folder that this user may list and read",
        where=error.filename if isinstance(error.filename, str) else where.path,
        next_step="check the path, its permissions and, for remote storage, the credentials",
    )


def _times(log: Location) -> dict[int, float | None]:
    try:
        entries = {entry.name: entry for entry in log.entries()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise unreadable(log, error) from error
    return {batch: entries[str(batch)].modified for batch in batch_ids(entries)}


def _sources(version: int, lines: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Names and offsets. Format 1 is one offset a line; format 2 puts `NAME:` before it. Raises Damaged."""
    if version < 2:
        return tuple(str(index) for index in range(len(lines))), tuple(_offset(line) for line in lines)
    if not all(":" in line for line in lines):
        raise Damaged("an offset has no source name before it")
    pairs = [line.partition(":") for line in lines]
    return tuple(name for name, _, _ in pairs), tuple(_offset(text) for _, _, text in pairs)


def _offset(line: str) -> Any:
    """A source's offset: JSON for most sources; `-` means none. Raises Damaged."""
    text = line.strip()
    if not text:
        raise Damaged("an offset is an empty line")
    if text == "-":
        return None
    if text[:1] in ("{", "["):
        return parse_json(text)
    try:
        return int(text)
    except ValueError:
        return text


def _is_ids(value: Any) -> bool:
    """Operator -> partition -> store -> id."""
    return isinstance(value, dict) and all(
        is_partition(operator) and isinstance(partitions, list) and all(_is_strings(ids) for ids in partitions)
        for operator, partitions in value.items()
    )


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _count(body: Mapping[str, Any], key: str) -> int:
    value = body.get(key, 0)
    if not is_number(value) or not -(2**63) <= value < 2**63:
        raise Damaged(f"{key} is {str(value)[:40]!r}, not a number")
    return value
