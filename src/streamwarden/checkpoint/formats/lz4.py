"""Spark's LZ4 streams (lz4-java's LZ4BlockOutputStream), read with the standard library alone.

A stream is a row of blocks: a head of 21 bytes (mark, token, compressed length, plain length, checksum) and the data.
The token's upper half says how the data are stored: 0x10 uncompressed, 0x20 in LZ4's block format. The checksum is the
XXH32 of the plain bytes, without its 4 upper bits. A block of no bytes ends the stream.

The formats are described in `doc/lz4_Block_format.md` of lz4/lz4 and in `doc/xxhash_spec.md` of Cyan4973/xxHash.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

from streamwarden.checkpoint.formats.layout import Damaged

MAGIC: Final = b"LZ4Block"
HEAD: Final = 21
"""Bytes of a block's head: mark (8), token (1), compressed length, plain length, checksum (4 each, little-endian)."""

_PLAIN: Final = 0x10
_METHODS: Final = (_PLAIN, 0x20)
_SEED: Final = 0x9747B28C
_WORD: Final = 0xFFFFFFFF
_LEVEL_OF_ZERO: Final = 10
CUT: Final = "the LZ4 stream has no end: the file is cut off"
_P1, _P2, _P3, _P4, _P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1


def blocks(stream: BinaryIO) -> Iterator[bytes]:
    """The plain bytes of each block, checked against its checksum. Raises Damaged at the first damaged block.

    Like lz4-java it ends at the empty block, and at the end of the file if that is between two blocks or within a head:
    what was read says whether it is all. Slow (a few MB a second): for small files, or for the first block of a large
    one.
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
        block = content if token & 0xF0 == _PLAIN else decompress(content, plain)
        if len(block) != plain or xxh32(block, _SEED) & 0x0FFFFFFF != checksum:
            raise Damaged("a block of the LZ4 stream does not match its checksum")
        yield block
        first = False


def _check_head(token: int, stored: int, plain: int) -> None:
    """The lower half of the token bounds the plain bytes: at most 32 MiB. Raises Damaged."""
    most = 1 << (_LEVEL_OF_ZERO + (token & 0x0F))
    raw = token & 0xF0 == _PLAIN
    if token & 0xF0 not in _METHODS or 0 in (plain, stored) or plain > most or (raw and stored != plain):
        raise Damaged("a block of the LZ4 stream has an invalid header")


def xxh32(content: bytes, seed: int) -> int:
    """The 32-bit xxHash."""
    size, position = len(content), 0
    if size >= 16:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        position = size - size % 16
        for words in struct.iter_unpack("<4I", content[:position]):
            lanes = [_rotate(lane + word * _P2, 13) * _P1 for lane, word in zip(lanes, words, strict=True)]
        value = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        value = seed + _P5
    value += size
    while position + 4 <= size:
        value = _rotate(value + int.from_bytes(content[position : position + 4], "little") * _P3, 17) * _P4
        position += 4
    for byte in content[position:]:
        value = _rotate(value + byte * _P5, 11) * _P1
    value &= _WORD
    value = (value ^ value >> 15) * _P2 & _WORD
    value = (value ^ value >> 13) * _P3 & _WORD
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _WORD
    return (value << bits | value >> (32 - bits)) & _WORD


def decompress(content: bytes, plain: int) -> bytes:
    """A block in LZ4's block format: literals, then a copy of what was already written, and again."""
    out = bytearray()
    position = 0
    try:
        while position < len(content) and len(out) <= plain:
            token = content[position]
            length, position = _length(content, position + 1, token >> 4)
            out += content[position : position + length]
            position += length
            if position >= len(content):
                break  # the last sequence has literals only
            distance = content[position] | content[position + 1] << 8
            length, position = _length(content, position + 2, token & 15)
            length += 4
            if not 0 < distance <= len(out) or length > plain - len(out):
                raise Damaged("a block of the LZ4 stream cannot be decompressed")
            repeated = out[-distance:] if distance >= length else out[-distance:] * (length // distance + 1)
            out += repeated[:length]
    except IndexError:
        raise Damaged("a block of the LZ4 stream cannot be decompressed") from None
    return bytes(out)


def _length(content: bytes, position: int, nibble: int) -> tuple[int, int]:
    """A length and where it ends: 15 means that bytes follow, to be added up to the first below 255."""
    if nibble < 15:
        return nibble, position
    while True:
        byte = content[position]
        nibble, position = nibble + byte, position + 1
        if byte < 255:
            return nibble, position
