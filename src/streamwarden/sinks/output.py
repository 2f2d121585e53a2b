"""Reads what a stream wrote, as an exactly-once reader must: through the sink's own manifest.

Spark's file sink lists in `_spark_metadata/N` the files that batch N wrote (JSON lines after a version line); every few
batches one `N.compact` repeats all that came before. A data file that no entry names is a leftover of a batch that
never committed: it is counted, and not read. Unlike Spark's reader this one also looks for what the manifest should
hold: an entry for each batch up to the newest commit, and each file that it names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from streamwarden.adapters.storage.files import LocalFiles, open_path
from streamwarden.checkpoint.filesystem import FileSystem, Location
from streamwarden.checkpoint.uris import file_name, to_path
from streamwarden.errors import VerificationError
from streamwarden.sinks.parquet_files import read_files
from streamwarden.verification.column_types import ColumnType

MANIFEST: Final = "_spark_metadata"

_ENTRY: Final = re.compile(r"([0-9]+)(\.compact)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files that the sink vouches for.

    Args:
        newest: newest batch with an entry; None if there is none.
        files: data files, local paths or URLs, in the order in which they were added.
        gaps: batches that must have an entry and have none that can be read.
        missing: files that an entry names and that are not there.
    """

    newest: int | None
    files: tuple[str, ...]
    gaps: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Every row of a stream's output, and what is wrong with the folder.

    Args:
        columns: names of a row's values, in order. Timestamps are aware datetimes in UTC.
        manifest: None for a folder that never had one: then every parquet file in it was read.
        leftovers: data files that no manifest entry names: remains of batches that were cut, not counted.
        problems: gaps and missing files, in words; an exactly-once output has none.
        repeated: rows that a sink that is at-least-once wrote again, not counted; None: the sink repeats none.
        notes: what else a reader of the journal may want to know.
        types: column -> each type that it has in the output; files, or records of a topic, may differ. A column that is
            not here can be of any.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]] = field(repr=False)
    manifest: Manifest | None = None
    files: int = 0
    leftovers: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    repeated: int | None = None
    notes: Mapping[str, object] = field(default_factory=dict)
    types: Mapping[str, Sequence[ColumnType]] = field(default_factory=dict)

    @property
    def all_types(self) -> dict[str, Sequence[ColumnType]]:
        """Every column with its types, the ones without a known type too."""
        return {name: self.types.get(name, ()) for name in self.columns}

    def keyed(self, keys: Sequence[str], values: Sequence[str]) -> list[tuple[tuple[object, ...], tuple[object, ...]]]:
        """The rows as (key, values). A column that is not there is null in each row."""
        if not self.rows:
            return []
        at = {name: index for index, name in enumerate(self.columns)}

        def taken(row: tuple[object, ...], names: Sequence[str]) -> tuple[object, ...]:
            return tuple([row[at[name]] if name in at else None for name in names])

        return [(taken(row, keys), taken(row, values)) for row in self.rows]


def read_output(
    path: Path | str, *, connection: str | None = None, committed: int | None = None, first: int = 0
) -> Output:
    """Read the parquet output under `path`.

    Args:
        connection: to the object store that it is in; see `open_path`.
        committed: the query's newest committed batch: the manifest must have an entry for each batch up to it.
        first: first batch that the manifest must know (a fork's output may begin later than batch 0).

    A data file that cannot be read is a problem, and its rows are not in the output: Spark cannot read them either.
    Raises VerificationError if the folder is not there, the storage does not answer, or a manifest entry cannot be
    understood.
    """
    root = open_path(path, connection)
    try:
        on_disk = sorted(name for name, _ in root.walk(skip=_hidden) if name.endswith(".parquet"))
        manifest = _manifest(root, committed, first)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise VerificationError(
            "there is no output",
            expected="a folder of parquet files",
            where=root.path,
            next_step="let the stream commit a batch first",
        ) from error
    except OSError as error:
        raise _unreadable(root.path, error) from error
    if manifest is None:
        problems = []
        if committed is not None:
            problems.append(f"{committed + 1 - first} committed batches and no {MANIFEST} in {root.path}")
        data = read_files(root, [(root / name).path for name in on_disk])
        problems += [_not_read(file, said) for file, said in data.unreadable]
        return Output(
            columns=data.columns, rows=data.rows, files=len(on_disk), problems=tuple(problems), types=data.types
        )
    missing = set(manifest.missing)
    present = [file for file in manifest.files if file not in missing]
    named = {_real(root.fs, file) for file in present}
    data = read_files(root, present)
    return Output(
        columns=data.columns,
        rows=data.rows,
        types=data.types,
        manifest=manifest,
        files=len(present),
        leftovers=tuple(name for name in on_disk if _real(root.fs, (root / name).path) not in named),
        problems=(
            *(f"the manifest has no entry for the committed batch {batch}" for batch in manifest.gaps),
            *(f"the manifest names {file_name(file)}, which is not there" for file in manifest.missing),
            *(_not_read(file, said) for file, said in data.unreadable),
        ),
    )


def _manifest(root: Location, committed: int | None, first: int) -> Manifest | None:
    """The manifest of the output folder `root`, None if it has none; what a batch needs is one readable entry, its own
    or a compact one that came later. An empty entry is a gap: Spark writes at least the version line.

    Raises VerificationError for an entry that cannot be understood.
    """
    entries = {}
    try:
        names = (root / MANIFEST).names()
    except (FileNotFoundError, NotADirectoryError):
        return None
    for name in names:
        match = _ENTRY.fullmatch(name)
        if match and (lines := _lines((root / MANIFEST / name).read())) is not None:
            entries[int(match.group(1)), match.group(2) is not None] = lines
    compact = max((batch for batch, whole in entries if whole), default=None)
    later = sorted(batch for batch, whole in entries if not whole and (compact is None or batch > compact))
    chosen = [entries[compact, True]] if compact is not None else []
    chosen += [entries[batch, False] for batch in later]
    newest = later[-1] if later else compact
    last = max((batch for batch in (committed, newest) if batch is not None), default=-1)
    due = range(first if compact is None else compact + 1, last + 1)
    files = _files(root, chosen)
    return Manifest(
        newest=newest,
        files=files,
        gaps=tuple(batch for batch in due if batch not in set(later)),
        missing=tuple(file for file in files if not _is_file(Location(root.fs, file))),
    )


def _is_file(file: Location) -> bool:
    try:
        return not file.stat().is_dir
    except (FileNotFoundError, NotADirectoryError):
        return False


def _lines(content: bytes) -> list[str] | None:
    lines = content.decode("utf-8").splitlines()
    if not lines or not lines[0].startswith("v"):
        return None
    return lines[1:]


def _files(root: Location, entries: Iterable[list[str]]) -> tuple[str, ...]:
    """Files that were added and not deleted. The same file named twice is read twice: that is what a reader sees."""
    files: list[str] = []
    for line in (line for entry in entries for line in entry):
        try:
            status = json.loads(line)
            file, action = _place(root.fs, status["path"]), status["action"]
        except (ValueError, KeyError, TypeError) as error:
            raise VerificationError(
                f"an entry of the manifest reads {line!r}",
                expected="a JSON object with path and action",
                where=(root / MANIFEST).path,
                next_step="restore the manifest; Spark cannot read this output either",
            ) from error
        if action == "add":
            files.append(file)
        elif action == "delete":
            files = [each for each in files if each != file]
        else:
            raise VerificationError(
                f"an entry of the manifest has the action {action!r}",
                expected="add or delete",
                where=(root / MANIFEST).path,
                next_step="read this output with the Spark version that wrote it",
            )
    return tuple(files)


def _place(fs: FileSystem, uri: str) -> str:
    """A file that the manifest names. Raises ValueError if it is on another file system than its manifest."""
    return str(local_path(uri)) if isinstance(fs, LocalFiles) else to_path(uri)


def _real(fs: FileSystem, path: str) -> str:
    return os.path.realpath(path) if isinstance(fs, LocalFiles) else path


def local_path(uri: str) -> Path:
    """The local path of Spark's percent-encoded `file:` URI (a bare path is encoded in the same way).

    Raises ValueError for another scheme: this reader opens local files.
    """
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file"):
        raise ValueError(f"{uri} is not a local file")
    return Path(unquote(parts.path))


def _hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def _not_read(file: str, said: str) -> str:
    return f"the data file {file_name(file)} cannot be read, and its rows are lost: {said}"


def _unreadable(root: str, error: OSError) -> VerificationError:
    return VerificationError(
        f"the output cannot be read: {error}",
        expected="a folder of parquet files",
        where=root,
        next_step="see that the storage is reachable and the credentials are right",
    )
