"""RocksDB's files under SSTs/ (block-based tables): their footer and each block.

    blocks, each followed by its compression (1 byte) and its checksum (4 bytes)
    footer: checksum type (1 byte), where the metaindex and the index are (offset and size each, as varints), padding,
            version (4 bytes), magic number (8 bytes): 53 bytes

From version 6 on the footer has, instead of the two places, a mark, its own checksum, a number that all checksums are
mixed with, and the size of the metaindex (4 bytes each). The metaindex stands before the footer and names the index.

RocksDB cannot open a file whose footer is wrong, and fails when it reads a block that does not match its checksum.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO, Final

from lz4.block import LZ4BlockError, decompress
from xxhash import xxh3_64, xxh3_64_intdigest

from streamwarden.checkpoint.formats.layout import Damaged

FOOTER: Final = 53
_MAGIC: Final = 0x88E241B785F4CFF7
_TRAILER: Final = 5
_LAST_BYTE: Final = 0x6B9083D9
_CHECKSUMS: Final = range(1, 5)
_XXH3: Final = 4
_VERSIONS: Final = range(2, 7)
_IN_METAINDEX: Final = 6
"""From this version on the footer does not say where the index is."""
_MARK: Final = b"\x3e\x00\x7a\x00"
_INDEX: Final = b"rocksdb.index"
_WORD: Final = 0xFFFFFFFF
_DELTAS: Final = 4
"""From this version on the index has no lengths of its values, the places of blocks."""
_PLAIN, _LZ4 = 0, (4, 5)
_PIECE: Final = 1 << 20
"""Bytes of a block that are held at a time: a damaged footer may name an index of any size."""
_MOST_INDEX: Final = 64 << 20
"""Bytes of an index. One of a table of 64 MiB, the size that RocksDB aims at, has some hundred kB."""

_Place = tuple[int, int]
"""Offset and size of a block."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A table up to its footer. `mixed`: with each checksum, 0: with none."""

    stream: BinaryIO
    end: int
    mixed: int = 0

    def holds(self, place: _Place) -> bool:
        return sum(place) + _TRAILER <= self.end

    def checksum(self, digest: int, last_byte: int, offset: int) -> int:
        """Of what has this XXH3 without its last byte, and begins at this offset."""
        place = self.mixed ^ (offset + (offset >> 32)) & _WORD if self.mixed else 0
        return ((digest ^ last_byte * _LAST_BYTE) + place) & _WORD


def check_table(stream: BinaryIO, size: int) -> None:
    """Raises Damaged for a file that does not end as RocksDB's tables do, and for one with a damaged block."""
    if size < FOOTER:
        raise Damaged(f"it has {size} bytes, less than the footer of a table")
    stream.seek(-FOOTER, os.SEEK_END)
    footer = stream.read(FOOTER)
    version, magic = struct.unpack("<IQ", footer[-12:])
    if magic != _MAGIC:
        raise Damaged("it does not end with the magic number of a table")
    if version not in _VERSIONS or footer[0] not in _CHECKSUMS:
        raise Damaged(f"its footer names version {version} and checksum {footer[0]}, which RocksDB does not know")
    index: _Place | None = None
    if version >= _IN_METAINDEX:
        table, metaindex = _late_footer(stream, size - FOOTER, footer)
    else:
        table = _Table(stream, size - FOOTER)
        metaindex, at = _place(footer[1:-12], 0)
        index, _ = _place(footer[1:-12], at)
    if not all(table.holds(place) for place in (metaindex, index or metaindex)):
        raise Damaged("its footer names an index outside of the file")
    if footer[0] == _XXH3:
        _check_blocks(table, metaindex, index, deltas=version >= _DELTAS)


def _late_footer(stream: BinaryIO, end: int, footer: bytes) -> tuple[_Table, _Place]:
    """The table and its metaindex, of version 6. Raises Damaged."""
    mark, expected, mixed, length = struct.unpack_from("<4sIII", footer, 1)
    table, plain = _Table(stream, end, mixed), footer[:5] + bytes(4) + footer[9:]
    matches = table.checksum(xxh3_64_intdigest(plain[:-1]), plain[-1], end) == expected
    if mark != _MARK or end < length + _TRAILER or (footer[0] == _XXH3 and not matches):
        raise Damaged("its footer does not match its checksum")
    return table, (end - length - _TRAILER, length)


def _check_blocks(table: _Table, metaindex: _Place, index: _Place | None, *, deltas: bool) -> None:
    """Every block that the two indexes name, from the first to the last. Of an index of another kind than Spark's
    tables have it passes over what is no place."""
    others = dict(_named(_index(table, metaindex), deltas=False))
    index = index or others.get(_INDEX)
    named = () if index is None else (place for _, place in _named(_index(table, index), deltas=deltas))
    read_to = 0
    for place in chain(named, sorted(others.values())):  # the others stand after the blocks of rows
        if read_to <= place[0] and table.holds(place):
            _check_block(table, place)
            read_to = sum(place) + _TRAILER


def _index(table: _Table, place: _Place) -> bytes:
    """The plain bytes of an index; none if it is compressed in another way. Raises Damaged."""
    kind = _check_block(table, place)
    offset, length = place
    table.stream.seek(offset)
    block = table.stream.read(min(length, _MOST_INDEX))
    plain, at = _varint(block, 0) if kind in _LZ4 else (length, 0)
    if max(length, plain) > _MOST_INDEX:
        raise Damaged(f"its index at byte {offset} has more than {_MOST_INDEX:,} bytes")
    if kind == _PLAIN:
        return block
    if kind not in _LZ4:
        return b""
    try:
        content: bytes = decompress(memoryview(block)[at:], uncompressed_size=plain)
    except LZ4BlockError as error:
        raise Damaged(f"its index at byte {offset} cannot be decompressed") from error
    return content


def _check_block(table: _Table, place: _Place) -> int:
    """Compression of a block. Raises Damaged if it does not match its checksum."""
    offset, left = place
    table.stream.seek(offset)
    hashed = xxh3_64()
    while left and (piece := table.stream.read(min(left, _PIECE))):
        hashed.update(piece)
        left -= len(piece)
    trailer = table.stream.read(_TRAILER)
    if len(trailer) < _TRAILER:
        raise Damaged(f"it is cut off in its block at byte {offset}")
    kind, expected = struct.unpack("<BI", trailer)
    if table.checksum(hashed.intdigest(), kind, offset) != expected:
        raise Damaged(f"its block at byte {offset} does not match its checksum")
    return int(kind)


def _named(block: bytes, *, deltas: bool) -> Iterator[tuple[bytes, _Place]]:
    """The keys and places in an index, whose keys share nothing with the key before them."""
    if len(block) < 4:
        return
    end = len(block) - 4 * (1 + struct.unpack("<I", block[-4:])[0])
    at = 0
    try:
        while at < end:
            shared, at = _varint(block, at)
            size, at = _varint(block, at)
            _, at = (0, at) if deltas else _varint(block, at)
            if shared:
                return
            key = block[at : at + size]
            place, at = _place(block, at + size)
            yield key, place
    except Damaged:
        return


def _place(content: bytes, at: int) -> tuple[_Place, int]:
    offset, at = _varint(content, at)
    length, at = _varint(content, at)
    return (offset, length), at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number in groups of 7 bits, lowest first, and where it ends."""
    value = shift = 0
    while at < len(content) and shift < 70:
        byte = content[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
    raise Damaged("its footer cannot be read")
