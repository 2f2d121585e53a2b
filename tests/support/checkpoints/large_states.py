"""A large state in a checkpoint of tests/data: tables that RocksDB wrote, and changelogs of many rows."""

from __future__ import annotations

import gzip
import json
import os
import random
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import lz4.block
import xxhash

from support.checkpoints.recorded import remove, rewrite

TABLES: Final = Path(__file__).parents[2] / "data" / "tables"
VERSIONS: Final = ("version-5", "version-6")


def large_table(name: str) -> bytes:
    """A table of more than a MiB."""
    content = gzip.decompress((TABLES / f"{name}.sst.gz").read_bytes())
    assert len(content) > 1 << 20
    return content


def put_tables(store: Path, tables: Sequence[bytes]) -> list[Path]:
    """Let the newest snapshot of a RocksDB store name these tables, and only these, none with a checksum file."""
    snapshot = max(store.glob("*.zip"), key=lambda path: int(path.stem))
    modified = snapshot.stat().st_mtime
    with zipfile.ZipFile(snapshot) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    remove(snapshot)
    paths = []
    with zipfile.ZipFile(snapshot, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, member in members:
            if info.filename == "metadata":
                version, text = member.decode().split("\n", 1)
                manifest = json.loads(text)
                model, manifest["sstFiles"] = manifest["sstFiles"][0], []
                for number, table in enumerate(tables):
                    name = f"{number:06d}-{model['dfsSstFileName']}"
                    manifest["sstFiles"].append(model | {"dfsSstFileName": name, "sizeBytes": len(table)})
                    paths.append(store / "SSTs" / name)
                    paths[-1].write_bytes(table)
                member = f"{version}\n{json.dumps(manifest)}".encode()
            archive.writestr(info, member)
    os.utime(snapshot, (modified, modified))
    return paths


def put_rows(changelog: Path, rows: int) -> bytes:
    """Let a changelog put that many rows of 940 bytes, without a checksum file. Returns its content."""
    values = [random.Random(seed).randbytes(900) for seed in range(100)]
    records = b"".join(struct.pack(">i40si900s", 40, bytes(40), 900, value) for value in values)
    content = _lz4_stream(records * (rows // len(values)) + struct.pack(">i", -1))
    rewrite(changelog, content)
    return content


def _lz4_stream(plain: bytes) -> bytes:
    """As lz4-java's LZ4BlockOutputStream writes it, in blocks of 32 KiB."""
    parts = []
    for at in range(0, len(plain), 1 << 15):
        block = plain[at : at + (1 << 15)]
        stored, checksum = lz4.block.compress(block, store_size=False), xxhash.xxh32_intdigest(block, 0x9747B28C)
        parts += [b"LZ4Block", struct.pack("<BIII", 0x25, len(stored), len(block), checksum & 0x0FFFFFFF), stored]
    return b"".join([*parts, b"LZ4Block", struct.pack("<BIII", 0x15, 0, 0, 0)])
