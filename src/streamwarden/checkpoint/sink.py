"""The manifest of Spark's file sink, `_spark_metadata`: which files each batch added to the output.

A reader that honours it sees exactly the files of committed batches. An entry that is lost while its commit is kept is
the one damage that Spark does not notice when it starts: the rows of that batch are gone from then on. It notices when
it next compacts the manifest, which needs every entry since the last compact file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
)

DEFAULT_INTERVAL: Final = 10
"""`spark.sql.streaming.fileSink.log.compactInterval`: after so many batches one compacts the manifest."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkManifest:
    """The manifest as it stood after batch `upto`.

    Args:
        newest: newest batch that has an entry, whatever `upto` says; None if there is none.
        compact: batches of the compact files, ascending.
        entries: what Spark would read, ascending.
        missing: batches up to `upto` that need an entry and have none.
        damaged: name of an entry -> what was found in it.
    """

    newest: int | None
    upto: int
    entries: tuple[ManifestEntry, ...] = ()
    missing: tuple[int, ...] = ()
    damaged: tuple[tuple[str, str], ...] = ()
    compact: tuple[int, ...] = ()

    @property
    def next_compaction(self) -> int:
        """The next batch that compacts the manifest; needs every entry since the last compact file."""
        return next_compaction(self.compact, self.upto)


def read_sink_manifest(fs: FileSystem, output: str, upto: int) -> SinkManifest | None:
    """The manifest of the output folder as of batch `upto` (-1: before any); None if the folder has no manifest.

    Damage is reported, not raised. A file that is purged while it is read raises FileNotFoundError.
    """
    folder = join(output, SINK_LOG)
    ids = compactible_ids(list_or_empty(fs, folder))
    if not ids:
        return None
    files, missing = chain(ids, upto)
    entries, damaged = [], []
    for batch, compact in files:
        name = compactible_name(batch, compact)
        try:
            log = read_log_file(fs, join(folder, name))
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
    )


def newest_entry(fs: FileSystem, output: str) -> int | None:
    """The newest batch that has an entry in the manifest of the output folder, by its name; None if none has.

    Spark skips every batch up to it without reading its input, whatever the checkpoint says. Raises OSError.
    """
    ids = compactible_ids(list_or_empty(fs, output, SINK_LOG))
    return ids[-1][0] if ids else None


def next_compaction(compact: Sequence[int], batch: int) -> int:
    """The first batch after `batch` that compacts.

    The interval is found as in Spark's CompactibleFileStreamLog: from the last two compact files; from the only one; or
    as set, which a checkpoint does not tell: the default is taken.
    """
    if len(compact) > 1:
        interval = compact[-1] - compact[-2]
    elif compact:
        interval = _divisor(compact[0] + 1)
    else:
        interval = DEFAULT_INTERVAL
    return batch + interval - (batch + 1) % interval


def _divisor(batches: int) -> int:
    """The smallest proper divisor above or at the default; all of them if there is none."""
    half = batches // 2
    if half <= DEFAULT_INTERVAL:
        return batches
    return next((each for each in range(DEFAULT_INTERVAL, half + 1) if batches % each == 0), batches)
