"""What is missing or damaged in the logs and in the sink's manifest, and what Spark will do about it.

Which files Spark needs to start: `metadata`; the newest `offsets/P` and the one before it; the newest `commits/C`; the
log of each file source from its last compact file on. Everything older is only kept for a rewind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from streamwarden.checkpoint.filesystem import FileSystem, join
from streamwarden.checkpoint.findings import Consequence, Finding
from streamwarden.checkpoint.layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SINK_LOG,
    SOURCES,
    Damaged,
    LogFile,
    chain,
    compactible_ids,
    compactible_name,
    list_or_empty,
    parse_object,
    read_log_file,
)
from streamwarden.checkpoint.logs import CommitRecord, OffsetRecord, parse_commit, parse_offsets, parse_query_id
from streamwarden.checkpoint.sink import SinkManifest, next_compaction
from streamwarden.checkpoint.sources import log_offset, parse_source_log
from streamwarden.checkpoint.uris import to_path

RESTORE: Final = "restore it from a copy of the checkpoint"

_NO_ENTRY: Final = "BATCH_METADATA_NOT_FOUND"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Logs:
    """Both logs as they are: batch -> its record, or in words why it cannot be understood.

    Args:
        written: newest batch in the manifest of the file sink; None if there is no such sink, or it is not known.
    """

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
        """The newest record that can be understood."""
        return next((self._good(batch) for batch in sorted(self.offsets, reverse=True) if self._good(batch)), None)

    @property
    def skipped(self) -> bool:
        """The newest batch has to run again and will not: the sink skips a batch that its manifest lists."""
        planned, committed = self.planned, -1 if self.committed is None else self.committed
        return planned is not None and committed < planned and self.written is not None and self.written >= planned

    @property
    def state_version(self) -> int:
        """The state version that is loaded next: P if batch P has to run (again), P+1 if it is committed or skipped."""
        if self.planned is None:
            return 0
        done = self.skipped or (self.committed is not None and self.committed >= self.planned)
        return self.planned + 1 if done else self.planned

    def _good(self, batch: int) -> OffsetRecord | None:
        record = self.offsets[batch]
        return record if isinstance(record, OffsetRecord) else None


def read_logs(
    fs: FileSystem, path: str, commits: Sequence[int], offsets: Sequence[int], written: int | None = None
) -> Logs:
    """Read both logs. A file that was purged since it was listed is left out; every damage is kept as words."""
    return Logs(
        _read_all(fs, join(path, OFFSETS), offsets, parse_offsets),
        _read_all(fs, join(path, COMMITS), commits, parse_commit),
        written,
    )


def diagnose_metadata(fs: FileSystem, path: str, logs: Logs) -> Iterator[Finding]:
    """`metadata`: without it Spark refuses to continue what is there."""
    new_id = 'write {"id": "<a new UUID>"} into it (sinks that remember the query id take it for a new query)'
    try:
        parse_query_id(fs.read(join(path, METADATA)))
    except FileNotFoundError:
        if logs.offsets or logs.commits:
            yield _refuses(
                METADATA,
                "the file is missing",
                RESTORE + f", or {new_id}",
                "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
            )
    except Damaged as error:
        yield _refuses(METADATA, str(error), f"{RESTORE}, or {new_id}")


def diagnose_logs(logs: Logs) -> Iterator[Finding]:
    """Gaps and damage in `offsets/` and `commits/`."""
    planned, committed = logs.planned, logs.committed
    if planned is None:
        if committed is not None:
            yield _refuses(OFFSETS, f"it is empty, while batch {committed} is committed", RESTORE)
        return
    if committed is not None and committed > planned:
        yield _refuses(
            f"{OFFSETS}/{committed}",
            f"the file is missing, while commits/{committed} is there",
            RESTORE + "; no other file can say what that batch read",
            "CONCURRENT_STREAM_LOG_UPDATE",
        )
    yield from _diagnose_offsets(logs, planned)
    yield from _diagnose_commits(logs, planned, committed)


def diagnose_sources(fs: FileSystem, path: str, logs: Logs) -> Iterator[Finding]:
    """The log of each file source: needed from its last compact file on, up to where the newest batch ends."""
    record = logs.latest_offsets()
    for source, value in enumerate(record.sources if record else ()):
        end = log_offset(value)
        if end is None:
            continue
        folder = join(SOURCES, str(source))
        ids = compactible_ids(list_or_empty(fs, path, folder))
        files, missing = chain(ids, max(end, ids[-1][0]) if ids else end)
        for batch in missing:
            yield _refuses(f"{folder}/{batch}", "the file is missing", RESTORE)
        for batch, compact in files:
            name = join(folder, compactible_name(batch, compact))
            try:
                parse_source_log(batch, read_log_file(fs, join(path, name)).lines)
            except Damaged as error:
                yield _refuses(name, str(error), RESTORE)


def diagnose_sink(fs: FileSystem, output: str, manifest: SinkManifest | None, logs: Logs) -> Iterator[Finding]:
    """The manifest: an entry up to each committed batch, none beyond the planned one, every named file there."""
    if logs.committed is None:
        return
    again = "run the stream from the beginning into a new output, or restore the file"
    if manifest is None:
        noticed = f"batch {next_compaction((), logs.committed)}, which compacts it, fails ({_NO_ENTRY})"
        spark = f"Spark runs on into a manifest without what was written so far, until {noticed}."
        yield _loses(SINK_LOG, "the manifest is missing", spark, again, _NO_ENTRY)
        return
    gone = (
        "Spark starts and runs on; the rows of that batch are missing for good. Its reader refuses the folder at once,"
    )
    noticed = f"and batch {manifest.next_compaction}, the next that compacts the manifest, fails"
    for batch in manifest.missing:
        what = "the entry is missing, while the batch is committed"
        yield _loses(f"{SINK_LOG}/{batch}", what, f"{gone} {noticed} ({_NO_ENTRY}).", again, _NO_ENTRY)
    for name, what in manifest.damaged:
        yield _loses(f"{SINK_LOG}/{name}", what, f"{gone} {noticed}, as the entry cannot be read.", again)
    if manifest.newest is not None and logs.planned is not None and manifest.newest > max(logs.planned, logs.committed):
        yield _loses(
            f"{SINK_LOG}/{manifest.newest}",
            f"the manifest is ahead: the newest planned batch is {logs.planned}",
            "Spark plans these batches anew and the sink skips what its manifest already lists: rows of input that "
            "arrived since are lost.",
            "restore offsets/ and commits/ up to that batch",
        )
    for file in _missing_files(fs, output, manifest):
        spark = "Spark runs on and never notices; its reader refuses the folder, others miss the rows."
        yield _loses(file, "the manifest names it, and it is not there", spark, again)


def _diagnose_offsets(logs: Logs, planned: int) -> Iterator[Finding]:
    for batch in range(min(logs.offsets), planned + 1):
        record = logs.offsets.get(batch)
        if isinstance(record, OffsetRecord):
            continue
        what = "the file is missing" if record is None else record
        if batch >= planned - 1:
            yield _refuses(f"{OFFSETS}/{batch}", what, RESTORE)
        else:
            yield _old(f"{OFFSETS}/{batch}", what)
    if planned and planned - 1 not in logs.offsets and len(logs.offsets) == 1:
        yield _refuses(f"{OFFSETS}/{planned - 1}", "the file is missing", RESTORE)


def _diagnose_commits(logs: Logs, planned: int, committed: int | None) -> Iterator[Finding]:
    """The newest batch is normally planned and not committed while it runs; more than that means lost files."""
    again = (
        f"The sink already lists batch {planned}, so Spark only commits it; the output is right."
        if logs.skipped
        else f"Spark runs batch {planned} again from the state before it; the output is right."
    )
    for batch in range(min(logs.commits, default=planned), planned):
        record, name = logs.commits.get(batch), f"{COMMITS}/{batch}"
        if isinstance(record, CommitRecord) or batch == committed:
            continue
        if record is None and (committed is None or batch > committed):
            yield _finding(name, "the file is missing", Consequence.RECOVERS, again, "nothing: start the stream")
        else:
            yield _old(name, record or "the file is missing")
    if committed is None and planned > 0:
        yield _finding(COMMITS, "no batch is committed", Consequence.RECOVERS, again, "nothing: start the stream")
    newest = None if committed is None else logs.commits[committed]
    if isinstance(newest, str):
        advice = f"{RESTORE}, or remove the file: the batch runs again"
        yield _refuses(f"{COMMITS}/{committed}", newest, advice)


def _read_all(
    fs: FileSystem, folder: str, batches: Sequence[int], parse: Callable[[int, LogFile], _T]
) -> dict[int, _T | str]:
    found: dict[int, _T | str] = {}
    for batch in batches:
        try:
            found[batch] = parse(batch, read_log_file(fs, join(folder, str(batch))))
        except FileNotFoundError:
            continue
        except Damaged as error:
            found[batch] = str(error)
    return found


def _missing_files(fs: FileSystem, output: str, manifest: SinkManifest) -> list[str]:
    """Files of the output, below it, that the manifest names and that are not there."""
    inside = output.rstrip("/") + "/"
    named: set[str] = set()
    for entry in manifest.entries:
        for line in entry.lines:
            try:
                body = parse_object(line)
                path = to_path(str(body["path"]))
            except (Damaged, KeyError, ValueError):
                continue  # a damaged line is reported by who reads the entry
            if not path.startswith(("/", inside)):
                continue  # a URL elsewhere cannot be looked up on this file system
            if body.get("action") == "delete":
                named.discard(path)
            elif not body.get("isDir"):
                named.add(path)
    there: dict[str, frozenset[str]] = {}
    missing = []
    for path in sorted(named):
        folder, _, name = path.rpartition("/")
        if folder not in there:
            there[folder] = frozenset(list_or_empty(fs, folder))
        if name not in there[folder]:
            missing.append(path.removeprefix(inside))
    return missing


def _finding(
    path: str, what: str, consequence: Consequence, spark: str, next_step: str, error_class: str | None = None
) -> Finding:
    return Finding(
        path=path, what=what, consequence=consequence, spark=spark, next_step=next_step, error_class=error_class
    )


def _refuses(path: str, what: str, next_step: str, error_class: str | None = None) -> Finding:
    spark = f"Spark refuses to start{f' ({error_class})' if error_class else ''}."
    return _finding(path, what, Consequence.REFUSES, spark, next_step, error_class)


def _loses(path: str, what: str, spark: str, next_step: str, error_class: str | None = None) -> Finding:
    return _finding(path, what, Consequence.LOSES, spark, next_step, error_class)


def _old(path: str, what: str) -> Finding:
    spark = "Spark does not read it any more; a fork cannot be rewound to it."
    return _finding(path, what, Consequence.HARMLESS, spark, "nothing")
