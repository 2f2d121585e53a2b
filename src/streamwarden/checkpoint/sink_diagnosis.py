"""What is missing or damaged in the manifest of the file sink, `_spark_metadata`, and what Spark will do about it.

Spark writes no entry for a batch that its manifest lists, nor for any before it, whatever these entries hold. So an
entry that is damaged, or of another run, loses the rows of its batch without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from streamwarden.checkpoint.compaction import next_compaction
from streamwarden.checkpoint.diagnosis import Logs, leftover
from streamwarden.checkpoint.filesystem import FileSystem, join
from streamwarden.checkpoint.findings import Finding, loses_rows
from streamwarden.checkpoint.layout import SINK_LOG, Damaged, parse_object
from streamwarden.checkpoint.logs import OffsetRecord
from streamwarden.checkpoint.named_files import lost_files
from streamwarden.checkpoint.sink import ManifestEntry, SinkManifest, stale_entries, unplanned_entries
from streamwarden.checkpoint.uris import to_path
from streamwarden.units import format_duration

_NO_ENTRY: Final = "BATCH_METADATA_NOT_FOUND"
_AGAIN: Final = "run the stream from the beginning into a new output, or restore the file"


def diagnose_sink(
    fs: FileSystem, output: str, manifest: SinkManifest | None, logs: Logs, no_state: str | None
) -> Iterator[Finding]:
    """The manifest: a whole entry for each batch up to `manifest.upto`, none beyond the planned one, and every file
    that it names.

    Args:
        no_state: error class with which a batch fails whose state was never written; None: the query keeps no state.
    """
    if manifest is None:
        if logs.committed is not None:
            yield _no_manifest(logs.committed)
        return
    open_batch = manifest.upto if logs.skipped and logs.planned == manifest.upto else None
    for batch in manifest.missing:
        yield _lost_entry(manifest, batch, open_batch)
    for name, what in manifest.damaged:
        yield _damaged_entry(manifest, name, what, open_batch)
    yield from _diagnose_unplanned(manifest, logs, no_state)
    yield from _diagnose_stale(manifest, logs)
    yield from _diagnose_files(fs, output, manifest, open_batch)
    for name in manifest.leftovers:
        yield leftover(join(SINK_LOG, name))


def _no_manifest(committed: int) -> Finding:
    noticed = f"batch {next_compaction((), committed)}, which compacts it, fails ({_NO_ENTRY})"
    spark = f"Spark runs on into a manifest without what was written so far, until {noticed}."
    return loses_rows(SINK_LOG, "the manifest is missing", spark, _AGAIN, _NO_ENTRY)


def _lost_entry(manifest: SinkManifest, batch: int, open_batch: int | None) -> Finding:
    done = "later ones are there" if batch == open_batch else "the batch is committed"
    what = f"the entry is missing, while {done}"
    spark = f"{_gone(batch, open_batch)} {_noticed(manifest)} ({_NO_ENTRY})."
    return loses_rows(f"{SINK_LOG}/{batch}", what, spark, _AGAIN, _NO_ENTRY)


def _damaged_entry(manifest: SinkManifest, name: str, what: str, open_batch: int | None) -> Finding:
    batch = int(name.partition(".")[0])
    spark = f"{_gone(batch, open_batch)} {_noticed(manifest)}, as the entry cannot be read."
    return loses_rows(f"{SINK_LOG}/{name}", what, spark, _move_out(name) if batch == open_batch else _AGAIN)


def _gone(batch: int, open_batch: int | None) -> str:
    taken = f"Spark takes batch {batch} for written and only commits it" if batch == open_batch else "Spark runs on"
    return f"{taken}; the rows of that batch are missing for good. Its reader refuses the folder at once,"


def _noticed(manifest: SinkManifest) -> str:
    return f"and batch {manifest.next_compaction}, the next that compacts the manifest, fails"


def _move_out(name: str) -> str:
    """What cures an entry of a batch that is not committed: Spark then executes the batch and writes the entry."""
    return (
        f"before the start, move {SINK_LOG}/{name} and its checksum file .{name}.crc out of the output: "
        "the batch then runs again"
    )


def _diagnose_unplanned(manifest: SinkManifest, logs: Logs, no_state: str | None) -> Iterator[Finding]:
    """Entries of another run: Spark plans these batches, and the sink skips them."""
    last = max(-1 if each is None else each for each in (logs.planned, logs.committed))
    ahead = unplanned_entries(last, manifest.newest)
    if not ahead:
        return
    known = "no batch is planned yet" if logs.planned is None else f"the newest planned batch is {logs.planned}"
    skipped = f"batch {ahead[0]}" if len(ahead) == 1 else f"batches {ahead[0]} to {ahead[-1]}"
    spark = f"Spark plans {skipped} with new input, and the sink skips what its manifest lists: these rows are lost."
    if no_state:
        spark += f" They leave no state, so batch {ahead[-1] + 1} fails ({no_state})."
    next_step = (
        f"restore the checkpoint that has planned batch {ahead[-1]}; if another run wrote these entries, give the "
        "query a new output folder, or move them and their checksum files out of the manifest"
    )
    where, what = f"{SINK_LOG}/{ahead[-1]}", f"the manifest is ahead of the checkpoint: {known}"
    yield loses_rows(where, what, spark, next_step, no_state)


def _diagnose_stale(manifest: SinkManifest, logs: Logs) -> Iterator[Finding]:
    """Entries that were there before their batch was planned."""
    planned = {batch: each.timestamp_ms for batch, each in logs.offsets.items() if isinstance(each, OffsetRecord)}
    committed = -1 if logs.committed is None else logs.committed
    for batch, age in stale_entries(manifest.entries, planned).items():
        skip, cure = (
            ("skipped", "run the stream from the beginning into a new output")
            if batch <= committed
            else ("skips", _move_out(str(batch)))
        )
        what = f"the entry was written {format_duration(age / 1000)} before batch {batch} was planned, by another run"
        spark = f"Spark {skip} the batch, because its manifest lists it: the rows of that batch are missing."
        yield loses_rows(f"{SINK_LOG}/{batch}", what, spark, cure)


def _diagnose_files(fs: FileSystem, output: str, manifest: SinkManifest, open_batch: int | None) -> Iterator[Finding]:
    """Files that the manifest names and that are not there, or not whole."""
    inside = output.rstrip("/") + "/"
    readers = "its reader refuses the folder, others miss the rows."
    settled = [each for each in manifest.entries if each.batch != open_batch]
    for file, what in lost_files(fs, _named_files(output, settled)).items():
        spark = f"Spark runs on and never notices; {readers}"
        yield loses_rows(file.removeprefix(inside), f"the manifest names it, and {what}", spark, _AGAIN)
    for entry in manifest.entries:
        if entry.batch == open_batch:
            spark = f"Spark takes batch {open_batch} for written and only commits it; {readers}"
            for file, what in lost_files(fs, _named_files(output, [entry])).items():
                cure = _move_out(entry.name)
                yield loses_rows(file.removeprefix(inside), f"the manifest names it, and {what}", spark, cure)


def _named_files(output: str, entries: Iterable[ManifestEntry]) -> dict[str, int | None]:
    """Files below the output that the entries add and do not delete again, with their sizes in bytes."""
    inside = output.rstrip("/") + "/"
    named: dict[str, int | None] = {}
    for entry in entries:
        for line in entry.lines:
            try:
                body = parse_object(line)
                path = to_path(str(body["path"]))
            except (Damaged, KeyError, ValueError):
                continue  # a damaged line is reported by the reader of the entry
            if not path.startswith(("/", inside)):
                continue  # a URL elsewhere cannot be looked up on this file system
            if body.get("action") == "delete":
                named.pop(path, None)
            elif not body.get("isDir"):
                size = body.get("size")
                named[path] = size if isinstance(size, int) else None
    return named
