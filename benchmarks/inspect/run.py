"""How long `inspect` takes for a large state, how much memory, and whether it finds one flipped bit in it.

The state is that of a small checkpoint that Spark wrote, in which the newest snapshot of each partition names copies
of a table of 1.3 MB that RocksDB wrote, or in which the newest changelogs have many rows. `inspect` reads it in a
process of its own: without Hadoop's checksum files, as in an object store or a fork, then with a bit flipped in the
middle of one file, then whole again and with checksum files, as on a local disk. All files are in the system's cache.

    python benchmarks/inspect/run.py [--size 500]
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streamwarden.units import format_size

TESTS = Path(__file__).parents[2] / "tests"
CHUNK = 512
PARTITIONS = 2
INSPECT = """
import json, sys, time
from pathlib import Path
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.report import read_checkpoint

def peak():
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))

before, started, cpu = peak(), time.perf_counter(), time.process_time()
report = read_checkpoint(open_path(sys.argv[1]))
seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
print(json.dumps([seconds, cpu, peak() - before, [finding.what for finding in report.findings]]))
"""


@dataclass(frozen=True)
class Reading:
    """One run of `inspect` without its imports: seconds, seconds of the processor, bytes of memory, what it found."""

    seconds: float
    cpu: float
    memory: int
    findings: tuple[str, ...]


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--size", type=int, default=500, help="of each state, in MB")
    given = options.parse_args()
    sys.path.insert(0, str(TESTS))
    print("| state | checksum files | inspect | memory | a flipped bit |\n|---|---|---|---|---|")
    for kind in ("rocksdb", "changelog"):
        with tempfile.TemporaryDirectory(prefix="inspect-") as folder:
            for line in measured(kind, given.size * 10**6, Path(folder)):
                print(line, flush=True)
    print(f"\nload of a core now: {os.getloadavg()[0] / (os.cpu_count() or 1):.1f}")
    return 0


def measured(kind: str, size: int, root: Path) -> Iterator[str]:
    """The rows of one kind of state."""
    from support.checkpoints.recorded import Archives

    checkpoint = Archives(root / "archives").unpack(f"spark-4.3.0-{kind}", root)
    files = [file for partition in range(PARTITIONS) for file in fill(kind, checkpoint, partition, size // PARTITIONS)]
    state = f"{kind}, {format_size(sum(file.stat().st_size for file in files))} in {len(files)} files"
    without = inspect(checkpoint)
    flip(files[len(files) // 2])
    found = inspect(checkpoint)
    flip(files[len(files) // 2])
    for file in files:
        add_checksums(file)
    with_them = inspect(checkpoint)
    if without.findings or with_them.findings:
        raise SystemExit(f"the state is damaged: {without.findings or with_them.findings}")
    verdict = "found" if found.findings else "not found"
    yield f"| {state} | no | {words(without)} | {verdict} in {found.seconds:.1f} s |"
    yield f"| the same | yes | {words(with_them)} | |"


def fill(kind: str, checkpoint: Path, partition: int, size: int) -> list[Path]:
    """The files that take this many bytes in a partition."""
    from support.checkpoints.large_states import large_table, put_rows, put_tables

    store = checkpoint / "state" / "0" / str(partition)
    if kind == "rocksdb":
        table = large_table("version-5")
        paths: list[Path] = put_tables(store, [table] * (size // len(table)))
        return paths
    newest = max(store.glob("*.changelog"), key=lambda path: int(path.stem))
    put_rows(newest, size // 950)
    return [newest]


def flip(file: Path) -> None:
    """Flip a bit in the middle of a file."""
    with file.open("r+b") as stream:
        stream.seek(file.stat().st_size // 2)
        byte = stream.read(1)[0]
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte ^ 1]))


def add_checksums(file: Path) -> None:
    """Hadoop's checksum file."""
    content = memoryview(file.read_bytes())
    sums = [struct.pack(">I", zlib.crc32(content[at : at + CHUNK])) for at in range(0, len(content), CHUNK)]
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + struct.pack(">i", CHUNK) + b"".join(sums))


def inspect(checkpoint: Path) -> Reading:
    """Read a checkpoint in a process of its own."""
    command = [sys.executable, "-c", INSPECT, str(checkpoint)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, cpu, memory, findings = json.loads(answer.stdout)
    return Reading(seconds, cpu, memory, tuple(findings))


def words(reading: Reading) -> str:
    """Two cells of the table."""
    return f"{reading.seconds:.1f} s ({reading.cpu:.1f} s CPU) | {format_size(reading.memory)}"


if __name__ == "__main__":
    sys.exit(main())
