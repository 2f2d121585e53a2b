"""Checks that a state file can be read. Every byte of it is compared with a checksum, in pieces of a few MB.

- Every file: Hadoop's checksum file, if the storage keeps one. It finds a single flipped bit.
- RocksDB snapshots: each member of the zip file; the files under SSTs/ that its manifest names are there, in the size
  that it says, each a whole table: its footer, and every block against its own checksum.
- LZ4 streams (changelogs, deltas, HDFS-backed snapshots): every block against its own checksum, and the record that
  ends the content.
"""

import io
import json
from collections.abc import Mapping
from typing import Final, cast

from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.changes import ends, read_lineage
from streamwarden.checkpoint.formats.layout import Damaged, checked
from streamwarden.checkpoint.formats.lz4_stream import CUT, blocks
from streamwarden.checkpoint.formats.sst import check_table
from streamwarden.checkpoint.formats.state import SSTS, FileKind, StateFile, StateStore
from streamwarden.checkpoint.formats.zip_stream import members, packed_at

_PIECE: Final = 4 << 20
"""Bytes that are read at a time: each read of an object store is a request."""
_COMPARED: Final = 3
"""Other snapshots of a store that the one to be loaded is compared with."""
_SAME_TIME: Final = 2.5
"""Seconds; a zip file states times to 2 seconds."""
_MANIFEST: Final = "metadata"
_CURRENT: Final = "CURRENT"
"""Members of a snapshot: Spark's list of its files, and the name of RocksDB's own manifest."""


def check_state_file(checkpoint: Location, store: StateStore, file: StateFile, codec: str) -> None:
    """Raises Damaged if Spark cannot have written the file, or one that it names, like this; FileNotFoundError.
    `codec`: `spark.sql.streaming.stateStore.compression.codec`; only `lz4` streams are checked."""
    folder = checkpoint / store.folder
    covered = _covered(folder / file.name, file.size)
    if file.kind is FileKind.ZIP:
        for sst, size in snapshot_files(folder / file.name).items():
            name = join(SSTS, sst)
            if name not in store.other:
                raise Damaged(f"it needs {name}, which is missing")
            if store.other[name] != size:
                raise Damaged(f"it needs {name} with {size} bytes, which has {store.other[name]}")
            _check_table(folder / name, name, size)
        if covered is None:
            _check_version(folder, store, file)
    elif codec == "lz4":
        _check_lz4(folder / file.name)
        if file.kind is FileKind.CHANGELOG and file.unique_id is not None:
            _check_lineage(folder / file.name, store, file.version)
    elif file.size == 0:
        raise Damaged("the file is empty")


def snapshot_files(file: Location) -> Mapping[str, int]:
    """File under SSTs/ -> bytes, as the manifest inside a RocksDB snapshot says. Raises Damaged."""
    try:
        with file.open() as stream:
            contents = dict(members(stream))
        text = contents[_MANIFEST].decode("utf-8").partition("\n")[2]  # after the version line
        files = {str(table["dfsSstFileName"]): table["sizeBytes"] for table in json.loads(text)["sstFiles"]}
        named = contents[_CURRENT].decode("utf-8").strip()
    except KeyError as error:
        raise Damaged(f"the zip file has no {error}") from error
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise Damaged(f"the manifest in the zip file cannot be read: {error}") from error
    if named not in contents:
        raise Damaged(f"the zip file has no {named[:40]!r}")
    if not all(isinstance(size, int) for size in files.values()):
        raise Damaged("the manifest in the zip file states no sizes")
    return files


def has_tables(checkpoint: Location, store: StateStore, snapshot: StateFile) -> bool:
    """Whether every file that a snapshot names is listed. Raises OSError."""
    if snapshot.kind is not FileKind.ZIP:
        return True
    try:
        named = snapshot_files(checkpoint / store.folder / snapshot.name)
    except Damaged:
        return False
    return all(join(SSTS, name) in store.other for name in named)


def _check_version(folder: Location, store: StateStore, file: StateFile) -> None:
    """Check that a snapshot is not that of another version: nothing inside it names its own. Raises Damaged if it
    equals another one, or if the two were packed in the opposite order of when they were written."""
    others = [other for other in store.files if other.kind is FileKind.ZIP and other.name != file.name][-_COMPARED:]
    own = _times(folder / file.name) if others else None
    for other in others:
        if other.size == file.size and (folder / other.name).read() == (folder / file.name).read():
            raise Damaged(f"it has the content of {other.name}")
        times = _times(folder / other.name)
        if own is None or times is None:
            continue
        apart, packed_apart = own[0] - times[0], own[1] - times[1]
        if abs(apart) > _SAME_TIME and apart * packed_apart < 0 and abs(apart + packed_apart) <= 2 * _SAME_TIME:
            raise Damaged(f"it and {other.name} were exchanged: each was packed when the other was written")


def _times(file: Location) -> tuple[float, float] | None:
    """Times at which a snapshot was written and packed; None if either is unknown."""
    with file.open() as stream:
        packed = packed_at(stream)
    written = file.stat().modified
    return None if packed is None or written is None else (written, packed)


def _check_lineage(file: Location, store: StateStore, version: int) -> None:
    """A changelog of checkpoint format 2 names the versions before its own. Raises Damaged."""
    lineage = read_lineage(file)
    follows = any(state_file.version == version - 1 and state_file.unique_id is not None for state_file in store.files)
    if lineage is not None and max(lineage, default=version - 1 if not follows else 0) != version - 1:
        raise Damaged(f"it has the changes of version {max(lineage, default=0) + 1}")


def _check_table(file: Location, name: str, size: int) -> None:
    try:
        _covered(file, size)
        with _open(file) as stream:
            check_table(stream, size)
    except Damaged as error:
        raise Damaged(f"it needs {name}, but {error}") from error


def _covered(file: Location, size: int) -> int | None:
    """As `checked`. A file that its checksum file covers in part is cut off for Spark. Raises Damaged."""
    covered = checked(file)
    if covered is not None and covered < size:
        raise Damaged(f"its checksum file covers {covered} of its {size} bytes, and Spark reads no more")
    return covered


def _check_lz4(file: Location) -> None:
    with _open(file) as stream:
        plain = blocks(stream)
        whole = ends(plain)
        for _ in plain:
            pass  # Spark reads no further, but a block after the end of the records is no less damaged
    if not whole:
        raise Damaged(CUT)


def _open(file: Location) -> io.BufferedReader:
    return io.BufferedReader(cast(io.RawIOBase, file.open()), _PIECE)
