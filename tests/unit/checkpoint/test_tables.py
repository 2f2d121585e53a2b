"""RocksDB's tables that Spark wrote: each is whole, and any changed bit in a block or in the footer is noticed."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.sst import FOOTER, check_table

NAMES = (
    "spark-3.5.6-rocksdb",
    "spark-4.0.1-changelog",
    "spark-4.3.0-rocksdb",
    "spark-4.3.0-join",
    "spark-4.3.0-processor",
)


def tables(checkpoint: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(checkpoint.glob("state/**/SSTs/*.sst"))]


def check(content: bytes) -> None:
    check_table(io.BytesIO(content), len(content))


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_spark_is_whole(name: str, whole: Callable[[str], Path]) -> None:
    found = tables(whole(name))
    assert found
    for content in found:
        check(content)


def test_a_changed_bit_of_any_block_is_noticed(whole: Callable[[str], Path]) -> None:
    content, *_ = tables(whole("spark-4.3.0-rocksdb"))
    for at in range(0, len(content) - FOOTER, 7):
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        with pytest.raises(Damaged):
            check(bytes(changed))


@pytest.mark.parametrize("cut", [0, 10, FOOTER, 500])
def test_a_table_that_is_cut_off_is_noticed(cut: int, whole: Callable[[str], Path]) -> None:
    content, *_ = tables(whole("spark-4.3.0-rocksdb"))
    with pytest.raises(Damaged):
        check(content[:cut] if cut else b"")
