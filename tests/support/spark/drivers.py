"""A small project with a store and a fleet, for tests that start real drivers; nothing outlives it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from streamwarden.adapters import processes
from streamwarden.adapters.jvm.environments import own
from streamwarden.adapters.jvm.java import find_java
from streamwarden.adapters.store import Store
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitRecord
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.fleet.launching import class_archive
from streamwarden.sinks.files.output import read_output
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StateSpec, StopPolicy, StreamSpec, TriggerSpec
from support.waits import rarer

T = TypeVar("T")

_VFORK = "-Djdk.lang.Process.launchMechanism=VFORK"
"""Hadoop starts two `chmod` for each file that it writes: like this without a helper program in between."""

QUICK = {
    "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {_VFORK}",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""A JVM that starts fast: these tests judge the driver, not its throughput. Spark generates no code here; it does where
a test writes its own settings, as those of the command line do."""


def quick_options() -> str:
    """The options of a JVM of Spark that starts as fast as a driver: with the archive of classes that drivers use."""
    shared = class_archive.flags(own(), find_java())
    return " ".join([QUICK["spark.driver.extraJavaOptions"], *shared])


def quick(scratch: Path) -> dict[str, str]:
    """`QUICK` for a session that is not a driver's, with its temporary files in `scratch`."""
    return QUICK | {"spark.driver.extraJavaOptions": f"{quick_options()} -Djava.io.tmpdir={scratch}"}


COUNTS = """
from pyspark.sql import functions as F

from streamwarden.spark.sources import read_rows


def build(spark, spec):
    events = read_rows(spark, spec, "id BIGINT, key INT, at TIMESTAMP, note STRING", required=["at"])
    return (
        events.withWatermark("at", "10 seconds")
        .groupBy(F.window("at", "10 seconds"), "key")
        .agg(F.count("*").alias("n"))
    )
"""


PATIENCE: Final = 240.0
"""Seconds until a wait is given up: beside other tests a driver needs a minute to start."""


def until(
    what: str,
    condition: Callable[[], T],
    timeout: float = PATIENCE,
    poll: float = 0.05,
    told: Callable[[], str] = lambda: "",
) -> T:
    """Poll until `condition()` is truthy, and return it; `told()` says what was there instead."""
    began = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - began
        assert waited < timeout, f"after {timeout:.0f} s still not: {what}. {told()}"
        time.sleep(rarer(poll, waited))


def minute_of(number: int) -> str:
    """The minute of event time, `HH:MM`, that the rows of the file `number` lie in."""
    return f"{number // 60:02d}:{number % 60:02d}"


def expected_counts(closed: int) -> dict[tuple[str, int], int]:
    """What `COUNTS` writes of the first `closed` files of 20 rows: (start of the window, key) -> rows."""
    return {
        (f"{minute_of(number)}:{second:02d}", key): 2
        for number in range(closed)
        for second in (0, 10)
        for key in range(5)
    }


def counted(spec: StreamSpec) -> dict[tuple[str, int], int]:
    """What `COUNTS` has written, as its readers see it; fails the test if a window is there twice."""
    if not Path(spec.sink.path or "", "_spark_metadata").is_dir():
        return {}
    output = read_output(Path(spec.sink.path or ""))
    named = [dict(zip(output.columns, row, strict=True)) for row in output.rows]
    rows = [(row["window"]["start"].strftime("%H:%M:%S"), row["key"], row["n"]) for row in named]
    assert len({(start, key) for start, key, _ in rows}) == len(rows)
    return {(start, key): n for start, key, n in rows}


OPEN: Final[list[Project]] = []
"""Projects that are open now; see `support.spark.verdicts`."""


class Project:
    """`spec(...)` makes a stream of a job's text; `publish` adds an input file; `close` kills what still runs."""

    def __init__(self, root: Path, url: str | None = None) -> None:
        self.root = root
        self.data = root / "var"
        self.input = self.data / "input"
        self.input.mkdir(parents=True)
        self.url = url or f"sqlite:///{self.data / 'streamwarden.db'}"
        self.store = Store(self.url, busy_timeout=30)  # a disk that stalls is no failure of a test
        self.store.migrate()
        self.fleet = Fleet(self.store, self.data)
        self.published = 0
        self.began = int(time.time()) - 3600

    def job(self, name: str, text: str) -> Path:
        path = self.root / "jobs" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip())
        return path

    def spec(self, name: str, text: str, **changes: Any) -> StreamSpec:
        defaults: dict[str, Any] = {
            "job": str(self.job(name, text)),
            "checkpoint": str(self.data / "checkpoints" / name),
            "source": FilesSource(path=str(self.input), max_files_per_trigger=1),
            "sink": ParquetSink(path=str(self.data / "output" / name)),
            "quarantine": str(self.data / "quarantine" / name),
            "trigger": TriggerSpec(processing_time=0.2),
            "state": StateSpec(shuffle_partitions=1),
            "stop": StopPolicy(batch_deadline=60, term_deadline=10),
            "spark": SparkSpec(master="local[1]", driver_memory=700 * 2**20, conf=dict(QUICK)),
            "project": str(self.root),
        }
        return StreamSpec(name=name, **{**defaults, **changes})

    def publish(self, count: int = 1, rows: int = 20, extra: tuple[str, ...] = ()) -> None:
        for _ in range(count):
            number = self.published
            self.published += 1
            lines = [
                json.dumps(
                    {"id": number * rows + i, "key": i % 5, "at": f"2026-01-01T{minute_of(number)}:{i % 60:02d}Z"}
                )
                for i in range(rows)
            ]
            part = self.input / f".{number:06d}"
            part.write_text("\n".join([*lines, *extra]) + "\n")
            # Spark reads files by modification time: two of one millisecond in any order, and the later one is late.
            modified = self.began + number
            os.utime(part, (modified, modified))
            part.rename(self.input / f"{number:06d}.json")

    def start(self, spec: StreamSpec, **kwargs: Any) -> str:
        return self.fleet.start(spec, launched_by="test", **kwargs).record.driver_id

    def folder(self, driver_id: str) -> Path:
        return self.fleet.log_path(driver_id).parent

    def committed(self, spec: StreamSpec) -> int:
        commits = Path(spec.checkpoint) / "commits"
        return len([path for path in commits.iterdir() if path.name.isdigit()]) if commits.is_dir() else 0

    def await_batches(self, spec: StreamSpec, count: int, timeout: float = PATIENCE) -> None:
        driver = self.store.drivers.latest(spec.name)
        assert driver is not None

        def arrived() -> bool:
            seen = self.fleet.observe(driver.driver_id)
            assert seen.alive, f"the driver ended: {seen.exit}\n{self.log(driver.driver_id)}"
            return self.committed(spec) >= count

        until(f"{count} batches of {spec.name}", arrived, timeout)

    def await_end(self, driver_id: str, timeout: float = PATIENCE) -> ExitRecord:
        seen = self.fleet.wait(driver_id, timeout=timeout)
        assert seen.exit is not None
        return seen.exit

    def log(self, driver_id: str) -> str:
        return self.fleet.log_path(driver_id).read_text(errors="replace")[-4000:]

    def close(self) -> None:
        until("the end of every driver", self._end_all)
        self.store.close()

    def _end_all(self) -> bool:
        """Kill every driver, also the standby that one of them has just prepared, and every group's JVM; whether none
        is left."""
        for path in (*(self.data / "drivers").glob("*/*"), *(self.data / "groups").glob("*/*")):
            process = files.read_process(path)
            if process is not None:
                processes.signal_group(process, signal.SIGKILL)
        return not self.living()

    def living(self) -> list[int]:
        """Pids of keepers, JVMs and Python halves of this project's drivers and groups."""
        found, folders = [], [str(self.data / name).encode() for name in ("drivers", "groups")]
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
                if any(folder in command for folder in folders):
                    found.append(int(entry.name))
        return found


@contextlib.contextmanager
def producing(made: Project, *, every: float) -> Iterator[None]:
    """A file is published each `every` seconds in this block."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(every):
            made.publish()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def project(root: Path, url: str | None = None) -> Iterator[Project]:
    """A project in `root`; its store is a SQLite file, unless `url` names another."""
    made = Project(root, url)
    OPEN.append(made)
    try:
        yield made
    finally:
        OPEN.remove(made)
        made.close()
        shutil.rmtree(made.data / "checkpoints", ignore_errors=True)
