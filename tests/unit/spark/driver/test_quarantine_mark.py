"""Which batches a driver keeps aside: those after the mark, on a disk as in an object store. Spark is left out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import InputGone
from streamwarden.progress import Progress, parse_progress
from streamwarden.spark.driver import quarantine
from streamwarden.spark.driver.quarantine import Quarantines
from streamwarden.stream.spec import StreamSpec
from support.servers.bucket import Bucket, bucket
from support.spark.drivers import until as waited

QUERY = "5ca1ab1e-0000-4000-8000-000000000001"


class Frames:
    """A source whose malformed rows are only counted as written; `failing`: batch -> what reading it raises."""

    def __init__(self, failing: Mapping[int, Exception]) -> None:
        self.written: list[str] = []
        self.tried: list[int] = []
        self.failing = failing

    def malformed_of(self, spark: Any, checkpoint: Location, place: int, batch: int) -> Frames:
        self.tried.append(batch)
        if batch in self.failing:
            raise self.failing[batch]
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


def commit(root: str, last: int, lake: Bucket, *, offsets_from: int = 0) -> None:
    """A checkpoint with batches up to `last`, whose offset log begins at `offsets_from`."""
    content = {"metadata": json.dumps({"id": QUERY})} | {f"commits/{batch}": "v1\n{}" for batch in range(last + 1)}
    content |= {f"offsets/{batch}": 'v1\n{}\n{"t":{"0":1}}' for batch in range(offsets_from, last + 1)}
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


class Life:
    """Lives of drivers: each with these reports, the batches that it wrote, and what it told."""

    def __init__(self, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.monkeypatch = root, monkeypatch
        self.failing: dict[int, Exception] = {}
        self.gaps: list[tuple[str, str]] = []
        self.tried: list[int] = []

    def begin(self, *reports: Progress) -> tuple[Quarantines, Frames]:
        source = Frames(self.failing)
        self.tried = source.tried
        self.monkeypatch.setattr(quarantine, "registered", lambda name: {0: source})
        spec = StreamSpec(name="s", job="/j.py", checkpoint=f"{self.root}/c", quarantine=f"{self.root}/q")
        kept = Quarantines(spec, report=lambda gap: self.gaps.append((gap["first"], gap["last"])))
        for progress in reports:  # before the start: a batch whose report comes late is read as if it had none
            kept.seen(progress)
        kept.start(None)
        return kept, source

    def __call__(self, *reports: Progress, until: Callable[[Frames], bool] = lambda source: True) -> list[str]:
        kept, source = self.begin(*reports)
        waited("the batches", lambda: until(source), poll=0.01)
        kept.close()
        return [target.rpartition("/")[2] for target in source.written]


@pytest.fixture
def live(root: str, monkeypatch: pytest.MonkeyPatch) -> Life:
    monkeypatch.setattr(quarantine, "_RETRY_EVERY", 0.01)
    return Life(root, monkeypatch)


def test_the_next_driver_goes_on_after_the_mark(root: str, lake: Bucket, live: Life) -> None:
    commit(root, 1, lake)
    assert live(report(0, 1), report(1, 0)) == ["batch=0"]
    commit(root, 3, lake)
    assert live(report(3, 2)) == ["batch=2", "batch=3"], "of batch 2 there is no report, so its input is read"
    assert live() == []


def test_a_checkpoint_that_cannot_be_read_leaves_the_mark_where_it_is(
    root: str, lake: Bucket, live: Life, monkeypatch: pytest.MonkeyPatch
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


def test_batch_with_lost_input_is_reported_once_and_does_not_block(root: str, lake: Bucket, live: Life) -> None:
    commit(root, 3, lake)
    live.failing = {0: InputGone("gone"), 1: InputGone("gone")}
    assert live(report(3, 1)) == ["batch=2", "batch=3"]
    assert live.gaps == [("0", "0"), ("1", "1")]
    assert live() == []
    assert live.tried == [], "the mark is beyond them"


def test_a_quarantine_that_is_declared_on_an_old_stream_begins_where_the_offset_log_does(
    root: str, lake: Bucket, live: Life
) -> None:
    """Batch 50 is the first whose beginning the log tells: that takes offsets/49."""
    commit(root, 52, lake, offsets_from=49)
    assert live(report(52, 1)) == ["batch=50", "batch=51", "batch=52"]
    assert live.gaps == [("0", "49")]
    assert live() == []
    assert live.gaps == [("0", "49")]


@pytest.mark.parametrize("said", ["[PATH_NOT_FOUND] Path does not exist", "Some data may have been lost because they"])
def test_input_that_spark_still_finds_gone_after_some_attempts_is_gone(
    root: str, lake: Bucket, live: Life, said: str
) -> None:
    commit(root, 1, lake)
    live.failing = {0: RuntimeError(said)}
    assert live(report(1, 1), until=lambda source: len(source.written) == 1) == ["batch=1"]
    assert live.tried.count(0) == 5
    assert live.gaps == [("0", "0")]
    assert live() == []


def test_a_batch_that_fails_lets_the_others_go_on_and_is_tried_again_at_the_next_start(
    root: str, lake: Bucket, live: Life
) -> None:
    commit(root, 2, lake)
    live.failing = {1: RuntimeError("no route to host")}
    assert live(report(2, 1), until=lambda source: len(source.written) == 2) == ["batch=0", "batch=2"]
    assert live.gaps == []
    live.failing = {}
    assert live() == ["batch=1", "batch=2"], "writing a batch again replaces it by itself"
    assert live() == []


def test_a_batch_that_was_passed_over_is_kept_when_its_storage_is_back(
    root: str, lake: Bucket, live: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "_PASSED_EVERY", 0.05)
    commit(root, 1, lake)
    live.failing = {0: RuntimeError("no route to host")}
    kept, source = live.begin(report(0, 1), report(1, 1))
    waited("the batch", lambda: len(source.written) == 1, poll=0.01)
    live.failing.clear()
    waited("the batch", lambda: len(source.written) == 2, poll=0.01)
    kept.close()
    assert [target.rpartition("/")[2] for target in source.written] == ["batch=1", "batch=0"]
    assert live() == [], "the mark is beyond both"
