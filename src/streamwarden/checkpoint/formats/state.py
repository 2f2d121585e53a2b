"""The state directory: the versions of each partition's store, their sizes, and what a load would read.

State version N+1 is the state after batch N; version 0 is empty. A store loads version V from its newest snapshot at or
below V and the changelogs (HDFS-backed: deltas) after it, one a version.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain as concatenate
from itertools import islice
from typing import Final

from streamwarden.checkpoint.filesystem import FileInfo, Location, join
from streamwarden.checkpoint.formats.layout import MOST_GAPS, STATE, batch_ids, gaps, list_or_empty
from streamwarden.checkpoint.formats.logs import unreadable

DEFAULT_STORE: Final = "default"
SSTS: Final = "SSTs"

_NAME: Final = r"([0-9]{1,18})(?:_([0-9a-f-]{36}))?\.(zip|snapshot|changelog|delta)"
_VERSIONED: Final = re.compile(_NAME)
_VERSIONS: Final = re.compile(rf"(?:\A|/){_NAME}(?=/|\Z)")
"""`_VERSIONED` in a text of names with `/` between them: one search is quicker than one for each name."""
_DEEPEST: Final = 3
_MOST_FOLDERS: Final = 10_000
"""Operators, or partitions of one operator, that are read. Spark numbers them without a gap."""
_NOT_STORES: Final = frozenset({SSTS, "logs", "archive"})


class FileKind(StrEnum):
    """Kind of a versioned state file; the value is the suffix of its name."""

    ZIP = "zip"  # RocksDB snapshot: a manifest that names files under SSTs/
    SNAPSHOT = "snapshot"  # HDFS-backed snapshot
    CHANGELOG = "changelog"  # RocksDB, changes of one version
    DELTA = "delta"  # HDFS-backed, changes of one version

    @property
    def is_snapshot(self) -> bool:
        return self is FileKind.ZIP or self is FileKind.SNAPSHOT


_KINDS: Final = {kind.value: kind for kind in FileKind}
"""Quicker than the enumeration itself: an evaluation asks for each file of each state."""
_SNAPSHOTS: Final = frozenset(kind.value for kind in FileKind if kind.is_snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """One versioned file. `unique_id`: of checkpoint format 2, where two attempts at a version do not collide."""

    name: str
    version: int
    kind: FileKind
    size: int
    unique_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Files that Spark reads to load one version.

    Args:
        snapshot: the snapshot it starts from; None: it starts from the empty version 0.
        changes: changelogs or deltas that are replayed, ascending.
        missing: versions whose changes are needed and missing, the first `MOST_GAPS`.
    """

    version: int
    snapshot: StateFile | None
    changes: tuple[StateFile, ...]
    missing: tuple[int, ...]

    @property
    def complete(self) -> bool:
        return not self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDebt:
    """Changes that one store would replay if the query were restarted now.

    Args:
        snapshot: version of the newest uploaded snapshot; None if none was uploaded.
        newest: newest version written; versions: how many are between the two, each a changelog to replay.
        changelog_bytes: bytes of these changelogs.
    """

    snapshot: int | None
    newest: int
    changelog_bytes: int

    @property
    def versions(self) -> int:
        return self.newest - (self.snapshot or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateStore:
    """One store of one partition of one operator: names and sizes, without opening a file.

    Args:
        folder: below the checkpoint, such as `state/0/3` or `state/0/3/left-keyToNumValues`.
        other: files without a version (`SSTs/…`, `_metadata/…`), as path below the folder -> bytes.
    """

    operator: int
    partition: int
    name: str
    folder: str
    files: tuple[StateFile, ...]
    other: dict[str, int]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files) + sum(self.other.values())

    @property
    def newest(self) -> int:
        """The newest version that something was written for; 0 if there is none."""
        return max((file.version for file in self.files), default=0)

    @property
    def snapshots(self) -> tuple[int, ...]:
        return tuple(sorted({file.version for file in self.files if file.kind.is_snapshot}))

    @property
    def changelogs(self) -> tuple[int, ...]:
        return tuple(sorted({file.version for file in self.files if not file.kind.is_snapshot}))

    @property
    def kept_since(self) -> int | None:
        """The oldest version from which on each one, up to the newest, can be loaded; None: the newest cannot."""
        return _kept_since(self.snapshots, self.changelogs)

    @property
    def replay(self) -> ReplayDebt:
        """What a restart would replay. A store that writes a snapshot with every version has nothing to replay."""
        snapshot = max(self.snapshots, default=None)
        changes = (file for file in self.files if not file.kind.is_snapshot and file.version > (snapshot or 0))
        return ReplayDebt(snapshot=snapshot, newest=self.newest, changelog_bytes=sum(file.size for file in changes))

    def load(self, version: int, *, without: frozenset[str] = frozenset()) -> Load:
        """The files that Spark reads to load `version`; `without` names files to ignore."""
        return next(self.loads(version, without=without))

    def loads(self, version: int, *, without: frozenset[str] = frozenset()) -> Iterator[Load]:
        """Every way to load `version`, in the order in which Spark tries: from each snapshot, then from nothing."""
        usable = [file for file in self.files if file.version <= version and file.name not in without]
        snapshots = sorted((f for f in usable if f.kind.is_snapshot), key=lambda file: file.version, reverse=True)
        yield from (self._load_from(snapshot, usable, version) for snapshot in (*snapshots, None))

    def _load_from(self, snapshot: StateFile | None, usable: Sequence[StateFile], version: int) -> Load:
        base = 0 if snapshot is None else snapshot.version
        changes = {file.version: file for file in usable if not file.kind.is_snapshot and file.version > base}
        return Load(
            version=version,
            snapshot=snapshot,
            changes=tuple(changes[number] for number in sorted(changes)),
            missing=tuple(islice(concatenate.from_iterable(gaps(sorted(changes), base + 1, version)), MOST_GAPS)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptVersions:
    """The versions of one store of one partition, as the names of its files say.

    Args:
        snapshot: the newest one with a snapshot, None if there is none; newest: the newest one of all, 0 if there is
            none; kept_since: see `StateStore.kept_since`.
    """

    operator: int
    partition: int
    snapshot: int | None
    newest: int
    kept_since: int | None


def kept_versions(checkpoint: Location) -> tuple[KeptVersions, ...]:
    """The versions of every store under `state/`, as `state_stores` finds them, by the names alone. That takes a fifth
    of the time, because no file is looked at. Raises CheckpointError if the storage cannot be read."""
    try:
        return tuple(
            _versions(operator, partition, names)
            for operator in _numbered(checkpoint / STATE)
            for partition in _numbered(checkpoint / STATE / str(operator))
            for names in _names_of_stores(checkpoint / STATE / str(operator) / str(partition))
        )
    except OSError as error:
        raise unreadable(checkpoint, error) from error


def _names_of_stores(folder: Location) -> Iterator[Sequence[str]]:
    """The names of the files of each store in a partition's folder: one store, or a folder for each."""
    names = list_or_empty(folder)
    if any(map(_VERSIONED.fullmatch, names)) or not any(map(_is_store, names)):
        yield names
        return
    folders = sorted(entry.name for entry in _entries(folder) if entry.is_dir and _is_store(entry.name))
    yield from (list_or_empty(folder / name) for name in folders) if folders else (names,)


def _versions(operator: int, partition: int, names: Iterable[str]) -> KeptVersions:
    found = _VERSIONS.findall("/".join(names))
    snapshots = {int(version) for version, _, kind in found if kind in _SNAPSHOTS}
    changes = {int(version) for version, _, kind in found if kind not in _SNAPSHOTS}
    return KeptVersions(
        operator=operator,
        partition=partition,
        snapshot=max(snapshots, default=None),
        newest=max(snapshots | changes, default=0),
        kept_since=_kept_since(snapshots, sorted(changes)),
    )


def _kept_since(snapshots: Iterable[int], changes: Iterable[int]) -> int | None:
    """`changes`: ascending."""
    whole, newest = {0, *snapshots}, max((0, *snapshots))
    for version in changes:
        newest = max(newest, version)
        if version - 1 in whole:
            whole.add(version)
    oldest, version = None, newest
    while version > 0 and version in whole:
        oldest, version = version, version - 1
    return oldest


def state_stores(checkpoint: Location) -> tuple[StateStore, ...]:
    """Every store under `state/`, by operator, partition and name. Lists folders, opens nothing; safe while it runs.

    A checkpoint without state has none. Raises CheckpointError if the storage cannot be read.
    """
    try:
        stores: list[StateStore] = []
        for operator in _numbered(checkpoint / STATE):
            for partition in _numbered(checkpoint / STATE / str(operator)):
                stores += _stores(checkpoint, operator, partition)
        return tuple(stores)
    except OSError as error:
        raise unreadable(checkpoint, error) from error


def _stores(checkpoint: Location, operator: int, partition: int) -> list[StateStore]:
    folder = join(STATE, str(operator), str(partition))
    entries = _entries(checkpoint / folder)
    named = [entry.name for entry in entries if entry.is_dir and _is_store(entry.name)]
    if not named or any(_VERSIONED.fullmatch(entry.name) for entry in entries if not entry.is_dir):
        return [_store(checkpoint, operator, partition, DEFAULT_STORE, folder, entries)]
    stores = []
    for name in sorted(named):
        inner = join(folder, name)
        stores.append(_store(checkpoint, operator, partition, name, inner, _entries(checkpoint / inner)))
    return stores


def _store(
    checkpoint: Location, operator: int, partition: int, name: str, folder: str, entries: Sequence[FileInfo]
) -> StateStore:
    files = []
    other: dict[str, int] = {}
    for entry in entries:
        if entry.is_dir:
            other |= _below(checkpoint / folder, entry.name)
        elif match := _VERSIONED.fullmatch(entry.name):
            kind = _KINDS[match.group(3)]
            version, unique_id = int(match.group(1)), match.group(2)
            files.append(StateFile(name=entry.name, version=version, kind=kind, size=entry.size, unique_id=unique_id))
        elif not is_scratch(entry.name):
            other[entry.name] = entry.size
    return StateStore(
        operator=operator,
        partition=partition,
        name=name,
        folder=folder,
        files=tuple(sorted(files, key=lambda file: (file.version, file.name))),
        other=other,
    )


def is_scratch(name: str) -> bool:
    """Whether it is a temporary or checksum file, which is never part of a checkpoint's content."""
    return name.startswith(".") or name.endswith((".tmp", ".crc"))


def _below(folder: Location, name: str, depth: int = 1) -> dict[str, int]:
    """Files in a folder and in those below it. Spark's are at most two deep; a link may lead back to where it is."""
    sizes: dict[str, int] = {}
    for entry in _entries(folder / name):
        inner = join(name, entry.name)
        if entry.is_dir:
            sizes |= _below(folder, inner, depth + 1) if depth < _DEEPEST else {}
        elif not is_scratch(entry.name):
            sizes[inner] = entry.size
    return sizes


def _is_store(name: str) -> bool:
    return not name.startswith((".", "_")) and name not in _NOT_STORES


def _numbered(folder: Location) -> list[int]:
    return batch_ids(entry.name for entry in _entries(folder) if entry.is_dir)[:_MOST_FOLDERS]


def _entries(folder: Location) -> Sequence[FileInfo]:
    try:
        return folder.entries()
    except (FileNotFoundError, NotADirectoryError):  # purged meanwhile, or a query without state
        return ()
