"""RocksDB's files under SSTs/ (block-based tables): their footer, and of small ones each block.

    blocks, each followed by its compression (1 byte) and its checksum (4 bytes)
    footer: checksum type (1 byte), where the metaindex and the index are (offset and size each, as varints), padding,
            version (4 bytes), magic number (8 bytes): 53 bytes

RocksDB cannot open a file whose footer is wrong, and fails when it reads a block that does not match its checksum.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.lz4 import decompress
from streamwarden.checkpoint.formats.xxh3 import xxh3

FOOTER: Final = 53
MOST: Final = 1 << 20
"""Bytes of a table up to which its blocks are read: some tenths of a second."""
_MAGIC: Final = 0x88E241B785F4CFF7
_TRAILER: Final = 5
_LAST_BYTE: Final = 0x6B9083D9
_CHECKSUMS: Final = range(1, 5)
_XXH3: Final = 4
_VERSIONS: Final = range(2, 7)
_IN_METAINDEX: Final = 6
"""From this version on the footer does not say where the index is."""
_DELTAS: Final = 4
"""From this version on the index has no lengths of its values, the places of blocks."""
_PLAIN, _LZ4 = 0, 4

_Place = tuple[int, int]
"""Offset and size of a block."""


def check_table(stream: BinaryIO, size: int) -> None:
    """Raises Damaged for a file that does not end as RocksDB's tables do, and for a small one with a damaged block."""
    if size < FOOTER:
        raise Damaged(f"it has {size} bytes, less than the footer of a table")
    stream.seek(-FOOTER, os.SEEK_END)
    footer = stream.read(FOOTER)
    version, magic = struct.unpack("<IQ", footer[-12:])
    if magic != _MAGIC:
        raise Damaged("it does not end with the magic number of a table")
    if version not in _VERSIONS or footer[0] not in _CHECKSUMS:
        raise Damaged(f"its footer names version {version} and checksum {footer[0]}, which RocksDB does not know")
    if version >= _IN_METAINDEX:
        return
    metaindex, at = _place(footer[1:-12], 0)
    index, _ = _place(footer[1:-12], at)
    if any(offset + length + _TRAILER > size - FOOTER for offset, length in (metaindex, index)):
        raise Damaged("its footer names an index outside of the file")
    if footer[0] == _XXH3 and size <= MOST:
        stream.seek(0)
        _check_blocks(stream.read(size), metaindex, index, deltas=version >= _DELTAS)


def _check_blocks(content: bytes, metaindex: _Place, index: _Place, *, deltas: bool) -> None:
    """Every block that the two indexes name. An index of another kind than Spark's tables have ends the check."""
    named = [*_named(_block(content, metaindex), deltas=False), *_named(_block(content, index), deltas=deltas)]
    for offset, length in named:
        if offset + length + _TRAILER <= len(content):
            _block(content, (offset, length))


def _block(content: bytes, place: _Place) -> bytes:
    """The plain bytes of a block; none if it is compressed in another way. Raises Damaged."""
    offset, length = place
    block, kind = content[offset : offset + length], content[offset + length]
    expected = struct.unpack_from("<I", content, offset + length + 1)[0]
    if (xxh3(block) ^ kind * _LAST_BYTE) & 0xFFFFFFFF != expected:
        raise Damaged(f"its block at byte {offset} does not match its checksum")
    if kind == _PLAIN:
        return block
    if kind != _LZ4:
        return b""
    plain, at = _varint(block, 0)
    return decompress(block[at:], plain)


def _named(block: bytes, *, deltas: bool) -> Iterator[_Place]:
    """The places in an index, whose keys share nothing with the key before them."""
    if len(block) < 4:
        return
    end = len(block) - 4 * (1 + struct.unpack("<I", block[-4:])[0])
    at = 0
    try:
        while at < end:
            shared, at = _varint(block, at)
            key, at = _varint(block, at)
            _, at = (0, at) if deltas else _varint(block, at)
            if shared:
                return
            place, at = _place(block, at + key)
            yield place
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
