"""The footer of RocksDB's files under SSTs/ (block-based tables), which says where the file's index is.

    checksum type (1 byte), where the metaindex and the index are (offset and size each, as varints), padding,
    version (4 bytes), magic number (8 bytes): 53 bytes at the end

RocksDB cannot open a file whose footer is wrong. The blocks before it have checksums of their own, which need RocksDB's
algorithms and are not read here.
"""

from __future__ import annotations

import os
import struct
from typing import BinaryIO, Final

from streamwarden.checkpoint.layout import Damaged

FOOTER: Final = 53
_MAGIC: Final = 0x88E241B785F4CFF7
_TRAILER: Final = 5
"""Bytes after each block: its compression, and its checksum."""
_CHECKSUMS: Final = range(1, 5)
_VERSIONS: Final = range(2, 7)
_IN_METAINDEX: Final = 6
"""From this version on the footer does not say where the index is."""


def check_footer(stream: BinaryIO, size: int) -> None:
    """Raises Damaged for a file that does not end as RocksDB's tables do, or whose index would be outside of it."""
    if size < FOOTER:
        raise Damaged(f"it has {size} bytes, less than the footer of a table")
    stream.seek(-FOOTER, os.SEEK_END)
    footer = stream.read(FOOTER)
    version, magic = struct.unpack("<IQ", footer[-12:])
    if magic != _MAGIC:
        raise Damaged("it does not end with the magic number of a table")
    if version not in _VERSIONS or footer[0] not in _CHECKSUMS:
        raise Damaged(f"its footer names version {version} and checksum {footer[0]}, which RocksDB does not know")
    if version < _IN_METAINDEX:
        _check_handles(footer[1:-12], size)


def _check_handles(content: bytes, size: int) -> None:
    at = 0
    for _ in ("metaindex", "index"):
        offset, at = _varint(content, at)
        length, at = _varint(content, at)
        if offset + length + _TRAILER > size - FOOTER:
            raise Damaged("its footer names an index outside of the file")


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number in groups of 7 bits, lowest first, and where it ends."""
    value = shift = 0
    while at < len(content):
        byte = content[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
    raise Damaged("its footer cannot be read")
