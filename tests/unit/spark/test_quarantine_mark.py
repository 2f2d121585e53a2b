"""Which batches a driver keeps aside: those after the mark, on a disk as in an object store. Spark is left out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamwarden.checkpoint.filesystem import FileSystem
from streamwarden.progress import Progress, parse_progress
from streamwarden.spark import quarantine
from streamwarden.spark.quarantine import Quarantines
from streamwarden.stream import StreamSpec
from support.bucket import Bucket, bucket

QUERY = "5ca1ab1e-0000-4000-8000-000000000001"


class Frames:
    """A source whose malformed rows are only counted as written."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def malformed_of(self, spark: Any, fs: FileSystem, checkpoint: str, place: int, batch: int) -> Frames:
        return self

    def __getattr__(self, name: str) -> Any:  # coalesce(1).write.mode("overwrite")
        return self if name == "write" else lambda *values: self

    def json(self, target: str) -> None:
        self.written.append(target)


@pytest.fixture(params=["disk", "store"])
def root(request: pytest.FixtureRequest, tmp_path: Path, lake: Bucket) -> str:
    return str(tmp_path) if request.param == "disk" else "s3a://lake/s"


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    return bucket(monkeypatch)


def commit(root: str, last: int, lake: Bucket) -> None:
    """A checkpoint with batches up to `last`."""
    content = {"metadata": json.dumps({"id": QUERY})} | {f"commits/{batch}": "v1\n{}" for batch in range(last + 1)}
    for name, text in content.items():
        if root.startswith("s3a"):
            lake.pipe_file(f"{root}/c/{name}", text.encode())
        else:
            Path(root, "c", name).parent.mkdir(parents=True, exist_ok=True)
            Path(root, "c", name).write_text(text)


def report(batch: int, malformed: int) -> Progress:
    body = {
        "id": QUERY,
        "runId": QUERY,
        "name": "s",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": batch,
        "durationMs": {"addBatch": 1},
        "observedMetrics": {"input": {"malformed": malformed}},
    }
    return parse_progress(body)


@pytest.fixture
def live(root: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """One driver's life with these reports; the batches that it wrote."""

    def run(*reports: Progress) -> list[str]:
        source = Frames()
        monkeypatch.setattr(quarantine, "registered", lambda name: {0: source})
        kept = Quarantines(StreamSpec(name="s", job="/j.py", checkpoint=f"{root}/c", quarantine=f"{root}/q"))
        kept.start(None)
        for each in reports:
            kept.seen(each)
        kept.close()
        return [target.rpartition("/")[2] for target in source.written]

    return run


def test_the_next_driver_goes_on_after_the_mark(root: str, lake: Bucket, live: Callable[..., list[str]]) -> None:
    commit(root, 1, lake)
    assert live(report(0, 1), report(1, 0)) == ["batch=0"]
    commit(root, 3, lake)
    assert live(report(3, 2)) == ["batch=2", "batch=3"], "of batch 2 there is no report, so its input is read"
    assert live() == []


def test_a_checkpoint_that_cannot_be_read_leaves_the_mark_where_it_is(
    root: str, lake: Bucket, live: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a report of this driver's would pass over what the one before it did not get to."""
    commit(root, 2, lake)
    known = quarantine.log_position
    asked = threading.Event()

    def fails(*place: Any) -> Any:
        asked.set()
        raise OSError("SLOW_DOWN")

    monkeypatch.setattr(quarantine, "log_position", fails)
    assert live(report(2, 1)) == []
    assert asked.is_set()
    monkeypatch.setattr(quarantine, "log_position", known)
    assert live() == ["batch=0", "batch=1", "batch=2"]
