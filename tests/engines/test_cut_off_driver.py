"""A stream that two hosts supervise: one of them is cut off from the store, and its driver goes on until the other host
takes the stream over. Nothing is lost, nothing is doubled, and no two drivers write."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.hosts.fence import SETTLES, fence_of
from streamwarden.services.fleet.claims import LEASE_TTL
from streamwarden.services.fleet.exits.lease_grace import GRACE
from support.hosts import network, share
from support.hosts.host import SHARED
from support.hosts.ids import Ids
from support.hosts.park import STORE, Park, park
from support.spark.drivers import until

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

READ: Final = """
import json, sys
from pathlib import Path
from streamwarden.sinks.files.output import read_output
output = read_output(Path(sys.argv[1]))
assert not output.problems, output.problems
at = output.columns.index("id")
print(json.dumps([row[at] for row in output.rows]))
"""


class Field:
    """The park with a stream, and what its hosts do."""

    def __init__(self, made: Park) -> None:
        self.park = made
        self.data = made.shared / "var"
        self.ids = Ids(made.shared / "project", self.data)
        self._variables = {
            "STREAMWARDEN_PROJECT": str(SHARED / "project"),
            "STREAMWARDEN_DATA": str(SHARED / "var"),
            "STREAMWARDEN_STORE_URL": made.store_url,
        }

    def run(self, host: str, *words: str, timeout: float = 200) -> subprocess.CompletedProcess[str]:
        return self.park.hosts[host].run(_streamwarden(*words), env=self._variables, timeout=timeout)

    def start(self, host: str, *words: str) -> subprocess.Popen[Any]:
        log = (self.park.shared / f"{host}-{words[0]}.log").open("w")
        return self.park.hosts[host].start(_streamwarden(*words), env=self._variables, stdout=log, stderr=log)

    def drivers(self) -> list[tuple[str, str | None]]:
        """Host and exit of each driver, in the order of their launches."""
        rows = self.park.sql("SELECT host, exit_kind FROM drivers ORDER BY launched_at")
        return [((row[0] or "").partition("/")[0], row[1]) for row in rows]

    def jvms(self, host: str) -> int:
        return sum("SparkSubmit" in _command(process) for process in self.park.hosts[host].processes())

    def output(self) -> Counter[int]:
        """How often each number is in the output, as a host reads it, whose paths the manifest has."""
        done = self.park.hosts["two"].run([sys.executable, "-c", READ, str(SHARED / "var/output/ids")])
        assert done.returncode == 0, done.stderr
        return Counter(json.loads(done.stdout))

    def goes_on(self, batches: int = 3) -> bool:
        """Wait until so many batches more are committed."""
        at = self.ids.committed()
        return until("more batches", lambda: self.ids.committed() >= at + batches)


def _streamwarden(*words: str) -> list[str]:
    return [sys.executable, "-m", "streamwarden.cli", *words]


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
    """Then it comes back, and gets the stream again when the other host is drained."""
    assert field.run("one", "store", "migrate").returncode == 0
    for host in ("one", "two"):
        field.start(host, "hosts", "run")
    with field.ids.producing():
        field.start("one", "start", "ids", "--supervise")
        until("the first batches", lambda: field.ids.committed() >= 2)
        field.start("two", "start", "ids", "--supervise")
        assert "ids" in field.run("two", "hosts").stdout

        field.park.network.cut("one", STORE)
        cut_at = time.monotonic()
        assert field.goes_on(), "without the store"
        assert (field.jvms("one"), field.jvms("two")) == (1, 0)
        until("the driver on two", lambda: field.drivers()[1:], timeout=120)
        taken_over = time.monotonic() - cut_at
        until("the end of the old driver", lambda: field.jvms("one") == 0, timeout=20)
        ended = time.monotonic() - cut_at
        assert field.goes_on()
        going_on = time.monotonic() - cut_at
        print(f"taken over after {taken_over:.1f} s, ended after {ended:.1f} s, batches after {going_on:.1f} s")
        assert taken_over < LEASE_TTL + GRACE + SETTLES + 15
        assert Path(fence_of(str(field.data / "checkpoints/ids"))).exists()
        assert field.run("two", "hosts").returncode == 1, "one is silent"

        field.park.network.heal("one", STORE)
        until("both hosts report", lambda: field.run("two", "hosts").returncode == 0)
        assert (field.jvms("one"), field.jvms("two")) == (0, 1)
        assert field.drivers() == [("one", ExitKind.KILLED), ("two", None)]

        moved = field.run("one", "hosts", "drain", "two", "--reason", "an update")
        assert moved.returncode == 0, moved.stderr
        until("the stream is back on one", lambda: field.drivers()[2:] and field.jvms("one") == 1, timeout=120)
        assert field.jvms("two") == 0
        assert field.goes_on()
    until("all input", lambda: set(field.output()) >= field.ids.expected, poll=1)
    assert field.run("two", "stop", "ids").returncode == 0, "asked on the host that does not run it"
    found = field.output()
    assert (set(found), set(found.values())) == (field.ids.expected, {1})
