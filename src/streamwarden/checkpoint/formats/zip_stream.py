"""A zip file as Java's ZipInputStream reads it: entry after entry, each with the head before its data.

Spark unpacks RocksDB snapshots like this. It never reads the directory at the end of the file, which Python's `zipfile`
begins with: damage in one is not damage in the other.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import BinaryIO, Final

from streamwarden.checkpoint.formats.layout import Damaged

_HEAD: Final = struct.Struct("<4sHHHHHIIIHH")
_SIGNATURE: Final = b"PK\x03\x04"
_DESCRIPTOR: Final = b"PK\x07\x08"
_ENCRYPTED, _DESCRIBED = 0x0001, 0x0008
_STORED, _DEFLATED = 0, 8
_PIECE: Final = 1 << 16
MOST_UNPACKED: Final = 128 << 20
"""Bytes of one member. Spark's hold lists and settings, of some kB; RocksDB's manifest grows to a few MB."""


def members(stream: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """Name and content of each member, up to the first place that is not the head of one. Raises Damaged."""
    reader = _Reader(stream)
    while True:
        head = reader.take(_HEAD.size)
        if len(head) < _HEAD.size or head[: len(_SIGNATURE)] != _SIGNATURE:
            return
        _, _, flags, method, _, _, crc, packed, size, name_size, extra_size = _HEAD.unpack(head)
        name = reader.exactly(name_size)
        reader.exactly(extra_size)
        shown = name.decode("utf-8", errors="replace")
        if flags & _ENCRYPTED:
            raise Damaged(f"the zip's member {shown} is encrypted")
        content, stored = _content(reader, shown, flags, method, size)
        if flags & _DESCRIBED:
            crc, packed, size = _descriptor(reader)
        if (zlib.crc32(content), stored, len(content)) != (crc, packed, size):
            raise Damaged(f"the zip's member {shown} does not match its checksum")
        try:
            yield name.decode("utf-8"), content
        except UnicodeDecodeError as error:
            raise Damaged(f"the zip's member {shown} has no valid name") from error


def packed_at(stream: BinaryIO) -> float | None:
    """Time at which the first member was packed: Unix seconds by the JVM's local time, to 2 seconds; None if the file
    does not begin with a member."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size or head[: len(_SIGNATURE)] != _SIGNATURE:
        return None
    _, _, _, _, time, date, *_ = _HEAD.unpack(head)
    try:
        at = datetime(
            1980 + (date >> 9), date >> 5 & 15, date & 31, time >> 11, time >> 5 & 63, 2 * (time & 31), tzinfo=UTC
        )
    except ValueError:
        return None
    return at.timestamp()


def _content(reader: _Reader, name: str, flags: int, method: int, size: int) -> tuple[bytes, int]:
    """The plain bytes of a member, and how many bytes of the file they take."""
    if method == _DEFLATED:
        return reader.inflated(name)
    if method == _STORED and not flags & _DESCRIBED:
        return reader.exactly(size), size
    raise Damaged(f"the zip's member {name} is compressed in an unknown way")


def _descriptor(reader: _Reader) -> tuple[int, int, int]:
    """Checksum, packed size and size after the data, with or without a signature."""
    first = reader.exactly(4)
    crc = reader.exactly(4) if first == _DESCRIPTOR else first
    packed, size = struct.unpack("<II", reader.exactly(8))
    return struct.unpack("<I", crc)[0], packed, size


class _Reader:
    """Reads consecutive bytes, and gives back what the decompression did not need."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._left = stream, b""

    def take(self, size: int) -> bytes:
        """At most `size` bytes; fewer at the end of the file."""
        taken = self._left[:size]
        self._left = self._left[size:]
        return taken + self._stream.read(size - len(taken)) if len(taken) < size else taken

    def exactly(self, size: int) -> bytes:
        taken = self.take(min(size, MOST_UNPACKED))
        if len(taken) < size:
            raise Damaged("the zip file is cut off")
        return taken

    def inflated(self, name: str) -> tuple[bytes, int]:
        inflater, pieces, size, packed = zlib.decompressobj(-zlib.MAX_WBITS), [], 0, 0
        while not inflater.eof:
            piece = inflater.unconsumed_tail
            if not piece:
                piece = self.take(_PIECE)
                packed += len(piece)
            if not piece:
                raise Damaged("the zip file is cut off")
            try:
                pieces.append(inflater.decompress(piece, _PIECE))
            except zlib.error as error:
                raise Damaged(f"the zip's member {name} cannot be decompressed: {error}") from error
            size += len(pieces[-1])
            if size > MOST_UNPACKED:
                raise Damaged(f"the zip's member {name} has more than {MOST_UNPACKED:,} bytes")
        self._left = inflater.unused_data + self._left
        return b"".join(pieces), packed - len(inflater.unused_data)
