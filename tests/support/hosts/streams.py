"""A stream on the hosts of a park, and what a judge wants to know of it: who wrote what, and which events came out.

The project is on each host's own disk, the data folder is the shared one.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from streamwarden.lifecycle.hosts.fence import SETTLES
from support.hosts.events import NAME, SECRET, Events, declare, ids_in, listed
from support.hosts.host import LOCAL, SHARED
from support.hosts.park import Park
from support.spark.drivers import until

PROJECT: Final = LOCAL / "project"
DATA: Final = SHARED / "var"
COMMAND: Final = str(Path(sys.executable).parent / "streamwarden")

LOGS: Final = ("checkpoint/offsets/", "checkpoint/commits/", "checkpoint/sources/", "output/_spark_metadata/")
"""Of which each entry is written once."""


@dataclass(frozen=True)
class Written:
    """A file of the checkpoint or the output: when it took its name (Unix seconds), and which host wrote it."""

    at: float
    host: str
    path: str


class HostedStream:
    """The stream `events` of a park.

    Args:
        env: more environment for every host.
        job_says, keys: see `declare`.
    """

    def __init__(
        self,
        park: Park,
        *,
        env: dict[str, str] | None = None,
        job_says: str = "",
        **keys: Any,
    ) -> None:
        self.park = park
        self.data = park.shared / "var"
        self.checkpoint = self.data / "checkpoints" / NAME
        self.output = self.data / "output" / NAME
        self.events = Events(self.data / "input")
        self._env = {
            "STREAMWARDEN_STORE_URL": park.store_url,
            "STREAMWARDEN_DATA": str(DATA),
            "STREAMWARDEN_PROJECT": str(PROJECT),
            "TMPDIR": str(LOCAL / "tmp"),
            "COLUMNS": "200",
            **(env or {}),
        }
        self._logs: list[IO[str]] = []
        for host in park.hosts.values():
            declare(host.disk / "project", job_says=job_says, **keys)
            (host.disk / "tmp").mkdir()

    # Acting

    def call(self, host: str, *arguments: str, timeout: float = 240.0) -> str:
        """What a command of the product prints on a host; it has to succeed."""
        done = self.park.hosts[host].run([COMMAND, *arguments], folder=PROJECT, env=self._env, timeout=timeout)
        assert done.returncode == 0, f"{' '.join(arguments)} on {host}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def try_call(self, host: str, *arguments: str, timeout: float = 240.0) -> tuple[int, str]:
        """Exit code and output of a command of the product on a host."""
        done = self.park.hosts[host].run([COMMAND, *arguments], folder=PROJECT, env=self._env, timeout=timeout)
        return done.returncode, done.stdout + done.stderr

    def keep_running(self, host: str, *arguments: str, **env: str) -> None:
        """A command of the product that runs on the host until its end; its output is in `said`."""
        log = self._log(host).open("a")
        self._logs.append(log)
        variables = self._env | env
        self.park.hosts[host].start([COMMAND, *arguments], folder=PROJECT, env=variables, stdout=log, stderr=log)

    def supervise(self, host: str, **env: str) -> None:
        """`streamwarden start --supervise` on the host, as one of several."""
        self.keep_running(host, "start", NAME, "--supervise", **env)

    def said(self, host: str) -> str:
        """What the commands that run on the host have printed."""
        path = self._log(host)
        return path.read_text(errors="replace") if path.exists() else ""

    def _log(self, host: str) -> Path:
        return self.park.hosts[host].disk.parent / f"{host}.log"

    def close(self) -> None:
        for log in self._logs:
            log.close()

    # Looking

    def drivers_on(self, host: str) -> int:
        """How many drivers' JVMs live on the host, as the kernel says."""
        found = 0
        for process in self.park.hosts[host].processes():
            try:
                found += process.name() == "java" and "SparkSubmit" in " ".join(process.cmdline())
            except Exception:  # it has just ended
                continue
        return found

    def await_commits(self, more: int, by: str, timeout: float = 120.0) -> float:
        """Wait until `host` has committed so many batches; how long that took."""
        began = time.monotonic()
        before = len(self._commits_of(by))
        until(
            f"{more} batches of {by}",
            lambda: len(self._commits_of(by)) >= before + more,
            timeout,
            told=lambda: f"written: {self.written()[-5:]}; {self.said(by)[-3000:]}",
        )
        return time.monotonic() - began

    def timeline(self, since: float) -> str:
        """When each driver was launched and its query started, in seconds after `since` (Unix seconds)."""
        rows = self.park.ask("SELECT host, launched_at, started_at, exit_kind, exit_at FROM drivers ORDER BY 2")
        told = []
        for host, launched, started, kind, ended in rows:
            times = [f"{at - since:.1f}" if at is not None else "never" for at in (launched, started, ended)]
            name = (host or "?").partition("/")[0]
            told.append(f"{name}: launched {times[0]}, started {times[1]}, ended {times[2]} {kind or ''}")
        first = {host: min((c.at for c in self._commits_of(host)), default=None) for host in self.park.hosts}
        told += [f"first commit of {host}: {at - since:.1f}" for host, at in first.items() if at is not None]
        return "\n".join(told)

    def starts(self) -> list[float]:
        """How long the first driver of each host took from its launch to its first batch, in seconds, in their order. A
        later one waits behind its fence first, which does not count."""
        of_each = "SELECT split_part(host, '/', 1), min(launched_at) FROM drivers WHERE host IS NOT NULL GROUP BY 1"
        rows = self.park.ask(f"{of_each} ORDER BY 2")
        began = [launched + SETTLES * (number > 0) for number, (_, launched) in enumerate(rows)]
        return [self._commits_of(host)[0].at - at for (host, _), at in zip(rows, began, strict=True)]

    def _commits_of(self, host: str) -> list[Written]:
        return [file for file in self.written() if file.host == host and file.path.startswith("checkpoint/commits/")]

    def written(self) -> list[Written]:
        """The files of the checkpoint and of the output that are there, in the order in which they took their names."""
        names = {host.writer: name for name, host in self.park.hosts.items()}
        found = []
        for root, title in ((self.checkpoint, "checkpoint"), (self.output, "output")):
            for folder, _, files in os.walk(root):
                for file in files:
                    path = Path(folder, file)
                    try:
                        status = path.stat()
                    except FileNotFoundError:
                        continue
                    relative = path.relative_to(root)
                    found.append(Written(status.st_ctime, names.get(status.st_uid, "?"), f"{title}/{relative}"))
        return sorted(found, key=lambda file: file.at)

    def beside(self) -> list[Written]:
        """The commits of a host after the query of a newer driver had started on another host. A driver that loses
        every race for a commit leaves no file of its own, so that `overlaps` does not show it."""
        rows = self.park.ask("SELECT started_at, host FROM drivers WHERE started_at IS NOT NULL ORDER BY 1")
        starts = [(at, host.partition("/")[0]) for at, host in rows]
        commits = [file for host in self.park.hosts for file in self._commits_of(host)]
        newest = {file: [host for at, host in starts if at < file.at][-1:] for file in commits}
        return [file for file, owner in newest.items() if owner and owner != [file.host]]

    def counts(self, file: Written) -> bool:
        """Whether readers of the checkpoint or of the output look at the file: it is an entry of a log, or an entry of
        the output's log names it. A name that begins with a dot is temporary, or of a checksum."""
        if Path(file.path).name.startswith("."):
            return False
        if file.path.startswith(LOGS):
            return True
        listed = {f"output/{path.relative_to(self.output)}" for path in self._listed()}
        return file.path in listed

    def delivered(self) -> Counter[str]:
        """The ids of the events in the output, by the files that its manifest names: how often each is there."""
        return ids_in(self._listed())

    def secrets_on(self, host: str) -> list[Path]:
        """The files with a secret of drivers that ran on a host, in their folders."""
        rows = self.park.ask(f"SELECT driver_id FROM drivers WHERE host LIKE '{host}/%%'")
        files = [file for (driver,) in rows for file in (self.data / "drivers" / NAME / driver).glob("*.*")]
        return [file for file in files if file.is_file() and SECRET in file.read_text(errors="replace")]

    def _listed(self) -> list[Path]:
        here = f"file://{SHARED}"
        return [self.park.shared / path.removeprefix(here).lstrip("/") for path in listed(self.output)]


def overlaps(written: list[Written]) -> list[Written]:
    """The files that a host wrote after another one had taken over from it: each of them is a second writer's."""
    owner, former, found = "", set[str](), []
    for file in written:
        if file.host in former:
            found.append(file)
        elif file.host != owner:
            former.add(owner)
            owner = file.host
    return found
