"""The manifest of Spark's file sink, `_spark_metadata`: which files each batch added to the output.

A reader that honours it sees exactly the files of committed batches. An entry that is lost while its commit is kept is
the one damage that Spark does not notice when it starts: the rows of that batch are gone from then on. It notices when
it next compacts the manifest, which needs every entry since the last compact file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.checkpoint.compaction import leftover_checksums, next_compaction
from streamwarden.checkpoint.filesystem import FileSystem, join
from streamwarden.checkpoint.layout import (
    SINK_LOG,
    Damaged,
    chain,
    compactible_ids,
    compactible_name,
    list_or_empty,
    parse_object,
    read_log_file,
    require_version,
)

NEWEST_FORMAT: Final = 1
"""The newest format of the manifest that Spark 4.3 reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One file of the manifest: its lines are JSON objects (`path`, `size`, `action`, …), one an output file."""

    batch: int
    compact: bool
    version: int
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        return compactible_name(self.batch, self.compact)

    @property
    def written_ms(self) -> int:
        """When the newest file that it names was written, Unix milliseconds; 0: it names none, or does not say."""
        times = [parse_object(line).get("modificationTime") for line in self.lines]
        return max((each for each in times if isinstance(each, int)), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkManifest:
    """The manifest as it stood after batch `upto`.

    Args:
        newest: newest batch that has an entry, whatever `upto` says; None if there is none.
        compact: batches of the compact files, ascending.
        leftovers: checksum files that outlived their entry, of batches after `upto`.
        entries: what Spark would read, ascending.
        missing: batches up to `upto` that need an entry and have none.
        damaged: name of an entry -> what was found in it.
        without_version: names of those damaged entries that do not even begin with a version: Spark never wrote them
            whole.
    """

    newest: int | None
    upto: int
    entries: tuple[ManifestEntry, ...] = ()
    missing: tuple[int, ...] = ()
    damaged: tuple[tuple[str, str], ...] = ()
    compact: tuple[int, ...] = ()
    leftovers: tuple[str, ...] = ()
    without_version: tuple[str, ...] = ()

    @property
    def next_compaction(self) -> int:
        """The next batch that compacts the manifest; needs every entry since the last compact file."""
        return next_compaction(self.compact, self.upto)


def read_sink_manifest(fs: FileSystem, output: str, upto: int) -> SinkManifest | None:
    """The manifest of the output folder as of batch `upto` (-1: before any); None if the folder has no manifest.

    Damage is reported, not raised. A file that is purged while it is read raises FileNotFoundError.
    """
    folder = join(output, SINK_LOG)
    names = list_or_empty(fs, folder)
    ids = compactible_ids(names)
    if not ids:
        return None
    files, missing = chain(ids, upto)
    entries, damaged, without_version = [], [], []
    for batch, compact in files:
        name = compactible_name(batch, compact)
        try:
            log = read_log_file(fs, join(folder, name))
        except Damaged as error:
            damaged.append((name, str(error)))
            without_version.append(name)
            continue
        try:
            require_version(log, NEWEST_FORMAT)
            for line in log.lines:
                parse_object(line)
        except Damaged as error:
            damaged.append((name, str(error)))
            continue
        entries.append(ManifestEntry(batch=batch, compact=compact, version=log.version, lines=log.lines))
    return SinkManifest(
        newest=ids[-1][0],
        upto=upto,
        entries=tuple(entries),
        missing=tuple(missing),
        damaged=tuple(damaged),
        compact=tuple(batch for batch, compact in ids if compact),
        leftovers=tuple(leftover_checksums(names, upto, compacts=True)),
        without_version=tuple(without_version),
    )


def newest_entry(fs: FileSystem, output: str) -> int | None:
    """The newest batch that has an entry in the manifest of the output folder, by its name; None if none has.

    Spark skips every batch up to it without reading its input, whatever the checkpoint says. Raises OSError.
    """
    ids = compactible_ids(list_or_empty(fs, output, SINK_LOG))
    return ids[-1][0] if ids else None


def last_settled(planned: int | None, committed: int | None, newest: int | None) -> int:
    """The newest batch for which Spark will write no entry any more; -1: none.

    These are the committed batches, and the planned one that is not committed if the manifest lists it: Spark takes it
    for written and only commits it.
    """
    last = _number(planned)
    return max(min(_number(committed), last), min(_number(newest), last))


def unplanned_entries(planned: int | None, newest: int | None) -> range:
    """Batches up to the manifest's newest that are not planned yet: entries of an older, longer run of another
    checkpoint. Spark skips every batch up to the newest entry, whether it has an entry or not."""
    return range(_number(planned) + 1, _number(newest) + 1)


def stale_entries(
    entries: Sequence[ManifestEntry], planned_ms: Mapping[int, int], *, tolerance_ms: int = 60_000
) -> dict[int, int]:
    """Batch -> milliseconds by which its entry is older than its plan: an older run wrote it, and Spark skipped the
    batch (or will). Compact files do not say which batch a line came from and are left out, like entries without files.

    Args:
        planned_ms: batch -> `batchTimestampMs` of `offsets/N`.
        tolerance_ms: by how much the clocks of the driver and of the storage may differ.
    """
    ages = {
        entry.batch: planned_ms[entry.batch] - entry.written_ms
        for entry in entries
        if not entry.compact and entry.written_ms and entry.batch in planned_ms
    }
    return {batch: age for batch, age in ages.items() if age > tolerance_ms}


def _number(batch: int | None) -> int:
    """The batch before the first one stands for none."""
    return -1 if batch is None else batch
