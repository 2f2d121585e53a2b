"""RocksDB's tables that Spark wrote: each is whole, and any changed bit in a block or in the footer is noticed."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.damage import Consequence
from streamwarden.checkpoint.diagnosis.loading import UNREADABLE
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.sst import FOOTER, check_table
from support.checkpoints import Unpack, remove, rewrite

NAMES = (
    "spark-3.5.6-rocksdb",
    "spark-4.0.1-changelog",
    "spark-4.3.0-rocksdb",
    "spark-4.3.0-join",
    "spark-4.3.0-processor",
)
LARGE = Path(__file__).parents[2] / "data" / "tables"
VERSIONS = ("version-5", "version-6")


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


def large(name: str) -> bytes:
    content = gzip.decompress((LARGE / f"{name}.sst.gz").read_bytes())
    assert len(content) > 1 << 20
    return content


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


@pytest.mark.parametrize("name", VERSIONS)
def test_a_flipped_bit_anywhere_in_a_large_table_is_noticed(name: str) -> None:
    content = large(name)
    check(content)
    places = (
        *range(0, len(content) - FOOTER, len(content) // 40),
        *range(len(content) - FOOTER - 4000, len(content) - FOOTER, 101),
    )
    for at in places:
        with pytest.raises(Damaged):
            check(flipped(content, at))


def test_any_changed_bit_of_a_footer_of_version_6_is_noticed() -> None:
    content = large("version-6")
    for at in range(len(content) - FOOTER, len(content)):
        with pytest.raises(Damaged):
            check(flipped(content, at))


def test_inspect_finds_a_flipped_bit_in_a_row_of_a_large_table(unpack: Unpack, tmp_path: Path) -> None:
    """Where there is no checksum file, as in an object store."""
    checkpoint, content = unpack("spark-4.3.0-rocksdb", tmp_path), large("version-5")
    table = put_into_newest_snapshot(checkpoint / "state/0/0", content)
    assert read_checkpoint(open_path(checkpoint)).findings == ()
    table.write_bytes(flipped(content, len(content) // 2))
    (finding,) = read_checkpoint(open_path(checkpoint)).findings
    assert (finding.consequence, finding.error_class) == (Consequence.REFUSES, UNREADABLE)
    assert f"it needs SSTs/{table.name}, but its block at byte" in finding.what


def put_into_newest_snapshot(store: Path, content: bytes) -> Path:
    """In the place of a table that the snapshot has."""
    snapshot = max(store.glob("*.zip"), key=lambda path: int(path.stem))
    modified = snapshot.stat().st_mtime
    with zipfile.ZipFile(snapshot) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    remove(snapshot)
    with zipfile.ZipFile(snapshot, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, member in members:
            if info.filename == "metadata":
                version, manifest = member.decode().split("\n", 1)
                files = json.loads(manifest)
                named = files["sstFiles"][0]
                named["sizeBytes"] = len(content)
                member = f"{version}\n{json.dumps(files)}".encode()
            archive.writestr(info, member)
    os.utime(snapshot, (modified, modified))
    table = store / "SSTs" / named["dfsSstFileName"]
    rewrite(table, content)
    return table
