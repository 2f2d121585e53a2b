"""A stream as the health monitor finds it: its checkpoint laid out as Spark does, its rows in a real store."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from streamwarden.adapters.processes import identity
from streamwarden.adapters.store import Store
from streamwarden.health.verdict import Verdict
from streamwarden.lifecycle.driver import DriverRecord, ExitRecord, ProcessIdentity
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import StreamSpec
from support.streams.health_windows import report, spec

QUERY = report().query_id
T0 = 1_800_000_000.0


class Stream:
    """A stream's checkpoint and input folder, and what its driver would write."""

    def __init__(self, home: Path, store: Store, name: str = "orders", **changes: Any) -> None:
        self.home, self.store, self.name = home / name, store, name
        self.checkpoint, self.input = self.home / "checkpoint", self.home / "input"
        for folder in ("offsets", "commits", "sources/0", "state/0/0"):
            (self.checkpoint / folder).mkdir(parents=True)
        self.input.mkdir()
        (self.checkpoint / "metadata").write_text(json.dumps({"id": QUERY}))
        settings = {
            "name": name,
            "checkpoint": str(self.checkpoint),
            "source": FilesSource(path=str(self.input), max_files_per_trigger=1),
        }
        self.spec: StreamSpec = spec(**{**settings, **changes})

    def plan(self, batch: int, at: float, *files: str) -> None:
        """`offsets/N`, and in the source's log the files that the batch reads."""
        entries = [
            json.dumps(
                {"path": f"file://{quote(str(self.input / name))}", "timestamp": int(at * 1000), "batchId": batch}
            )
            for name in files
        ]
        self._write(f"sources/0/{batch}", "\n".join(["v1", *entries]), at)
        head = {"batchWatermarkMs": 0, "batchTimestampMs": int(at * 1000), "conf": {}}
        self._write(f"offsets/{batch}", "\n".join(["v1", json.dumps(head), json.dumps({"logOffset": batch})]), at)

    def commit(self, batch: int, at: float, *, snapshot: bool = True) -> None:
        """State version N+1, then `commits/N`."""
        self._write(f"state/0/0/{batch + 1}.changelog", "x" * 100, at)
        if snapshot:
            self._write(f"state/0/0/{batch + 1}.zip", "x" * 100, at)
        self._write(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}', at)

    def run(self, batches: range, *, reported: bool = True, checkpoint_ms: int = 100, until: float = T0) -> None:
        """Batches of one second, ten seconds apart, the last one committed a second before `until`."""
        for batch in batches:
            at = until - 2 - 10 * (batches[-1] - batch)
            self.drop(f"f{batch}.json")
            self.plan(batch, at, f"f{batch}.json")
            self.commit(batch, at + 1)
            if reported:
                mark = at - 60
                progress = report(
                    batch, at, top={"batchDuration": 1000}, durations={"walCommit": checkpoint_ms}, watermark=mark
                )
                self.store.batches.upsert_progress(self.name, progress)

    def drop(self, name: str, at: float = T0 - 5) -> None:
        """An input file appears."""
        path = self.input / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
        os.utime(path, (at, at))

    def drive(self, process: ProcessIdentity | None, *, number: int = 1, exit: ExitRecord | None = None) -> None:
        """A driver was launched ten minutes ago and, by default, still runs as `process`."""
        record = DriverRecord(
            driver_id=f"{self.name}-{number}",
            stream=self.name,
            checkpoint=self.spec.checkpoint,
            token=number,
            folder=str(self.home),
            launched_by="test",
            launched_at=T0 - 600,
            process=process,
            query_id=QUERY,
            started_at=T0 - 590,
            exit=exit,
        )
        self.store.drivers.launched(record)

    def _write(self, name: str, text: str, at: float) -> None:
        path = self.checkpoint / name
        path.write_text(text)
        os.utime(path, (at, at))


def me() -> ProcessIdentity:
    found = identity(os.getpid())
    assert found is not None
    return found


def by_check(verdicts: tuple[Verdict, ...]) -> dict[str, Verdict]:
    return {verdict.check: verdict for verdict in verdicts}
