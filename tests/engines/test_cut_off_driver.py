"""A stream that two hosts supervise: one of them is cut off from the store, and its driver goes on until the other host
takes the stream over. Nothing is lost, nothing is doubled, and no two drivers write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.hosts.fence import SETTLES, fence_of
from streamwarden.services.fleet.claims import LEASE_TTL
from streamwarden.services.fleet.exits.lease_grace import GRACE
from support.hosts import network, share
from support.hosts.host import SHARED
from support.hosts.park import STORE, Park, park
from support.spark.drivers import QUICK, until

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

JOB: Final = """
from streamwarden.spark.sources import read_rows


def build(spark, spec):
    return read_rows(spark, spec, "id BIGINT")
"""

READ: Final = """
import json, sys
from pathlib import Path
from streamwarden.sinks.files.output import read_output
output = read_output(Path(sys.argv[1]))
assert not output.problems, output.problems
at = output.columns.index("id")
print(json.dumps([row[at] for row in output.rows]))
"""

ROWS: Final = 20


class Field:
    """The park with a stream, its producer, and what the hosts wrote."""

    def __init__(self, made: Park) -> None:
        self.park = made
        self.project, self.data = made.shared / "project", made.shared / "var"
        self.published = 0
        self._ends = threading.Event()
        for folder in (self.project / "config/streams", self.project / "jobs", self.data / "input"):
            folder.mkdir(parents=True)
        (self.project / "jobs/ids.py").write_text(JOB)
        document = {
            "name": "ids",
            "job": "jobs/ids.py",
            "checkpoint": "checkpoints/ids",
            "source": {"kind": "files", "path": "input", "format": "json", "max_files_per_trigger": 1},
            "sink": {"kind": "parquet", "path": "output/ids"},
            "trigger": {"processing_time": "0.5 seconds"},
            "spark": {"master": "local[1]", "driver_memory": "700 MiB", "conf": QUICK},
        }
        (self.project / "config/streams/ids.yaml").write_text(json.dumps(document))

    def command(self, host: str, *words: str) -> list[str]:
        return [sys.executable, "-m", "streamwarden.cli", *words]

    @property
    def variables(self) -> dict[str, str]:
        return {
            "STREAMWARDEN_PROJECT": str(SHARED / "project"),
            "STREAMWARDEN_DATA": str(SHARED / "var"),
            "STREAMWARDEN_STORE_URL": self.park.store_url,
        }

    def run(self, host: str, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return self.park.hosts[host].run(self.command(host, *words), env=self.variables, timeout=timeout)

    def start(self, host: str, *words: str) -> subprocess.Popen[Any]:
        log = (self.park.shared / f"{host}-{words[0]}.log").open("w")
        return self.park.hosts[host].start(self.command(host, *words), env=self.variables, stdout=log, stderr=log)

    @contextmanager
    def producing(self, every: float = 0.5) -> Iterator[None]:
        """A file of rows twice a second."""

        def produce() -> None:
            while not self._ends.wait(every):
                self.publish()

        thread = threading.Thread(target=produce)
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            thread.join(30)

    def publish(self) -> None:
        number, self.published = self.published, self.published + 1
        part = self.data / "input" / f".{number:06d}"
        part.write_text("".join(json.dumps({"id": number * ROWS + row}) + "\n" for row in range(ROWS)))
        os.utime(part, (1e9 + number, 1e9 + number))
        part.rename(part.with_name(f"{number:06d}.json"))

    def committed(self) -> int:
        found = log_position(open_path(self.data / "checkpoints/ids")).committed
        return -1 if found is None else found

    def drivers(self) -> list[tuple[str, str | None]]:
        """Host and exit of each driver, in the order of their launches."""
        rows = self.park.sql("SELECT host, exit_kind FROM drivers ORDER BY launched_at")
        return [((row[0] or "?").partition("/")[0], row[1]) for row in rows]

    def jvms(self, host: str) -> int:
        return sum("SparkSubmit" in _command(process) for process in self.park.hosts[host].processes())

    def ids(self) -> Counter[int]:
        """How often each id is in the output, as a host reads it, whose paths the manifest has."""
        done = self.park.hosts["two"].run([sys.executable, "-c", READ, str(SHARED / "var/output/ids")])
        assert done.returncode == 0, done.stderr
        return Counter(json.loads(done.stdout))


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has ended
        return ""


@pytest.fixture(scope="module")
def field() -> Iterator[Field]:
    network.require()
    share.require()
    with park("one", "two") as made:
        yield Field(made)
        for log in sorted(made.shared.glob("*.log")):  # pytest shows it if the test failed
            print(f"== {log.name}\n{log.read_text()[-4000:]}")


def test_a_host_that_is_cut_off_from_the_store_loses_its_stream(field: Field) -> None:
    assert field.run("one", "store", "migrate").returncode == 0
    reports = [field.start(host, "hosts", "run") for host in ("one", "two")]
    with field.producing():
        first = field.start("one", "start", "ids", "--supervise")
        until("the first batches", lambda: field.committed() >= 2)
        second = field.start("two", "start", "ids", "--supervise")
        assert field.jvms("two") == 0
        assert "ids" in field.run("two", "hosts").stdout

        field.park.network.cut("one", STORE)
        cut_at, before = time.monotonic(), field.committed()
        until("batches without the store", lambda: field.committed() >= before + 3)
        assert field.jvms("one") == 1
        until("the driver on two", lambda: field.drivers()[1:], timeout=120)
        taken_over = time.monotonic() - cut_at
        until("the end of the old driver", lambda: field.jvms("one") == 0, timeout=20)
        ended = time.monotonic() - cut_at
        at = field.committed()
        until("batches on two", lambda: field.committed() >= at + 3)
        going_on = time.monotonic() - cut_at
        print(
            f"taken over after {taken_over:.1f} s, old driver ended after {ended:.1f} s, batches after {going_on:.1f} s"
        )
        assert taken_over < LEASE_TTL + GRACE + SETTLES + 15
        assert Path(fence_of(str(field.data / "checkpoints/ids"))).exists()
        assert field.run("two", "hosts").returncode == 1, "one is silent"

        field.park.network.heal("one", STORE)
        until("both hosts report", lambda: field.run("two", "hosts").returncode == 0)
        assert field.jvms("one") == 0
        assert field.drivers() == [("one", ExitKind.KILLED), ("two", None)]

        moved = field.run("two", "hosts", "drain", "two", "--reason", "an update", timeout=200)
        assert moved.returncode == 0, moved.stderr
        until("the stream is back on one", lambda: field.drivers()[2:] and field.jvms("one") == 1, timeout=120)
        assert field.jvms("two") == 0
        at = field.committed()
        until("batches on one", lambda: field.committed() >= at + 3)
    until("all input", lambda: field.committed() >= 0 and sum(field.ids().values()) >= field.published * ROWS)
    assert field.run("two", "stop", "ids", timeout=200).returncode == 0, "asked on the host that does not run it"
    ids = field.ids()
    assert (set(ids), set(ids.values())) == (set(range(field.published * ROWS)), {1})
    for process in (first, second, *reports):
        process.kill()
        process.wait(20)
