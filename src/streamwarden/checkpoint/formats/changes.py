"""The files that record the rows that one version changed: changelogs (RocksDB) and deltas (HDFS-backed).

Both are LZ4 streams of records: a length and the key, a length (-1: removed) and the value. A store with column
families (transformWithState) puts a byte before each record that says what it is. The file begins with its version as
text: none (1), `v2` with families, `v3` and `v4` the same two with a lineage after it (checkpoint format 2).

The lineage says which attempt at each version this one was built on. It begins with the last snapshot that was uploaded
before (or with version 1), and ends one version before its own. So it also names a snapshot that must exist.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.lz4_stream import HEAD, MAGIC, blocks

_TYPED: Final = {"v2": True, "v3": False, "v4": True}
_WITH_LINEAGE: Final = ("v3", "v4")
_LONGEST_START: Final = 4 + 2 + (1 << 16)
"""Bytes of the version and of a lineage, with their lengths of two bytes."""
_LENGTH: Final = struct.Struct(">i")
_PUT: Final = 0x01
_END: Final = 0x00


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSizes:
    """Sums over sampled rows that were put, in bytes as they are stored: UnsafeRow or Avro, without their lengths."""

    rows: int = 0
    keys: int = 0
    values: int = 0

    def __add__(self, other: RowSizes) -> RowSizes:
        return RowSizes(rows=self.rows + other.rows, keys=self.keys + other.keys, values=self.values + other.values)


def sample_rows(file: Location, rows: int) -> RowSizes:
    """The first `rows` of a changelog or delta. Raises Damaged if the LZ4 stream is incomplete up to there."""
    with file.open() as stream:
        return _sampled(stream, rows)


def plain_bytes(file: Location) -> int:
    """Bytes of an LZ4 stream before compression, from the heads of its blocks alone. Raises Damaged."""
    total = 0
    with file.open() as stream:
        while True:
            head = stream.read(HEAD)
            if len(head) < HEAD or head[: len(MAGIC)] != MAGIC:
                raise Damaged("a block of the LZ4 stream has no magic bytes")
            _, stored, plain, _ = struct.unpack("<BIII", head[len(MAGIC) :])
            if plain == 0:
                return total
            total += plain
            stream.seek(stored, 1)


def read_lineage(file: Location) -> dict[int, str] | None:
    """Version -> unique id, from an LZ4 changelog; None if its format has no lineage. Raises Damaged."""
    with file.open() as stream:
        content = _start(blocks(stream))
    version, position = _string(content, 0)
    if version not in _WITH_LINEAGE:
        return None
    text, position = _string(content, position)
    if position > len(content):
        raise Damaged("it is cut off within its lineage")
    try:
        return {int(entry["version"]): str(entry["checkpointUniqueId"]) for entry in json.loads(text)}
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"its lineage cannot be read: {text[:60]!r}") from error


def ends(plain: Iterator[bytes]) -> bool:
    """Whether the records of a whole file end as Spark ends them: with a length of -1, or with its mark. `plain`: the
    file, decompressed, in blocks. It holds one of them at a time, so a file of any size can be read; of a length that
    goes beyond a block it skips what follows."""
    content = _start(plain)
    position, typed = _records(content)
    is_key = True
    while True:
        size = len(content)
        while position + _LENGTH.size + (typed and is_key) <= size:
            if typed and is_key:
                if content[position] == _END:
                    return True
                position += 1
            (length,) = _LENGTH.unpack_from(content, position)
            if is_key and length < 0:
                return bool(length == -1)
            position += _LENGTH.size + max(length, 0)
            is_key = not is_key
        following = next(plain, None)
        if following is None:
            return typed and is_key and content[position : position + 1] == bytes([_END])
        content, position = content[position:] + following, max(0, position - size)


def _sampled(stream: BinaryIO, most: int) -> RowSizes:
    content = bytearray()
    sizes = RowSizes()
    for block in blocks(stream):
        content += block
        sizes = _parse(bytes(content), most)
        if sizes.rows >= most or len(content) > (1 << 20):
            break
    return sizes


def _parse(content: bytes, most: int) -> RowSizes:
    position, typed = _records(content)
    rows = keys = values = 0
    while rows < most:
        kind = _PUT
        if typed:
            if position >= len(content) or content[position] == _END:
                break
            kind, position = content[position], position + 1
        key, position = _length(content, position)
        value, position = _length(content, position) if key >= 0 else (-1, position)
        if key < 0 or position > len(content):
            break  # the end of the stream, or of what was read of it
        if kind == _PUT and value >= 0:
            rows, keys, values = rows + 1, keys + key, values + value
    return RowSizes(rows=rows, keys=keys, values=values)


def _start(plain: Iterator[bytes]) -> bytes:
    """As many blocks as the version and a lineage can take."""
    content = b""
    while len(content) < _LONGEST_START and (block := next(plain, None)) is not None:
        content += block
    return content


def _records(content: bytes) -> tuple[int, bool]:
    """The position of the first record, and whether each record has a byte for its kind."""
    version, position = _string(content, 0)
    if version not in _TYPED:
        return 0, False
    if version in _WITH_LINEAGE:
        _, position = _string(content, position)
    return position, _TYPED[version]


def _string(content: bytes, position: int) -> tuple[str, int]:
    """A string as Java's DataOutput writes it, and its end, which is beyond the content of one that is cut off."""
    start = position + 2
    end = start + int.from_bytes(content[position:start], "big")
    return content[start:end].decode("utf-8", errors="replace"), end


def _length(content: bytes, position: int) -> tuple[int, int]:
    """A length, and the end position of what it measures."""
    if position + 4 > len(content):
        return -1, len(content) + 1
    size = _LENGTH.unpack_from(content, position)[0]
    return size, position + 4 + max(size, 0)
