"""Writes tests/data/tables/*.sst.gz: a table of RocksDB of more than a MiB in each version of its format that Spark can
be told to write, by the RocksDB that PySpark ships, with the settings of Spark's state store.

    .venv/bin/python tests/data/make_tables.py

All rows have the same 8,000 random bytes: RocksDB puts each into a block of its own, and the archive is small.
"""

from __future__ import annotations

import gzip
import os
import random
import tempfile
from pathlib import Path
from typing import Any

from pyspark.java_gateway import launch_gateway

from streamwarden.adapters.jvm.java import find_java

TARGET = Path(__file__).parent / "tables"
VERSIONS = (5, 6)
ROWS = 160


def main() -> None:
    """Make every table."""
    os.environ.setdefault("JAVA_HOME", str(find_java()))
    gateway = launch_gateway()
    rocksdb = gateway.jvm.org.rocksdb
    rocksdb.RocksDB.loadLibrary()
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for version in VERSIONS:
            path = Path(folder) / f"version-{version}.sst"
            write(rocksdb, path, version)
            (TARGET / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    gateway.shutdown()


def write(rocksdb: Any, path: Path, version: int) -> None:
    """One table."""
    layout = rocksdb.BlockBasedTableConfig()
    layout.setFormatVersion(version).setFilterPolicy(rocksdb.BloomFilter(10.0)).setWholeKeyFiltering(False)
    options = rocksdb.Options().setCompressionType(rocksdb.CompressionType.LZ4_COMPRESSION)
    options.setTableFormatConfig(layout)
    writer = rocksdb.SstFileWriter(rocksdb.EnvOptions(), options)
    writer.open(str(path))
    value = random.Random(24).randbytes(8000)
    for row in range(ROWS):
        writer.put(b"%08d" % row, value)
    writer.finish()
    writer.close()


if __name__ == "__main__":
    main()
