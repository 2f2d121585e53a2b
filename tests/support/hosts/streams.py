"""A stream on the hosts of a park, and what a judge wants to know of it: who wrote what, and which events came out.

The project is on each host's own disk, the data folder is the shared one. `Events` makes input that has an id in each
line, and remembers the ids.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

import pyarrow.parquet as pq

from support.hosts.host import LOCAL, SHARED, Host
from support.hosts.park import Park
from support.spark.drivers import QUICK, until

REPOSITORY: Final = Path(__file__).parents[3]
NAME: Final = "events"
PROJECT: Final = LOCAL / "project"
DATA: Final = SHARED / "var"
COMMAND: Final = str(Path(sys.executable).parent / "streamwarden")

LOGS: Final = ("checkpoint/offsets/", "checkpoint/commits/", "checkpoint/sources/", "output/_spark_metadata/")
"""Of which each entry is written once."""

PARQUET: Final = {"kind": "parquet", "path": "output/events"}
FILES: Final = {"kind": "files", "path": "input", "format": "json", "max_files_per_trigger": 4}


class Events:
    """Files of events, each with an id of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)
        self.count = 0
        self.files = 0

    def lines(self, rows: int) -> list[str]:
        """New events as lines of JSON."""
        made = []
        for _ in range(rows):
            at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            event = {"event_time": at, "event_id": f"e{self.count}", "user_id": self.count % 7, "action": "view"}
            made.append(json.dumps(event))
            self.count += 1
        return made

    def publish(self, rows: int = 50) -> None:
        """One file more."""
        lines = self.lines(rows)
        part = self.folder / f".{self.files:06d}"
        part.write_text("\n".join(lines) + "\n")
        part.rename(self.folder / f"{self.files:06d}.json")
        self.files += 1

    @contextmanager
    def flowing(self, every: float = 0.5) -> Iterator[None]:
        """A file each `every` seconds in this block."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(every):
                self.publish()

        thread = threading.Thread(target=run, name="events")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@dataclass(frozen=True)
class Written:
    """A file of the checkpoint or the output: when it took its name (Unix seconds), and which host wrote it."""

    at: float
    host: str
    path: str


class HostedStream:
    """The stream `events` of a park.

    Args:
        sink, source: as its file declares them.
        env: more environment for every host.
        job_says: lines at the end of the job, which every driver executes.
    """

    def __init__(
        self,
        park: Park,
        *,
        sink: dict[str, Any] = PARQUET,
        source: dict[str, Any] = FILES,
        env: dict[str, str] | None = None,
        job_says: str = "",
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
        self._file = {
            "name": NAME,
            "job": "spark_jobs/event_dedup.py",
            "source": source,
            "sink": sink,
            "checkpoint": f"checkpoints/{NAME}",
            "quarantine": f"quarantine/{NAME}",
            "trigger": {"processing_time": "1 second"},
            "state": {"backend": "rocksdb", "shuffle_partitions": 1},
            "restart": {"budget": "50 per hour", "unresponsive_after": "20s"},
            "spark": {"master": "local[1]", "driver_memory": "700 MB", "conf": QUICK},
        }
        self._job_says = job_says
        self._logs: list[IO[str]] = []
        for host in park.hosts.values():
            self._lay_out(host)

    def _lay_out(self, host: Host) -> None:
        root = host.disk / "project"
        (root / "spark_jobs" / "oracles").mkdir(parents=True)
        (root / "config" / "streams").mkdir(parents=True)
        (host.disk / "tmp").mkdir()
        for name in ("event_dedup.py", "oracles/event_dedup.py"):
            shutil.copy(REPOSITORY / "spark_jobs" / name, root / "spark_jobs" / name)
        with (root / "spark_jobs" / "event_dedup.py").open("a") as job:
            job.write(self._job_says)
        (root / "config" / "streams" / f"{NAME}.yaml").write_text(json.dumps(self._file))

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

    def committed(self) -> list[int]:
        """The committed batches."""
        folder = self.checkpoint / "commits"
        return sorted(int(file.name) for file in folder.glob("*") if file.name.isdigit())

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
        counts: Counter[str] = Counter()
        for file in self._listed():
            counts.update(pq.read_table(file, columns=["event_id"])["event_id"].to_pylist())
        return counts

    def _listed(self) -> list[Path]:
        manifest = self.output / "_spark_metadata"
        names = [file.name for file in manifest.glob("*")]
        compact = max((int(name.split(".")[0]) for name in names if name.endswith(".compact")), default=-1)
        wanted = [f"{compact}.compact"] if compact >= 0 else []
        wanted += sorted((name for name in names if name.isdigit() and int(name) > compact), key=int)
        files: dict[str, None] = {}
        for name in wanted:
            for line in (manifest / name).read_text().splitlines()[1:]:
                files[json.loads(line)["path"]] = None
        here = f"file://{SHARED}"
        return [self.park.shared / path.removeprefix(here).lstrip("/") for path in files]


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
