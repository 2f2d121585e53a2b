"""What a savepoint takes compared with `cp -al` of its checkpoint, and in an object store with the store's copies.

The checkpoint is a small one that Spark wrote, in which the newest snapshot of each partition names copies of a table
of 1.3 MB that RocksDB wrote. Each round makes both copies, in turn. `cp -al` links every file that is there, and looks
at nothing. A savepoint finds out what a batch needs, links that, inspects the copy and reads each file for its digest;
its links alone are shown beside it. In the store the client asks for a copy of each object, one after another. The
store is moto's server on the loopback: the requests count, and not the network. All files are in the system's cache.

    python benchmarks/savepoint/run.py [--size 500] [--rounds 7]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from streamwarden.adapters.storage.files import FsspecFiles, checkpoint_of
from streamwarden.lifecycle.forks.places import Places
from streamwarden.services.forks.files import carry_out
from streamwarden.services.savepoints.creating import create, gather
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.removing import delete
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.stream.spec import StorageSpec, StreamSpec
from streamwarden.units import format_size

TESTS = Path(__file__).parents[2] / "tests"
ANN = Author(by="ann", reason="a benchmark")
HEAD = """| state | plain copy | links or copies of a savepoint | whole savepoint | savepoint / plain copy |
|---|---|---|---|---|"""
STORED = 100 * 10**6
"""Bytes of the state in the store, which keeps them in memory."""


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--size", type=int, default=500, help="of the state on the disk, in MB")
    options.add_argument("--rounds", type=int, default=7)
    given = options.parse_args()
    sys.path.insert(0, str(TESTS))
    print(HEAD)
    with tempfile.TemporaryDirectory(prefix="savepoint-") as folder:
        root = Path(folder)
        spec, files = stream(root / "disk", given.size * 10**6)
        print(row(f"{format_size(sum(files))} in {len(files)} files, `cp -al`", linked(spec, root, given.rounds)))
        spec, files = stream(root / "stored", STORED)
        with in_store(spec) as stored:
            name = f"{format_size(sum(files))} in {len(files)} objects, the store's copies"
            print(row(name, copied(stored, given.rounds)))
    print(f"\nmedians of {given.rounds} rounds; load of a core now: {os.getloadavg()[0] / (os.cpu_count() or 1):.1f}")
    return 0


def stream(root: Path, size: int) -> tuple[StreamSpec, list[int]]:
    """A stream whose checkpoint has this many bytes of state, and the sizes of the checkpoint's files."""
    from support.checkpoints.large_states import large_table, put_tables
    from support.checkpoints.recorded import Archives, stream_of

    Archives(root / "archives").unpack("spark-4.3.0-rocksdb", root)
    table = large_table("version-5")
    for partition in range(2):
        put_tables(root / "checkpoint" / "state" / "0" / str(partition), [table] * (size // 2 // len(table)))
    spec = replace(stream_of(root, files=0), data=str(root / "data"))
    Path(spec.job).touch()
    return spec, [path.stat().st_size for path in (root / "checkpoint").rglob("*") if path.is_file()]


Round = tuple[float, float, float]
"""Seconds of the plain copy, of the savepoint's own links or copies, and of the whole savepoint."""


def linked(spec: StreamSpec, root: Path, rounds: int) -> Iterator[Round]:
    """The rounds on a disk."""
    for number in range(rounds):
        command = ["/bin/cp", "-al", spec.checkpoint, str(root / f"copy-{number}")]
        plain = timed(partial(subprocess.run, command, check=True))
        yield plain, links(spec, str(root / f"links-{number}")), whole(spec)


def copied(spec: StreamSpec, rounds: int) -> Iterator[Round]:
    """The rounds in a store."""
    checkpoint, store = checkpoint_of(spec), checkpoint_of(spec).fs
    assert isinstance(store, FsspecFiles)
    names = [name for name, _ in checkpoint.walk()]

    def copy(into: str) -> None:
        for name in names:
            store.copy(f"{checkpoint.path}/{name}", f"{into}/{name}")

    for number in range(rounds):
        plain = timed(partial(copy, f"{spec.checkpoint}-copy-{number}"))
        yield plain, links(spec, f"{spec.checkpoint}-links-{number}"), whole(spec)


def links(spec: StreamSpec, into: str) -> float:
    """What `create` does between its gathering and its inspection, alone."""
    found, places = gather(spec, None), Places.under(into)
    steps = list(found.checkpoint_links(places))
    return timed(lambda: carry_out(steps, checkpoint_of(spec).fs, spec.storage.connection))


def whole(spec: StreamSpec) -> float:
    """Seconds of `create`."""
    made = []
    seconds = timed(lambda: made.append(create(spec, None, ANN)))
    delete(Savepoints.of(spec), made[0].id)
    return seconds


def timed(act: Callable[[], object]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


@contextmanager
def in_store(spec: StreamSpec) -> Iterator[StreamSpec]:
    """The stream with its checkpoint and its output in an object store."""
    from support.servers.object_store import BUCKET, running

    root, place = Path(spec.checkpoint).parent, f"s3a://{BUCKET}/a"
    with running(jars=False) as store:
        store.put(root / "checkpoint", "a/checkpoint", moved=(f"file:{root}", place))
        store.put(root / "output", "a/output", moved=(f"file://{root}", place))
        os.environ["AIRFLOW_CONN_LAKE"] = store.connection()
        yield replace(
            spec,
            checkpoint=f"{place}/checkpoint",
            sink=ParquetSink(path=f"{place}/output"),
            savepoints=replace(spec.savepoints, folder=f"{place}/savepoints"),
            storage=StorageSpec(connection="lake"),
        )


def row(name: str, rounds: Iterator[Round]) -> str:
    """A row of the table."""
    measured = list(rounds)
    plain, own, savepoint = (statistics.median(one[at] for one in measured) for at in range(3))
    ratio = statistics.median(one[2] / one[0] for one in measured)
    return f"| {name} | {plain:.2f} s | {own:.2f} s | {savepoint:.2f} s | {ratio:.1f} |"


if __name__ == "__main__":
    sys.exit(main())
