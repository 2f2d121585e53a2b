"""Whether a state file can be read, checked as cheaply as possible.

- Every file: Hadoop's checksum file (`.NAME.crc`), if the file system keeps one: a CRC-32 for each 512 bytes. Finds a
  single flipped bit.
- RocksDB snapshots: the zip's directory and the CRC of each member; the files under SSTs/ that its manifest names are
  there in the size that it says.
- LZ4 streams (changelogs, deltas, HDFS-backed snapshots): where there is no checksum file (object stores, copies) and
  the file is small, every block against its own checksum; else the first block's mark and the empty block at the end,
  which only a whole stream has.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Final

from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.layout import Damaged
from streamwarden.checkpoint.lz4 import HEAD, MAGIC, blocks
from streamwarden.checkpoint.state import SSTS, FileKind, StateFile, StateStore

_CRC_MAGIC: Final = b"crc\x00"
_SMALL: Final = 1 << 20
"""Bytes of an LZ4 stream up to which it is read block by block: at most about a second."""


def check_state_file(checkpoint: Location, store: StateStore, file: StateFile, codec: str) -> None:
    """Raises Damaged if Spark cannot have written the file, or one that it names, like this; FileNotFoundError.

    Args:
        codec: `spark.sql.streaming.stateStore.compression.codec`; only `lz4` streams are checked.
    """
    folder = checkpoint / store.folder
    checked = check_crc(folder, file.name)
    if file.kind is FileKind.ZIP:
        for sst, size in snapshot_files(folder / file.name).items():
            name = join(SSTS, sst)
            if name not in store.other:
                raise Damaged(f"it needs {name}, which is missing")
            if store.other[name] != size:
                raise Damaged(f"it needs {name} with {size} bytes, which has {store.other[name]}")
            check_crc(folder / SSTS, sst)
    elif codec == "lz4":
        _check_lz4(folder / file.name, file.size, whole=not checked and file.size <= _SMALL)
    elif file.size == 0:
        raise Damaged("the file is empty")


def snapshot_files(file: Location) -> Mapping[str, int]:
    """File under SSTs/ -> bytes, as the manifest inside a RocksDB snapshot says. Raises Damaged."""
    try:
        with file.open() as raw, zipfile.ZipFile(raw) as archive:
            bad = archive.testzip()
            if bad is not None:
                raise Damaged(f"the zip's member {bad} does not match its checksum")
            text = archive.read("metadata").decode("utf-8").partition("\n")[2]  # after the version line
            files = json.loads(text)["sstFiles"]
            return {str(each["dfsSstFileName"]): int(each["sizeBytes"]) for each in files}
    except FileNotFoundError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise Damaged(f"not a complete zip file: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"the manifest in the zip file cannot be read: {error}") from error


def check_crc(folder: Location, name: str) -> bool:
    """Compare a file with Hadoop's checksum file; False if it has none. Raises Damaged."""
    try:
        sums = (folder / f".{name}.crc").read()
    except FileNotFoundError:
        return False
    if len(sums) < 8 or sums[:4] != _CRC_MAGIC:
        return False  # not a checksum file of Hadoop
    chunk = struct.unpack(">i", sums[4:8])[0]
    content = (folder / name).read()
    expected = struct.unpack(f">{(len(sums) - 8) // 4}I", sums[8 : 8 + (len(sums) - 8) // 4 * 4])
    actual = [zlib.crc32(content[start : start + chunk]) for start in range(0, len(content), chunk)]
    if len(actual) < len(expected):
        raise Damaged(f"it has {len(content)} bytes; its checksum file covers more than {len(actual) * chunk}")
    for index, (want, have) in enumerate(zip(expected, actual, strict=False)):
        if want != have:
            raise Damaged(
                f"bytes {index * chunk} to {min((index + 1) * chunk, len(content))} do not match its checksum"
            )
    return True


def _check_lz4(file: Location, size: int, *, whole: bool) -> None:
    with file.open() as stream:
        if whole or size < 2 * HEAD:
            for _ in blocks(stream):
                pass
            return
        if stream.read(len(MAGIC)) != MAGIC:
            raise Damaged("it is not an LZ4 stream")
        stream.seek(-HEAD, os.SEEK_END)
        end = stream.read(HEAD)
    if end[: len(MAGIC)] != MAGIC or any(end[len(MAGIC) + 1 :]):
        raise Damaged("the LZ4 stream has no end: the file is cut off")
