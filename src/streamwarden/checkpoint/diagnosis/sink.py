"""Finds missing and damaged files of the file sink's manifest, `_spark_metadata`, with their consequence in Spark.

Spark writes no entry for a batch that its manifest lists, nor for any batch before it, whatever these entries contain.
So an entry that is damaged, or that another run wrote, loses the rows of its batch, and Spark reports no error.

A batch that is not committed runs again if its entry is removed. But a compact entry repeats what the entries before it
list, and Spark purges those some time later: then the compact entry is the only list of the files of earlier batches,
and it must not be removed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from streamwarden.checkpoint.diagnosis.damage import Damage, doubles_rows, loses_rows, missing_files
from streamwarden.checkpoint.diagnosis.logs import Logs, orphan
from streamwarden.checkpoint.diagnosis.moved import moved, moved_files
from streamwarden.checkpoint.diagnosis.named_files import lost_files
from streamwarden.checkpoint.diagnosis.unlisted import diagnose_unlisted
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.compaction import next_compaction
from streamwarden.checkpoint.formats.data_files import damaged_files
from streamwarden.checkpoint.formats.layout import COMPACT, SINK_LOG, compactible_name, runs
from streamwarden.checkpoint.formats.logs import OffsetRecord
from streamwarden.checkpoint.formats.sink import (
    ManifestEntry,
    SinkManifest,
    added_files,
    read_sink_manifest,
    stale_entries,
    unplanned_entries,
)
from streamwarden.checkpoint.formats.uris import file_name
from streamwarden.units import format_duration

_NO_ENTRY: Final = "BATCH_METADATA_NOT_FOUND"
_NEW_OUTPUT: Final = "run the stream from the beginning into a new output"
_AGAIN: Final = f"{_NEW_OUTPUT}, or restore the file"


@dataclass(frozen=True, slots=True)
class _OpenEntry:
    """The entry of the batch that is planned and not committed, because of which Spark skips the batch.

    Args:
        move_out: how a person makes the batch run again; None if that would lose more, or the batch would not run.
        earlier: files that the entries before it name.
    """

    batch: int
    move_out: str | None
    earlier: frozenset[str]


def diagnose_sink(
    output: Location, manifest: SinkManifest | None, logs: Logs, no_state: str | None
) -> Iterator[Damage]:
    """The manifest: a whole entry for each batch up to `manifest.upto`, none beyond the planned one, and every file
    that it names. `no_state`: error class with which a batch fails if its state was never written; None: the query
    keeps no state."""
    if manifest is None:
        if logs.committed is not None:
            yield _no_manifest(logs.committed)
        return
    opened = _open_entry(output, manifest) if logs.skipped and logs.planned == manifest.upto else None
    for run in runs(manifest.missing):
        for path, what in missing_files(SINK_LOG, run):
            yield _lost_entry(manifest, path, what, opened)
    for name, what in manifest.damaged:
        yield _damaged_entry(manifest, name, what, opened)
    yield from _diagnose_repeated(output, manifest)
    yield from diagnose_unlisted(output, manifest, logs)
    yield from _diagnose_unplanned(output, manifest, logs, no_state)
    yield from _diagnose_stale(manifest, logs, opened)
    yield from _diagnose_files(output, manifest, opened)
    for name in manifest.orphans:
        yield orphan(join(SINK_LOG, name))


def _diagnose_repeated(output: Location, manifest: SinkManifest) -> Iterator[Damage]:
    """Each file is named once; and a compact entry repeats what the entries before it name, apart from files that are
    older than the sink's `retention`."""
    listed = Counter(file.path for file in manifest.files)
    for entry in manifest.entries:
        twice = next((file.path for file in entry.files if listed[file.path] > 1), None)
        if twice is not None:
            spark = "Spark's reader reads the file once for each line: its rows are there twice."
            yield doubles_rows(f"{SINK_LOG}/{entry.name}", f"{file_name(twice)} is named more than once", spark)
            return
    base = next((entry for entry in manifest.entries if entry.compact), None)
    before = None if base is None else read_sink_manifest(output, base.batch - 1, strict=True)
    if base is None or before is None or before.missing or before.damaged:
        return
    oldest = min((file.modified_ms for file in base.files), default=0)
    lost = [file for file in before.files if file.path not in listed and file.modified_ms >= oldest]
    if lost:
        what = f"it lacks {file_name(lost[0].path)}, which an entry before it names"
        spark = "Spark continues and does not notice; its reader misses the rows of this file."
        yield loses_rows(f"{SINK_LOG}/{base.name}", what, spark, _AGAIN)


def _open_entry(output: Location, manifest: SinkManifest) -> _OpenEntry:
    """The entry of the newest batch that the manifest has to list."""
    batch = manifest.upto
    before = read_sink_manifest(output, batch - 1, strict=True)
    earlier = frozenset(_named_files(output, before.entries)) if before else frozenset()
    runs_again = manifest.newest == batch and _whole_without(output, manifest, batch)
    return _OpenEntry(batch, _move_out(manifest, batch) if runs_again else None, earlier)


def _whole_without(output: Location, manifest: SinkManifest, first: int) -> bool:
    """Whether moving out the entries from `first` on loses nothing of the batches before it."""
    if all(batch < first for batch in manifest.compact):
        return True  # each of the other entries lists only its own batch
    before = read_sink_manifest(output, first - 1, strict=True)
    return before is not None and not before.missing and not before.damaged


def _move_out(manifest: SinkManifest, batch: int) -> str:
    """Advice to make a batch that is not committed run again: Spark then writes the entry too."""
    name = compactible_name(batch, batch in manifest.compact)
    return (
        f"before the start, move {SINK_LOG}/{name} and its checksum file .{name}.crc out of the output: "
        "the batch then runs again"
    )


def _no_manifest(committed: int) -> Damage:
    noticed = f"batch {next_compaction((), committed)}, which compacts it, fails ({_NO_ENTRY})"
    spark = f"Spark continues with a manifest that lacks everything written so far, until {noticed}."
    return loses_rows(SINK_LOG, "the manifest is missing", spark, _AGAIN, _NO_ENTRY)


def _lost_entry(manifest: SinkManifest, path: str, what: str, opened: _OpenEntry | None) -> Damage:
    is_open = opened is not None and path == f"{SINK_LOG}/{opened.batch}"
    what += f", while {'later entries are there' if is_open else 'the batch is committed'}"
    spark = f"{_gone(path.rpartition('/')[2], is_open)} {_noticed(manifest)} ({_NO_ENTRY})."
    return loses_rows(path, what, spark, _AGAIN, _NO_ENTRY)


def _damaged_entry(manifest: SinkManifest, name: str, what: str, opened: _OpenEntry | None) -> Damage:
    is_open, cure = False, None
    if opened is not None and int(name.removesuffix(COMPACT)) == opened.batch:
        is_open, cure = True, opened.move_out
    spark = f"{_gone(name, is_open)} {_noticed(manifest)}, as the entry cannot be read."
    return loses_rows(f"{SINK_LOG}/{name}", what, spark, cure or _AGAIN)


def _gone(name: str, is_open: bool) -> str:
    batch = name.removesuffix(COMPACT)
    taken = f"Spark considers batch {batch} written and only commits it" if is_open else "Spark continues"
    lost = "that batch" if name == batch else f"every batch up to {batch}"
    return f"{taken}; the rows of {lost} are missing for good. Spark's reader refuses the folder at once,"


def _noticed(manifest: SinkManifest) -> str:
    return f"and batch {manifest.next_compaction}, the next that compacts the manifest, fails"


def _diagnose_unplanned(output: Location, manifest: SinkManifest, logs: Logs, no_state: str | None) -> Iterator[Damage]:
    """Entries of another run: Spark plans these batches, and the sink skips them."""
    last = max(-1 if batch is None else batch for batch in (logs.planned, logs.committed))
    ahead = unplanned_entries(last, manifest.newest)
    if not ahead:
        return
    position = "no batch is planned yet" if logs.planned is None else f"the newest planned batch is {logs.planned}"
    skipped = f"batch {ahead[0]}" if len(ahead) == 1 else f"batches {ahead[0]} to {ahead[-1]}"
    spark = f"Spark plans {skipped} with new input, and the sink skips what its manifest lists: these rows are lost."
    if no_state:
        spark += f" They leave no state, so batch {ahead[-1] + 1} fails ({no_state})."
    next_step = (
        f"restore the checkpoint that has planned batch {ahead[-1]}; if another run wrote these entries, give the "
        "query a new output folder"
    )
    if _whole_without(output, manifest, ahead[0]):
        next_step += ", or move them and their checksum files out of the manifest"
    where, what = f"{SINK_LOG}/{ahead[-1]}", f"the manifest is ahead of the checkpoint: {position}"
    yield loses_rows(where, what, spark, next_step, no_state)


def _diagnose_stale(manifest: SinkManifest, logs: Logs, opened: _OpenEntry | None) -> Iterator[Damage]:
    """Entries that were there before their batch was planned."""
    planned = {batch: record.timestamp_ms for batch, record in logs.offsets.items() if isinstance(record, OffsetRecord)}
    for batch, age in stale_entries(manifest.entries, planned).items():
        skip, cure = "skipped", _NEW_OUTPUT
        if opened is not None and batch == opened.batch:
            skip, cure = "skips", opened.move_out or _NEW_OUTPUT
        what = f"the entry was written {format_duration(age / 1000)} before batch {batch} was planned, by another run"
        spark = f"Spark {skip} the batch, because its manifest lists it: the rows of that batch are missing."
        yield loses_rows(f"{SINK_LOG}/{batch}", what, spark, cure)


def _diagnose_files(output: Location, manifest: SinkManifest, opened: _OpenEntry | None) -> Iterator[Damage]:
    """Files that the manifest names and that are missing or incomplete.

    A file that an entry before the open one names is not restored by running the open batch again, even if a compact
    entry repeats it.
    """
    inside = output.path.rstrip("/") + "/"
    skipped = [entry for entry in manifest.entries if opened is not None and entry.batch == opened.batch]
    of_open = _named_files(output, skipped).keys() - (opened.earlier if opened else frozenset())
    named = _named_files(output, manifest.entries)
    lost = lost_files(output.fs, named)
    elsewhere = moved_files(output, {path: named[path] for path in lost})
    if elsewhere is not None:
        former, files = elsewhere
        yield moved(output, former, len(files))
        named = {path: size for path, size in named.items() if path not in files}
        lost = {path: what for path, what in lost.items() if path not in files}
    broken = damaged_files(output.fs, {path: size for path, size in named.items() if path not in lost})
    for file, what in (*lost.items(), *broken):
        taken, cure = "Spark continues and does not notice", _AGAIN
        if opened is not None and file in of_open:
            taken, cure = f"Spark considers batch {opened.batch} written and only commits it", opened.move_out or _AGAIN
        spark = f"{taken}; Spark's reader refuses the folder, other readers miss the rows."
        yield loses_rows(file.removeprefix(inside), f"the manifest names it, and {what}", spark, cure)


def _named_files(output: Location, entries: Iterable[ManifestEntry]) -> dict[str, int | None]:
    """Files that the entries add and do not delete again, with their sizes in bytes. A URL outside of the output is
    left out, because it may be on another file system."""
    inside = output.path.rstrip("/") + "/"
    files = added_files(entries)
    return {file.path: file.size for file in files if file.path.startswith(("/", inside)) and not file.is_dir}
