"""Finds missing and damaged files of `metadata` and the logs of batches, with their consequence in Spark.

To start, Spark needs `metadata`, the newest `offsets/P` and the one before it, the newest `commits/C`, and the log of
each file source from its last compact file on. Everything older is only kept for a rewind.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from streamwarden.checkpoint.diagnosis.damage import (
    RESTORE,
    Consequence,
    Damage,
    missing_files,
    not_read,
    recovers,
    refuses_start,
)
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.compaction import orphan_checksums
from streamwarden.checkpoint.formats.layout import (
    COMMITS,
    METADATA,
    MOST_BATCHES,
    OFFSETS,
    SOURCES,
    STATE,
    Damaged,
    LogFile,
    gaps,
    list_or_empty,
    read_bytes,
    read_log_file,
)
from streamwarden.checkpoint.formats.logs import (
    BeingExchanged,
    CommitRecord,
    OffsetRecord,
    parse_commit,
    parse_offsets,
    parse_query_id,
    require_uuid,
)

_CONCURRENT: Final = "CONCURRENT_STREAM_LOG_UPDATE"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Logs:
    """Both logs: batch -> its record, or a text that says why the record cannot be read. `written`: newest batch in the
    manifest of the file sink; None if there is no such sink, or it is unknown."""

    offsets: Mapping[int, OffsetRecord | str] = field(default_factory=dict)
    commits: Mapping[int, CommitRecord | str] = field(default_factory=dict)
    written: int | None = None

    @property
    def planned(self) -> int | None:
        return max(self.offsets, default=None)

    @property
    def committed(self) -> int | None:
        return max(self.commits, default=None)

    def latest_offsets(self) -> OffsetRecord | None:
        """The newest record that can be read."""
        return next((self._good(batch) for batch in sorted(self.offsets, reverse=True) if self._good(batch)), None)

    @property
    def skipped(self) -> bool:
        """Whether Spark will only commit the newest batch, because the sink skips a batch that its manifest lists."""
        planned, committed = self.planned, -1 if self.committed is None else self.committed
        return planned is not None and committed < planned and self.written is not None and self.written >= planned

    @property
    def runs_again(self) -> bool:
        """Whether the newest batch is planned and not committed, and Spark executes it (again)."""
        planned, committed = self.planned, -1 if self.committed is None else self.committed
        return planned is not None and committed < planned and not self.skipped

    @property
    def state_version(self) -> int:
        """The state version that Spark loads next: P if batch P has to run (again), else P+1 (committed or skipped)."""
        if self.planned is None:
            return 0
        return self.planned if self.runs_again else self.planned + 1

    def _good(self, batch: int) -> OffsetRecord | None:
        record = self.offsets[batch]
        return record if isinstance(record, OffsetRecord) else None


def read_logs(checkpoint: Location, commits: Sequence[int], offsets: Sequence[int], written: int | None = None) -> Logs:
    """Read the newest `MOST_BATCHES` of both logs. A file that was purged since it was listed is left out; every damage
    is kept as a text."""
    return Logs(
        _read_all(checkpoint / OFFSETS, offsets[-MOST_BATCHES:], parse_offsets),
        _read_all(checkpoint / COMMITS, commits[-MOST_BATCHES:], parse_commit),
        written,
    )


def diagnose_metadata(checkpoint: Location, logs: Logs) -> Iterator[Damage]:
    """`metadata`: without it Spark refuses to continue what is there."""
    new_id = 'write {"id": "<a new UUID>"} into it (a sink that remembers the query id treats it as a new query)'
    try:
        require_uuid(parse_query_id(read_bytes(checkpoint / METADATA)))
    except FileNotFoundError:
        if logs.offsets or logs.commits:
            yield refuses_start(
                METADATA,
                "the file is missing",
                RESTORE + f", or {new_id}",
                "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
            )
    except BeingExchanged as error:
        yield refuses_start(METADATA, str(error), "run the command that this journal names: it completes the exchange")
    except Damaged as error:
        yield refuses_start(METADATA, str(error), f"{RESTORE}, or {new_id}")


def diagnose_folders(checkpoint: Location) -> Iterator[Damage]:
    """A file where a folder should be: Spark can neither list it nor write into it."""
    for entry in checkpoint.entries():
        if entry.name in (OFFSETS, COMMITS, SOURCES, STATE) and not entry.is_dir:
            yield refuses_start(entry.name, "it is a file, not a folder", RESTORE)


def diagnose_logs(logs: Logs, executed: int | None = None) -> Iterator[Damage]:
    """Gaps and damage in `offsets/` and `commits/`. `executed`: newest batch that left something in the state or in the
    sink's manifest; None if there is neither."""
    planned, committed = logs.planned, logs.committed
    if planned is None:
        if committed is not None:
            yield refuses_start(OFFSETS, f"it is empty, while batch {committed} is committed", RESTORE)
        return
    if committed is not None and committed > planned:
        yield from _diagnose_unplanned(logs, planned, committed, executed)
    yield from _diagnose_offsets(logs, planned)
    yield from _diagnose_commits(logs, planned, committed)


def diagnose_orphans(checkpoint: Location, logs: Logs) -> Iterator[Damage]:
    """Checksum files in `offsets/` and `commits/` that make the next batches fail."""
    planned = -1 if logs.planned is None else logs.planned
    committed = -1 if logs.committed is None else logs.committed
    for folder, after in ((OFFSETS, planned), (COMMITS, max(planned - 1, committed))):
        for name in orphan_checksums(list_or_empty(checkpoint / folder), after):
            yield orphan(join(folder, name))


def orphan(path: str) -> Damage:
    """A checksum file whose file a person removed."""
    name = path.rpartition("/")[2].removeprefix(".").removesuffix(".crc")
    spark = f"Spark fails when it writes {name} ('Multiple streaming queries are concurrently using …')."
    what = f"the checksum file was left behind when {name} was removed"
    return Damage(path, what, Consequence.REFUSES, spark, "remove it")


def _diagnose_unplanned(logs: Logs, planned: int, committed: int, executed: int | None) -> Iterator[Damage]:
    """Commits beyond the plan: either offsets were lost, or the commits belong to another run."""
    record = logs.commits[committed]
    second = isinstance(record, CommitRecord) and bool(record.state_ids)
    error_class = None if second else _CONCURRENT
    if executed is None or executed > planned:
        what = f"the file is missing, while {COMMITS}/{committed} is there"
        next_step = f"{RESTORE}; no other file records what that batch read"
        if executed is None:
            next_step += f". If batch {committed} never ran here, {_remove(committed)}"
        yield refuses_start(f"{OFFSETS}/{committed}", what, next_step, error_class)
        return
    for batch in sorted(commit for commit in logs.commits if commit > planned):
        what = (
            f"batch {batch} was never planned: {OFFSETS}/ ends at {planned}, and the batch left no state and no output"
        )
        yield refuses_start(f"{COMMITS}/{batch}", what, _remove(batch), error_class)


def _remove(batch: int) -> str:
    return f"remove {COMMITS}/{batch} and its checksum file {COMMITS}/.{batch}.crc"


def _diagnose_offsets(logs: Logs, planned: int) -> Iterator[Damage]:
    for batch, record in logs.offsets.items():
        if isinstance(record, str):
            judged = refuses_start if batch >= planned - 1 else not_read
            yield judged(f"{OFFSETS}/{batch}", record)
    for missing in gaps(sorted(logs.offsets), min(logs.offsets), planned):
        for path, what in missing_files(OFFSETS, range(missing.start, min(missing.stop, planned - 1))):
            yield not_read(path, what)
    if planned and planned - 1 not in logs.offsets:
        yield refuses_start(f"{OFFSETS}/{planned - 1}", "the file is missing", RESTORE)
    yield from _diagnose_sources(logs, planned)


def _diagnose_sources(logs: Logs, planned: int) -> Iterator[Damage]:
    """Spark reads the two newest files, and both have to name as many sources as the query has."""
    record, before = logs.offsets.get(planned), logs.offsets.get(planned - 1)
    if isinstance(record, OffsetRecord) and isinstance(before, OffsetRecord):
        count, expected = len(record.sources), len(before.sources)
        if count != expected:
            what = f"it has the offsets of {count} sources, while {OFFSETS}/{planned - 1} has those of {expected}"
            yield refuses_start(f"{OFFSETS}/{planned}", what, f"{RESTORE}, or {OFFSETS}/{planned - 1}")


def _diagnose_commits(logs: Logs, planned: int, committed: int | None) -> Iterator[Damage]:
    """The newest batch is normally planned and not committed while it runs; more than that means lost files."""
    again = (
        f"The sink already lists batch {planned}, so Spark only commits it."
        if logs.skipped
        else f"Spark runs batch {planned} again from the state before it; the output is right."
    )
    for batch, record in logs.commits.items():
        if isinstance(record, str) and batch < planned and batch != committed:
            yield not_read(f"{COMMITS}/{batch}", record)
    for missing in gaps(sorted(logs.commits), min(logs.commits, default=planned), planned - 1):
        newer = committed is None or missing.start > committed
        for path, what in missing_files(COMMITS, missing):
            yield recovers(path, what, again) if newer else not_read(path, what)
    if committed is None and planned > 0:
        yield recovers(COMMITS, "no batch is committed", again)
    newest = None if committed is None else logs.commits[committed]
    if isinstance(newest, str):
        advice = f"{RESTORE}, or {_remove(committed or 0)}: the batch runs again"
        yield refuses_start(f"{COMMITS}/{committed}", newest, advice)


def _read_all(folder: Location, batches: Sequence[int], parse: Callable[[int, LogFile], _T]) -> dict[int, _T | str]:
    records: dict[int, _T | str] = {}
    for batch in batches:
        try:
            records[batch] = parse(batch, read_log_file(folder / str(batch)))
        except FileNotFoundError:
            continue
        except Damaged as error:
            records[batch] = str(error)
    return records
