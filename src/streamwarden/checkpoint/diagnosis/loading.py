"""Simulates how Spark 4.3 loads one store, step by step, and finds where that fails.

1. Take the newest snapshot at or below the wanted version; without one, the empty state.
2. If that snapshot cannot be read, a RocksDB store without changelogs fails. Every other store takes the next older
   snapshot, down to the empty state, but none more than `MOST_REPLAYED` versions back.
3. Replay the changes after the snapshot, version by version. The first one that is missing or damaged ends the start:
   the changes after an older snapshot include those after a newer one, so there is no alternative.

Checkpoint format 2 gives each attempt at a version its own name. Only the attempts in the newest changelog's lineage
count, and the snapshot with which the lineage begins must exist: Spark does not look for an older one instead.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from streamwarden.checkpoint.diagnosis.damage import Damage, fails_first_batch, recovers
from streamwarden.checkpoint.filesystem import Location, NotAFile, join
from streamwarden.checkpoint.formats.changes import read_lineage
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.state import FileKind, Load, StateFile, StateStore
from streamwarden.checkpoint.integrity import check_state_file

CANNOT_LOAD: Final = "CANNOT_LOAD_STATE_STORE"
NO_FILE: Final = f"{CANNOT_LOAD}.CANNOT_READ_STREAMING_STATE_FILE"
NO_DELTA: Final = f"{CANNOT_LOAD}.CANNOT_READ_DELTA_FILE_NOT_EXISTS"
UNREADABLE: Final = f"{CANNOT_LOAD}.UNCATEGORIZED"
"""Spark reports almost every exception of a load as this class: an I/O error, a bad checksum, a repair that found no
snapshot (whose own class, AUTO_SNAPSHOT_REPAIR_FAILED, is only in the cause)."""

_SHOWN: Final = 10
"""Missing changes of one store that are findings: a stray file in the logs may make them millions."""
MOST_REPLAYED: Final = 50
"""Versions; the default of `spark.sql.streaming.stateStore.autoSnapshotRepair.maxChangeFileReplay`."""


def diagnose_load(
    checkpoint: Location, store: StateStore, version: int, *, ids: Collection[str], codec: str
) -> Iterator[Damage]:
    """Damage in the files that Spark reads to load `version` of a store.

    Args:
        ids: unique ids of the newest commit (checkpoint format 2); empty in format 1.
        codec: as the checkpoint has fixed it; a lineage is read from `lz4` changelogs only.
    """
    lost = None
    if ids:
        store, lost = _of_lineage(checkpoint, store, version, ids, codec)
    ways = store.loads(version)
    first = next(ways)
    broken = _unreadable(checkpoint, store, first.snapshot, codec)
    if lost is not None:
        what = "the snapshot is missing; the changelogs after it build on it"
        yield fails_first_batch(join(store.folder, lost), what, UNREADABLE)
        return
    if broken is None:
        yield from (damage for _, damage in _replay(checkpoint, store, first, codec))
        return
    newest = first.snapshot
    assert newest is not None  # the empty state is never broken
    where = join(store.folder, newest.name)
    if not store.changelogs:
        yield fails_first_batch(where, broken, UNREADABLE)
        return
    way, worse = _repair(checkpoint, store, ways, codec)
    for file, what in worse.items():
        yield _skipped(join(store.folder, file), what)
    if way is None:
        what = f"{broken}; no snapshot within {MOST_REPLAYED} versions can replace it"
        yield fails_first_batch(where, what, UNREADABLE)
        return
    stopped = list(_replay(checkpoint, store, way, codec))
    if stopped:
        error_class = stopped[0][0]
        yield fails_first_batch(where, f"{broken}, and the changes from {_start(way)} on are incomplete", error_class)
        yield from (damage for _, damage in stopped)
        return
    spark = f"Spark 4.1 and later repair it: they replay the changes from {_start(way)} on. Earlier versions refuse."
    yield recovers(where, broken, spark, "start the stream; its first batch takes longer")


def _repair(
    checkpoint: Location, store: StateStore, ways: Iterator[Load], codec: str
) -> tuple[Load | None, dict[str, str]]:
    """The first way whose snapshot can be read, and what is wrong with those before it."""
    worse: dict[str, str] = {}
    for way in ways:
        start = way.snapshot.version if way.snapshot else 0
        if way.version - start > MOST_REPLAYED:
            break
        broken = _unreadable(checkpoint, store, way.snapshot, codec)
        if broken is None:
            return way, worse
        assert way.snapshot is not None
        worse[way.snapshot.name] = broken
    return None, worse


def _replay(checkpoint: Location, store: StateStore, way: Load, codec: str) -> Iterator[tuple[str, Damage]]:
    """Each change that is missing or damaged, in the order in which Spark meets them: all fail as the first does."""
    there = {file.version: file for file in way.changes}
    error_class = None
    for version in sorted({*there, *way.missing[:_SHOWN]}):
        file = there.get(version)
        if file is None:
            name, missing = _missing_name(store, version)
            what = f"the file is missing; version {way.version} needs it"
            error_class = error_class or missing
        else:
            name, problem = file.name, _unreadable(checkpoint, store, file, codec)
            if problem is None:
                continue
            what = problem
            error_class = error_class or UNREADABLE
        yield error_class, fails_first_batch(join(store.folder, name), what, error_class)


def _of_lineage(
    checkpoint: Location, store: StateStore, version: int, ids: Collection[str], codec: str
) -> tuple[StateStore, str | None]:
    """The store with only the attempts that count, and the name of the lineage's snapshot if it is missing."""
    store = replace(
        store, files=tuple(file for file in store.files if file.version != version or file.unique_id in ids)
    )
    if version in store.snapshots or codec != "lz4":
        return store, None
    changelog = next((file for file in store.files if file.version == version), None)
    try:
        lineage = read_lineage(checkpoint / store.folder / changelog.name) if changelog else None
    except Damaged:
        lineage = None  # the replay of the changes reports it
    if not lineage:
        return store, None
    files = tuple(file for file in store.files if lineage.get(file.version, file.unique_id) == file.unique_id)
    store, base = replace(store, files=files), min(lineage)
    if base > 1 and not any(base <= snapshot <= version for snapshot in store.snapshots):
        return store, f"{base}_{lineage[base]}.{FileKind.ZIP.value}"
    return store, None


def _unreadable(checkpoint: Location, store: StateStore, file: StateFile | None, codec: str) -> str | None:
    """Reason why a file cannot be read; None if it can, or if there is none to read."""
    if file is None:
        return None
    try:
        check_state_file(checkpoint, store, file, codec)
    except Damaged as error:
        return str(error)
    except (IsADirectoryError, NotAFile):
        return "it is not a regular file"
    return None


def _skipped(path: str, what: str) -> Damage:
    spark = "Spark skips it in its search for a snapshot to repair the newest one from."
    return recovers(path, what, spark, "see the row of the newest snapshot")


def _start(way: Load) -> str:
    return way.snapshot.name if way.snapshot else "the empty state"


def _missing_name(store: StateStore, version: int) -> tuple[str, str]:
    kinds = {file.kind for file in store.files}
    if FileKind.DELTA in kinds or FileKind.SNAPSHOT in kinds:
        return f"{version}.{FileKind.DELTA.value}", NO_DELTA
    return f"{version}.{(FileKind.CHANGELOG if FileKind.CHANGELOG in kinds else FileKind.ZIP).value}", NO_FILE
