"""What is missing or damaged in the logs of file sources, `sources/N`, and what Spark will do about it.

Spark reads the log from its last compact file on. It needs the files of the newest planned batch to execute that batch,
or to find where the next batch begins. Only a batch that read no new file is planned without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from streamwarden.checkpoint.compaction import orphan_checksums
from streamwarden.checkpoint.diagnosis.damage import RESTORE, Consequence, Damage, loses_rows, refuses_start
from streamwarden.checkpoint.diagnosis.logs import Logs, orphan
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.layout import (
    OFFSETS,
    SOURCES,
    Damaged,
    chain,
    compactible_ids,
    compactible_name,
    list_or_empty,
)
from streamwarden.checkpoint.logs import OffsetRecord
from streamwarden.checkpoint.named_files import lost_files
from streamwarden.checkpoint.sources import log_offset, read_source_log
from streamwarden.checkpoint.uris import to_path

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
            yield from _diagnose_log(checkpoint, source, begin, end)
            if logs.runs_again and begin is not None:
                yield from _diagnose_input(checkpoint, source, range(begin + 1, end + 1))


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


def _diagnose_log(checkpoint: Location, source: int, start: int | None, end: int) -> Iterator[Damage]:
    folder = join(SOURCES, str(source))
    names = list_or_empty(checkpoint / folder)
    ids = compactible_ids(names)
    newest = ids[-1][0] if ids else -1
    files, missing = chain(ids, max(end, newest))
    yield from _diagnose_missing(folder, missing, newest, nothing_new=start == end)
    for batch, compact in files:
        name = join(folder, compactible_name(batch, compact))
        try:
            if not read_source_log(checkpoint / name, batch):
                yield _doubles(name)
        except Damaged as error:
            yield refuses_start(name, str(error), RESTORE)
    for name in orphan_checksums(names, newest, compacts=True):
        yield orphan(join(folder, name))


def _diagnose_input(checkpoint: Location, source: int, offsets: range) -> Iterator[Damage]:
    """The files that a batch has yet to read. Files on another file system than the checkpoint's are not checked."""
    folder = join(SOURCES, str(source))
    ids = compactible_ids(list_or_empty(checkpoint / folder))
    files, _ = chain(ids, offsets.stop - 1)
    named: list[str] = []
    for batch, compact in files:
        try:
            entries = read_source_log(checkpoint / folder / compactible_name(batch, compact), batch)
        except (Damaged, FileNotFoundError):
            continue  # `_diagnose_log` reports it
        named += [to_path(entry.path) for entry in entries if entry.offset in offsets]
    root = checkpoint.path.partition("://")[0] if "://" in checkpoint.path else ""
    reachable = [each for each in named if (each.partition("://")[0] if "://" in each else "") == root]
    for file in lost_files(checkpoint.fs, dict.fromkeys(reachable)):
        spark = "Spark runs the batch again without this file and does not notice: its rows are missing."
        yield loses_rows(file, "the planned batch has yet to read it, and it is not there", spark, _PUT_BACK)


def _diagnose_missing(folder: str, missing: Sequence[int], newest: int, *, nothing_new: bool) -> Iterator[Damage]:
    what = "the file is missing"
    if nothing_new and missing == [newest + 1]:
        next_step = f"{RESTORE}, or start the stream before another file arrives: Spark writes it again"
        yield loses_rows(join(folder, str(newest + 1)), what, _LISTED_AGAIN, next_step)
        return
    for batch in missing:
        yield refuses_start(join(folder, str(batch)), what, RESTORE)


def _doubles(name: str) -> Damage:
    spark = "Spark considers the files of this offset new and reads them again: their rows are in the output twice."
    return Damage(name, "it names no file", Consequence.DOUBLES, spark, RESTORE)
