"""RocksDB's tables that Spark wrote: each is whole, and any changed bit in a block or in the footer is noticed."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.damage import Consequence
from streamwarden.checkpoint.diagnosis.loading import UNREADABLE
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.sst import FOOTER, check_table
from support.checkpoints.large_states import VERSIONS, large_table, put_tables
from support.checkpoints.recorded import Unpack

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


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


@pytest.mark.parametrize("name", VERSIONS)
def test_a_flipped_bit_anywhere_in_a_large_table_is_noticed(name: str) -> None:
    content = large_table(name)
    check(content)
    places = (
        *range(0, len(content) - FOOTER, len(content) // 40),
        *range(len(content) - FOOTER - 4000, len(content) - FOOTER, 101),
    )
    for at in places:
        with pytest.raises(Damaged):
            check(flipped(content, at))


def test_any_changed_bit_of_a_footer_of_version_6_is_noticed() -> None:
    content = large_table("version-6")
    for at in range(len(content) - FOOTER, len(content)):
        with pytest.raises(Damaged):
            check(flipped(content, at))


def test_inspect_finds_a_flipped_bit_in_a_row_of_a_large_table(unpack: Unpack, tmp_path: Path) -> None:
    """Where there is no checksum file, as in an object store."""
    checkpoint, content = unpack("spark-4.3.0-rocksdb", tmp_path), large_table("version-5")
    _, table = put_tables(checkpoint / "state/0/0", [content, content])
    assert read_checkpoint(open_path(checkpoint)).findings == ()
    table.write_bytes(flipped(content, len(content) // 2))
    (finding,) = read_checkpoint(open_path(checkpoint)).findings
    assert (finding.consequence, finding.error_class) == (Consequence.REFUSES, UNREADABLE)
    assert f"it needs SSTs/{table.name}, but its block at byte" in finding.what
