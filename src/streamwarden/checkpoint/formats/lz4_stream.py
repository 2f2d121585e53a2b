"""Spark's LZ4 streams, in the format of lz4-java's LZ4BlockOutputStream.

A stream is a row of blocks: a head of 21 bytes (mark, token, compressed length, plain length, checksum) and the data.
The token's upper half says how the data are stored: 0x10 uncompressed, 0x20 in LZ4's block format. The checksum is the
XXH32 of the plain bytes, without its 4 upper bits. A block of no bytes ends the stream.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

from lz4.block import LZ4BlockError, decompress
from xxhash import xxh32_intdigest

from streamwarden.checkpoint.formats.layout import Damaged

MAGIC: Final = b"LZ4Block"
HEAD: Final = 21
"""Bytes of a block's head: mark (8), token (1), compressed length, plain length, checksum (4 each, little-endian)."""

_PLAIN: Final = 0x10
_METHODS: Final = (_PLAIN, 0x20)
_SEED: Final = 0x9747B28C
_LEVEL_OF_ZERO: Final = 10
CUT: Final = "the LZ4 stream has no end: the file is cut off"


def blocks(stream: BinaryIO) -> Iterator[bytes]:
    """The plain bytes of each block, checked against its checksum. Raises Damaged at the first damaged block.

    Like lz4-java it ends at the empty block, and at the end of the file if that is between two blocks or within a head:
    what was read says whether it is all. It holds one block at a time, of at most 32 MiB.
    """
    first = True
    while True:
        head = stream.read(HEAD)
        if head[: len(MAGIC)] != MAGIC[: len(head)]:
            raise Damaged("it is not an LZ4 stream" if first else "a block of the LZ4 stream has no magic bytes")
        if len(head) < HEAD:
            if first:
                raise Damaged(CUT if head else "the file is empty")
            return
        token, stored, plain, checksum = struct.unpack("<BIII", head[len(MAGIC) :])
        if plain == stored == checksum == 0 and token & 0xF0 in _METHODS:
            return
        _check_head(token, stored, plain)
        content = stream.read(stored)
        if len(content) < stored:
            raise Damaged(CUT)
        block = content if token & 0xF0 == _PLAIN else _decompressed(content, plain)
        if len(block) != plain or xxh32_intdigest(block, _SEED) & 0x0FFFFFFF != checksum:
            raise Damaged("a block of the LZ4 stream does not match its checksum")
        yield block
        first = False


def _check_head(token: int, stored: int, plain: int) -> None:
    """The lower half of the token bounds the plain bytes, at most 32 MiB, and these the stored ones. Raises Damaged."""
    most = 1 << (_LEVEL_OF_ZERO + (token & 0x0F))
    raw = token & 0xF0 == _PLAIN
    longer = stored != plain if raw else stored > plain + plain // 255 + 16  # LZ4 makes no content longer than that
    if token & 0xF0 not in _METHODS or 0 in (plain, stored) or plain > most or longer:
        raise Damaged("a block of the LZ4 stream has an invalid header")


def _decompressed(content: bytes, plain: int) -> bytes:
    try:
        block: bytes = decompress(content, uncompressed_size=plain)
    except LZ4BlockError as error:
        raise Damaged("a block of the LZ4 stream cannot be decompressed") from error
    return block
