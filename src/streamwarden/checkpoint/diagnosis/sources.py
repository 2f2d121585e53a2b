"""Finds missing and damaged files of the logs of file sources, `sources/N`, with their consequence in Spark.

Spark reads the log from its last compact file on. It needs the files of the newest planned batch to execute that batch,
or to find where the next batch begins. Only a batch that read no new file is planned without them.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from streamwarden.checkpoint.diagnosis.damage import (
    RESTORE,
    Damage,
    doubles_rows,
    loses_rows,
    missing_files,
    refuses_start,
)
from streamwarden.checkpoint.diagnosis.logs import Logs, orphan
from streamwarden.checkpoint.diagnosis.named_files import lost_files
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.compaction import orphan_checksums
from streamwarden.checkpoint.formats.layout import (
    OFFSETS,
    SOURCES,
    Damaged,
    chain,
    compactible_ids,
    compactible_name,
    gaps,
    list_or_empty,
    runs,
)
from streamwarden.checkpoint.formats.logs import OffsetRecord
from streamwarden.checkpoint.formats.sources import SourceFile, log_offset, read_source_log
from streamwarden.checkpoint.formats.uris import to_path

_Log: TypeAlias = Mapping[tuple[int, bool], Sequence[SourceFile]]
"""(batch, whether it is a compact file) -> what the file names."""
_COMPARED: Final = 100
"""Files that a compact file is compared with."""
_MOST_INPUT: Final = 200_000
"""Entries of the input folder, above which it is not searched."""
_PUT_BACK: Final = "put the file back before the start, with its old name and its old modification time"
_LISTED_AGAIN: Final = (
    "Spark starts, because the newest batch read no new file. It then lists the input again and records what it finds "
    "first under this offset. These files count as read, so files that arrived since then are lost, unless "
    "`maxFilesPerTrigger` leaves no room for them."
)


def diagnose_sources(checkpoint: Location, logs: Logs) -> Iterator[Damage]:
    """The log of each file source: needed from its last compact file on, up to where the newest batch ends."""
    record = logs.latest_offsets()
    if record is None:
        return
    before = logs.offsets.get(record.batch - 1)
    ends = before.sources if isinstance(before, OffsetRecord) else ()
    for source, value in enumerate(record.sources):
        start = ends[source] if source < len(ends) else None
        yield from _diagnose_offset(record.batch, source, start, value)
        end = log_offset(value)
        if end is not None:
            begin = -1 if record.batch == 0 else log_offset(start)
            waiting = range(begin + 1, end + 1) if logs.runs_again and begin is not None else range(0)
            yield from _diagnose_log(checkpoint, source, begin, end, waiting)


def _diagnose_offset(batch: int, source: int, start: Any, end: Any) -> Iterator[Damage]:
    """A batch ends where it begins, or later, in the log of the same source."""
    begins, ends = log_offset(start), log_offset(end)
    if begins is None or end is None or isinstance(end, int):
        return
    where = f"{OFFSETS}/{batch}"
    if ends is None:
        what = f"the offset of source {source} is not a position in a log of files, while that of the batch before is"
        yield refuses_start(where, what, RESTORE)
    elif ends < begins:
        what = f"source {source} ends at log offset {ends}, before the {begins} at which the batch begins"
        yield refuses_start(where, what, RESTORE)


def _diagnose_log(checkpoint: Location, source: int, start: int | None, end: int, waiting: range) -> Iterator[Damage]:
    """The files of one source's log. `waiting`: offsets that the newest batch has yet to read."""
    folder = join(SOURCES, str(source))
    names = list_or_empty(checkpoint / folder)
    ids = compactible_ids(names)
    newest = ids[-1][0] if ids else -1
    files, missing = chain(ids, max(end, newest))
    yield from _diagnose_missing(folder, missing, newest, nothing_new=start == end)
    logged: dict[tuple[int, bool], Sequence[SourceFile]] = {}
    for batch, compact in files:
        name = join(folder, compactible_name(batch, compact))
        try:
            logged[batch, compact] = read_source_log(checkpoint / name, batch)
        except Damaged as error:
            yield refuses_start(name, str(error), RESTORE)
    yield from _diagnose_entries(folder, logged, waiting)
    yield from _diagnose_repeated(checkpoint, folder, ids, logged)
    yield from _diagnose_renamed(checkpoint, folder, logged)
    yield from _diagnose_input(checkpoint, logged, waiting)
    for name in orphan_checksums(names, newest, compacts=True):
        yield orphan(join(folder, name))


def _diagnose_entries(folder: str, logged: _Log, waiting: range) -> Iterator[Damage]:
    """Spark lists at least one file under each offset. A file that no entry names is new for it."""
    paths = Counter(entry.path for entries in logged.values() for entry in entries)
    for (batch, compact), entries in logged.items():
        name = join(folder, compactible_name(batch, compact))
        listed = {entry.offset for entry in entries}
        if not entries:
            yield _doubles(name, "it names no file")
        elif compact:
            for lost in islice(gaps(sorted(listed), 0, batch), 1):
                yield _doubles(name, f"it names no file of offset {lost[0]}")
        elif batch not in listed and any(paths[entry.path] > 1 for entry in entries):
            yield _doubles(name, f"it repeats entries of offset {min(listed)} instead of its own")
        elif batch not in listed and batch in waiting:
            spark = "Spark runs the batch again without these files and does not notice: their rows are missing."
            yield loses_rows(name, f"its entries are of offset {min(listed)}", spark, RESTORE)


def _diagnose_repeated(
    checkpoint: Location, folder: str, ids: Sequence[tuple[int, bool]], logged: _Log
) -> Iterator[Damage]:
    """A compact file repeats what the files before it name; Spark purges those some time later."""
    base = next((batch for batch, compact in logged if compact), None)
    if base is None:
        return
    listed = {entry.path for entry in logged[base, True]}
    for batch in [batch for batch, compact in ids if not compact and batch < base][-_COMPARED:]:
        try:
            entries = read_source_log(checkpoint / folder / str(batch), batch)
        except (Damaged, FileNotFoundError):
            continue  # Spark reads the compact file alone
        if any(entry.path not in listed for entry in entries):
            name = join(folder, compactible_name(base, compact=True))
            yield _doubles(name, f"it lacks files that {join(folder, str(batch))} names")
            return


def _diagnose_renamed(checkpoint: Location, folder: str, logged: _Log) -> Iterator[Damage]:
    """An entry whose path was damaged: the file that it names is not there, and another one that no entry names was
    modified in the very millisecond that the entry states. A file that was removed after it was read has no such twin.
    """
    entries = [(key, file) for key, listed in logged.items() for file in listed][-_COMPARED:]
    paths = {to_path(file.path) for listed in logged.values() for file in listed}
    if any("://" in path for path in (checkpoint.path, *paths)):
        return
    lost = lost_files(checkpoint.fs, dict.fromkeys(to_path(file.path) for _, file in entries))
    folders = Counter(path.rpartition("/")[0] for path in paths)
    if not lost or not folders:
        return
    home = Location(checkpoint.fs, folders.most_common(1)[0][0])
    times = {round(modified * 1000): name for name, modified in _unlisted(home, paths)}
    for (batch, compact), entry in entries:
        if to_path(entry.path) in lost and entry.timestamp_ms in times:
            what = f"it names {to_path(entry.path)}, which is not there, instead of {times[entry.timestamp_ms]}"
            yield _doubles(join(folder, compactible_name(batch, compact)), what)


def _unlisted(home: Location, paths: Collection[str]) -> Iterator[tuple[str, float]]:
    """Files of the input folder that no entry names, with their times."""
    try:
        for entry in home.entries() if len(home.names()) <= _MOST_INPUT else ():
            if not entry.is_dir and entry.modified is not None and join(home.path, entry.name) not in paths:
                yield entry.name, entry.modified
    except OSError:
        return


def _diagnose_input(checkpoint: Location, logged: _Log, waiting: range) -> Iterator[Damage]:
    """The files that a batch has yet to read. Files on another file system than the checkpoint's are not checked."""
    named = [to_path(entry.path) for entries in logged.values() for entry in entries if entry.offset in waiting]
    root = checkpoint.path.partition("://")[0] if "://" in checkpoint.path else ""
    reachable = [path for path in named if (path.partition("://")[0] if "://" in path else "") == root]
    for file in lost_files(checkpoint.fs, dict.fromkeys(reachable)):
        spark = "Spark runs the batch again without this file and does not notice: its rows are missing."
        yield loses_rows(file, "the planned batch has yet to read it, and it is not there", spark, _PUT_BACK)


def _diagnose_missing(folder: str, missing: Sequence[int], newest: int, *, nothing_new: bool) -> Iterator[Damage]:
    what = "the file is missing"
    if nothing_new and missing == [newest + 1]:
        next_step = f"{RESTORE}, or start the stream before another file arrives: Spark writes it again"
        yield loses_rows(join(folder, str(newest + 1)), what, _LISTED_AGAIN, next_step)
        return
    for run in runs(missing):
        for path, observed in missing_files(folder, run):
            yield refuses_start(path, observed, RESTORE)


def _doubles(name: str, what: str) -> Damage:
    spark = "Spark considers the files of this offset new and reads them again: their rows are in the output twice."
    return doubles_rows(name, what, spark)
