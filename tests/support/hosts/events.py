"""The stream `events` and its input. Each event has an id and is published once, so it has to come out once."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from support.spark.drivers import QUICK

REPOSITORY: Final = Path(__file__).parents[3]
NAME: Final = "events"
PARQUET: Final = {"kind": "parquet", "path": f"output/{NAME}"}
FILES: Final = {"kind": "files", "path": "input", "format": "json", "max_files_per_trigger": 4}

SECRET: Final = "hunter2-hunter2"
PASSWORD: Final = {"spark.ssl.historyServer.keyPassword": SECRET}
"""A secret that each driver has in its folder, and that nothing reads."""


class Events:
    """Files of events in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)
        self.count = 0
        self.files = 0

    @property
    def ids(self) -> set[str]:
        """Of all events that were published."""
        return {f"e{number}" for number in range(self.count)}

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
        self.put(f"{self.files:06d}", "\n".join(self.lines(rows)) + "\n")
        self.files += 1

    def put(self, name: str, text: str) -> None:
        """A file that is there whole."""
        part = self.folder / f".{name}"
        part.write_text(text)
        part.rename(self.folder / f"{name}.json")

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


def declare(project: Path, *, job_says: str = "", **keys: Any) -> None:
    """Put the stream into the folder of a project.

    Args:
        job_says: lines at the end of the job, which every driver executes.
        keys: of the stream's file, in place of those here.
    """
    for folder in ("spark_jobs/oracles", "config/streams"):
        (project / folder).mkdir(parents=True, exist_ok=True)
    for name in ("event_dedup.py", "oracles/event_dedup.py"):
        shutil.copy(REPOSITORY / "spark_jobs" / name, project / "spark_jobs" / name)
    with (project / "spark_jobs/event_dedup.py").open("a") as job:
        job.write(job_says)
    document = {
        "name": NAME,
        "job": "spark_jobs/event_dedup.py",
        "source": FILES,
        "sink": PARQUET,
        "checkpoint": f"checkpoints/{NAME}",
        "quarantine": f"quarantine/{NAME}",
        "trigger": {"processing_time": "1 second"},
        "state": {"backend": "rocksdb", "shuffle_partitions": 1},
        "restart": {"budget": "50 per hour"},
        "spark": {"master": "local[1]", "driver_memory": "700 MB", "conf": QUICK | PASSWORD},
    }
    (project / f"config/streams/{NAME}.yaml").write_text(json.dumps(document | keys))


def listed(output: Path) -> list[str]:
    """The files that the manifest of an output names, as it names them: a reader that honours it reads these."""
    manifest = output / "_spark_metadata"
    names = [file.name for file in manifest.glob("*")]
    compact = max((int(name.split(".")[0]) for name in names if name.endswith(".compact")), default=-1)
    wanted = [f"{compact}.compact"] if compact >= 0 else []
    wanted += sorted((name for name in names if name.isdigit() and int(name) > compact), key=int)
    lines = (line for name in wanted for line in (manifest / name).read_text().splitlines()[1:])
    return list(dict.fromkeys(json.loads(line)["path"] for line in lines))


def ids_in(files: Iterable[Path]) -> Counter[str]:
    """The ids of the events in files of the output: how often each is there."""
    counts: Counter[str] = Counter()
    for file in files:
        counts.update(pq.read_table(file, columns=["event_id"])["event_id"].to_pylist())
    return counts
