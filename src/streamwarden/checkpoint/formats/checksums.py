"""Hadoop's checksum files: `.NAME.crc` beside `NAME` on a local disk, with a CRC-32 for each 512 bytes.

Hadoop reads a file only as far as its checksum file goes, and fails at the first chunk that does not match. A checksum
file without Hadoop's head is ignored. Object stores have none.
"""

import struct
import zlib
from typing import BinaryIO, Final

_MAGIC: Final = b"crc\x00"
_HEAD: Final = 8
_PIECE: Final = 1 << 16


class ChecksumMismatch(Exception):  # becomes a `Damaged` wherever it is caught
    """Hadoop refuses to read the file. The message says what was observed."""


def verify(stream: BinaryIO, sums: bytes) -> int | None:
    """Number of bytes of the file that Hadoop reads; None: all of them, unchecked. Raises ChecksumMismatch. `sums`:
    content of the checksum file."""
    if len(sums) < _HEAD or sums[: len(_MAGIC)] != _MAGIC:
        return None
    chunk = struct.unpack(">i", sums[len(_MAGIC) : _HEAD])[0]
    if chunk < 1 or len(sums) % 4:
        raise ChecksumMismatch("its checksum file is damaged")
    read = 0
    for (expected,) in struct.iter_unpack(">I", sums[_HEAD:]):
        actual, size = _crc(stream, chunk)
        if size == 0:
            raise ChecksumMismatch(f"it has {read} bytes; its checksum file covers more than {read}")
        if actual != expected:
            raise ChecksumMismatch(f"bytes {read} to {read + size} do not match its checksum")
        read += size
    return read


def _crc(stream: BinaryIO, chunk: int) -> tuple[int, int]:
    """CRC-32 and size of the next chunk, in pieces: a damaged checksum file may state any size of a chunk."""
    crc = size = 0
    while size < chunk and (piece := stream.read(min(_PIECE, chunk - size))):
        crc, size = zlib.crc32(piece, crc), size + len(piece)
    return crc, size
