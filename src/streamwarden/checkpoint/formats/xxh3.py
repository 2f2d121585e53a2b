"""The 64-bit XXH3 hash without a seed, with which RocksDB checks the blocks of its tables.

Described in `doc/xxhash_spec.md` of Cyan4973/xxHash. About 2 MB a second.
"""

from __future__ import annotations

import struct
from typing import Final

_WORD: Final = (1 << 64) - 1
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_P32: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_P64: Final = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_MIX: Final = (0x165667919E3779F9, 0x9FB21C651E98DF25)
_STRIPE: Final = 64
_STRIPES: Final = 16
"""Stripes of a block, each with the secret shifted by 8 bytes."""


def xxh3(content: bytes) -> int:
    """The hash of any content."""
    size = len(content)
    if size <= 16:
        return _short(content)
    if size <= 240:
        return _middle(content)
    return _long(content)


def _short(content: bytes) -> int:
    size = len(content)
    if size > 8:
        low = _u64(content, 0) ^ _secret(24) ^ _secret(32)
        high = _u64(content, size - 8) ^ _secret(40) ^ _secret(48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + swapped + high + _fold(low, high)) & _WORD)
    if size > 3:
        value = (_u32(content, size - 4) + (_u32(content, 0) << 32)) ^ _secret(8) ^ _secret(16)
        value ^= _rotate(value, 49) ^ _rotate(value, 24)
        value = value * _MIX[1] & _WORD
        value = (value ^ (value >> 35) + size) * _MIX[1] & _WORD
        return value ^ value >> 28
    if size:
        mixed = content[0] << 16 | content[size >> 1] << 24 | content[-1] | size << 8
        return _old_avalanche(mixed ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _old_avalanche(_secret(56) ^ _secret(64))


def _middle(content: bytes) -> int:
    size = len(content)
    total = size * _P64[0]
    if size <= 128:
        for at in range((size - 1) // 32 + 1):
            total += _mixed(content, 16 * at, 32 * at) + _mixed(content, size - 16 * (at + 1), 32 * at + 16)
        return _avalanche(total & _WORD)
    total += sum(_mixed(content, 16 * at, 16 * at) for at in range(8))
    total = _avalanche(total & _WORD)
    total += sum(_mixed(content, 16 * at, 16 * (at - 8) + 3) for at in range(8, size // 16))
    return _avalanche((total + _mixed(content, size - 16, 136 - 17)) & _WORD)


def _long(content: bytes) -> int:
    lanes = [_P32[2], _P64[0], _P64[1], _P64[2], _P64[3], _P32[1], _P64[4], _P32[0]]
    last = len(content) - 1
    for stripe in range(last // _STRIPE):
        _accumulate(lanes, content, stripe * _STRIPE, 8 * (stripe % _STRIPES))
        if stripe % _STRIPES == _STRIPES - 1 and (stripe + 1) * _STRIPE <= last // 1024 * 1024:
            lanes[:] = [(v ^ v >> 47 ^ _secret(128 + 8 * at)) * _P32[0] & _WORD for at, v in enumerate(lanes)]
    _accumulate(lanes, content, len(content) - _STRIPE, 192 - _STRIPE - 7)
    total = len(content) * _P64[0]
    for at in range(0, 8, 2):
        total += _fold(lanes[at] ^ _secret(11 + 8 * at), lanes[at + 1] ^ _secret(19 + 8 * at))
    return _avalanche(total & _WORD)


def _accumulate(lanes: list[int], content: bytes, at: int, secret: int) -> None:
    words = struct.unpack_from("<8Q", content, at)
    for lane, (word, key) in enumerate(zip(words, struct.unpack_from("<8Q", _SECRET, secret), strict=True)):
        keyed = word ^ key
        lanes[lane ^ 1] = (lanes[lane ^ 1] + word) & _WORD
        lanes[lane] = (lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _WORD


def _mixed(content: bytes, at: int, secret: int) -> int:
    return _fold(_u64(content, at) ^ _secret(secret), _u64(content, at + 8) ^ _secret(secret + 8))


def _fold(one: int, other: int) -> int:
    product = one * other
    return (product ^ product >> 64) & _WORD


def _avalanche(value: int) -> int:
    value = (value ^ value >> 37) * _MIX[0] & _WORD
    return value ^ value >> 32


def _old_avalanche(value: int) -> int:
    value = (value ^ value >> 33) * _P64[1] & _WORD
    value = (value ^ value >> 29) * _P64[2] & _WORD
    return value ^ value >> 32


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _WORD


def _secret(at: int) -> int:
    return _u64(_SECRET, at)


def _u64(content: bytes, at: int) -> int:
    value: int = struct.unpack_from("<Q", content, at)[0]
    return value


def _u32(content: bytes, at: int) -> int:
    value: int = struct.unpack_from("<I", content, at)[0]
    return value
