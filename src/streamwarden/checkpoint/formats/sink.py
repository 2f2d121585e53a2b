"""The manifest of Spark's file sink, `_spark_metadata`: which files each batch added to the output.

A reader that honours the manifest sees exactly the files of committed batches. Spark notices every damage when it
starts, except one: an entry that is lost while its commit is kept. Then the rows of that batch are missing, until Spark
next compacts the manifest and fails, because compaction needs every entry since the last compact file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.compaction import next_compaction, orphan_checksums
from streamwarden.checkpoint.formats.layout import (
    SINK_LOG,
    Damaged,
    chain,
    compactible_ids,
    compactible_name,
    is_number,
    list_or_empty,
    parse_object,
    read_whole_log,
)
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.checkpoint.spark_version import FILE_SINK_MANIFEST


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFile:
    """A line of the manifest.

    Args:
        path: of the file, decoded: a local path, or a URL.
        action: `add` or `delete`, as Spark wrote it.
        size: bytes; None if the line does not say.
        modified_ms: when the file was written, Unix milliseconds; 0 if the line does not say.
    """

    path: str
    action: str
    size: int | None = None
    modified_ms: int = 0
    is_dir: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One file of the manifest. Each of its lines is a JSON object (`path`, `size`, `action`, …) about an output file.

    `files` are the lines, parsed.
    """

    batch: int
    compact: bool
    version: int
    lines: tuple[str, ...]
    files: tuple[SinkFile, ...]

    @property
    def name(self) -> str:
        return compactible_name(self.batch, self.compact)

    @property
    def written_ms(self) -> int:
        """Time at which its newest file was written, Unix milliseconds; 0 if it has no file or gives no time."""
        return max((file.modified_ms for file in self.files), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkManifest:
    """The manifest as of batch `upto`.

    Args:
        newest: newest batch that has an entry, even if it is later than `upto`; None if no batch has one.
        compact: batches of the compact files, ascending.
        orphans: checksum files that outlived their entry, of batches after `upto`.
        entries: what Spark reads, ascending.
        missing: batches up to `upto` that need an entry and have none.
        damaged: name of an entry -> what was found in it.
    """

    newest: int | None
    upto: int
    entries: tuple[ManifestEntry, ...] = ()
    missing: tuple[int, ...] = ()
    damaged: tuple[tuple[str, str], ...] = ()
    compact: tuple[int, ...] = ()
    orphans: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[SinkFile, ...]:
        """The output files. A file that is listed twice is here twice, because Spark's reader reads it twice."""
        return added_files(self.entries)

    @property
    def next_compaction(self) -> int:
        """The next batch that compacts the manifest. Compaction needs every entry since the last compact file."""
        return next_compaction(self.compact, self.upto)


def read_sink_manifest(
    output: Location, upto: int | None = None, *, past_damage: bool = False, strict: bool = False
) -> SinkManifest | None:
    """The manifest of the output folder; None if the folder has no manifest.

    Damage is reported, not raised. A file that is purged while it is read raises FileNotFoundError.

    Args:
        upto: the manifest as of this batch (-1: before the first one); None: as of its newest entry.
        past_damage: read past a damaged entry, as far as older ones still list the same files: the batch of a damaged
            entry then is in `missing` too. Spark does not do so, it fails.
        strict: a line that lacks a key which Spark requires is a damage.
    """
    folder = output / SINK_LOG
    names = list_or_empty(folder)
    ids = compactible_ids(names)
    if not ids:
        return None
    upto = ids[-1][0] if upto is None else upto
    usable, damaged = list(ids), dict[str, str]()
    while True:
        files, missing = chain(usable, upto)
        entries = []
        for batch, compact in files:
            try:
                entries.append(read_entry(folder, batch, compact, strict=strict))
            except Damaged as error:
                damaged[compactible_name(batch, compact)] = str(error)
                usable.remove((batch, compact))
        if not past_damage or len(entries) == len(files):
            break
    return SinkManifest(
        newest=ids[-1][0],
        upto=upto,
        entries=tuple(entries),
        missing=tuple(missing),
        damaged=tuple(damaged.items()),
        compact=tuple(batch for batch, compact in ids if compact),
        orphans=tuple(orphan_checksums(names, upto, compacts=True)),
    )


def plain_entries(output: Location) -> Iterator[ManifestEntry]:
    """The entries that are not compact and can be read, including those that a compact file repeats: only they say
    which batch wrote a file. Raises OSError if the storage does not answer."""
    folder = output / SINK_LOG
    for batch, compact in compactible_ids(list_or_empty(folder)):
        if not compact:
            with suppress(Damaged, FileNotFoundError):
                yield read_entry(folder, batch, compact, strict=False)


def added_files(entries: Iterable[ManifestEntry]) -> tuple[SinkFile, ...]:
    """The files that the entries add and do not delete again, in order."""
    files: list[SinkFile] = []
    for file in (listed for entry in entries for listed in entry.files):
        if file.action == "delete":
            files = [kept for kept in files if kept.path != file.path]
        else:
            files.append(file)
    return tuple(files)


def read_entry(folder: Location, batch: int, compact: bool, *, strict: bool = False) -> ManifestEntry:
    """An entry of the manifest `folder`, whatever its size; for `strict` see `read_sink_manifest`. Raises Damaged,
    FileNotFoundError."""
    log = read_whole_log(folder / compactible_name(batch, compact), FILE_SINK_MANIFEST)
    files = tuple(_sink_file(line, strict=strict) for line in log.lines)
    return ManifestEntry(batch=batch, compact=compact, version=log.version, lines=log.lines, files=files)


def _sink_file(line: str, *, strict: bool) -> SinkFile:
    """Raises Damaged."""
    body = parse_object(line)
    wrong = next((key for key, kind in _KEYS.items() if type(body.get(key)) is not kind), None)
    if wrong is not None and (strict or wrong == "path"):
        raise Damaged(f"a line without a valid {wrong}: {line[:60]!r}")
    size, modified = body.get("size"), body.get("modificationTime")
    try:
        path = to_path(body["path"])
    except ValueError as error:
        raise Damaged(f"a line without a valid path: {line[:60]!r}") from error
    return SinkFile(
        path=path,
        action=str(body.get("action", "")),
        size=size if is_number(size) else None,
        modified_ms=modified if is_number(modified) else 0,
        is_dir=bool(body.get("isDir")),
    )


_KEYS: Final[Mapping[str, type]] = {
    "path": str,
    "size": int,
    "isDir": bool,
    "modificationTime": int,
    "blockReplication": int,
    "blockSize": int,
    "action": str,
}
"""Required keys of each line of the manifest. Spark's reader refuses the folder for a line that lacks one."""


def newest_entry(output: Location) -> int | None:
    """The newest batch that has an entry in the manifest of the output folder, by the file's name; None if none has.

    Spark skips every batch up to it without reading its input, whatever the checkpoint says. Raises OSError.
    """
    ids = compactible_ids(list_or_empty(output / SINK_LOG))
    return ids[-1][0] if ids else None


def last_settled(planned: int | None, committed: int | None, newest: int | None) -> int:
    """The newest batch for which Spark will write no more entry; -1 if there is none.

    These are the committed batches, and the planned batch if the manifest lists it: Spark considers it written and only
    commits it.
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
    """-1 instead of None."""
    return -1 if batch is None else batch
