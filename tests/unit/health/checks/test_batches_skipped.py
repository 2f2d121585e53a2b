"""Batches that Spark committed without writing them, because an older run's manifest listed them."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.skipped import SkippedBatches, skipped_batches
from streamwarden.health.checks.batches import batches_skipped
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Batch
from streamwarden.progress import parse_progress
from streamwarden.services.monitoring.probe import skipped_of
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.stream.spec import SinkSpec
from support.streams.health_windows import judge, log, recorded, spec, window

SOME = SkippedBatches(skipped=(0, 1, 2), ahead=range(3, 6))


def verdict(skipped: SkippedBatches | None, before: Verdict | None = None, query: str | None = "one") -> Verdict:
    previous = {} if before is None else {before.check: before}
    at = replace(log(9, 9), query_id=query)
    return judge(batches_skipped.CHECK, window(skipped=skipped, log=at, previous=previous))


def test_one_skipped_batch_is_critical_and_none_is_fine() -> None:
    assert verdict(SkippedBatches()).status is Status.OK
    one = verdict(SkippedBatches(skipped=(4,)))
    assert one.status is Status.CRITICAL
    assert "batch 4" in one.reason
    assert "new checkpoint path and a new output" in one.advice


def test_batches_that_will_be_skipped_are_critical_before_they_are() -> None:
    found = verdict(SOME)
    assert found.value == 6
    assert "committed batches 0 to 2" in found.reason
    assert "will skip batches 3 to 5" in found.reason


def test_lost_rows_stay_lost_when_the_logs_forget_them() -> None:
    """Until the query has another id; a round that could not read the checkpoint forgets nothing."""
    blind = verdict(None, verdict(SOME), query=None)
    assert blind.status is Status.UNKNOWN
    later = verdict(SkippedBatches(), blind)
    assert later.status is Status.CRITICAL
    assert later.value == 3
    assert verdict(SkippedBatches(), later, query="two").status is Status.OK


def test_an_output_without_a_manifest_skips_nothing() -> None:
    topic = spec(sink=KafkaSink(connection="events", topic="out", key=("id",)))
    assert judge(batches_skipped.CHECK, window(spec=topic, log=log(3, 3))).status is Status.OK
    assert verdict(None).status is Status.UNKNOWN


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for folder in ("checkpoint/offsets", "checkpoint/commits", "output/_spark_metadata"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def plan(home: Path, batch: int, at: float) -> None:
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": int(at * 1000), "conf": {}})
    _write(home / "checkpoint/offsets" / str(batch), f"v1\n{head}\n0\n", at)


def entry(home: Path, batch: int, at: float, *, compact: bool = False) -> None:
    line = {
        "path": f"file://{home}/output/part-{batch}.parquet",
        "size": 1,
        "isDir": False,
        "modificationTime": int(at * 1000),
        "blockReplication": 1,
        "blockSize": 1,
        "action": "add",
    }
    _write(home / "output/_spark_metadata" / f"{batch}{'.compact' if compact else ''}", f"v1\n{json.dumps(line)}", at)


def _write(path: Path, text: str, at: float) -> None:
    path.write_text(text)
    os.utime(path, (at, at))


def found(home: Path) -> SkippedBatches | None:
    return skipped_batches(open_path(home / "checkpoint"), open_path(home / "output"))


def test_entries_that_are_older_than_their_plan_and_entries_beyond_it(home: Path) -> None:
    for batch in range(6):
        entry(home, batch, 1000.0 + batch)
    for batch in range(3):
        plan(home, batch, 1010.0 + batch)
    assert found(home) == SOME


def test_a_run_that_writes_its_own_entries_skips_nothing(home: Path) -> None:
    """The negative control; the batch that was cut between its entry and its commit is its own, too."""
    for batch in range(12):
        plan(home, batch, 1000.0 + batch)
        entry(home, batch, 1000.5 + batch, compact=batch == 9)
    assert found(home) == SkippedBatches()


def test_a_checkpoint_that_was_copied_is_not_suspected(home: Path) -> None:
    """Its files are younger than the manifest, and say when they were planned."""
    for batch in range(3):
        plan(home, batch, 1000.0 + batch)
        entry(home, batch, 1000.5 + batch)
        os.utime(home / "checkpoint/offsets" / str(batch), (9000.0, 9000.0))
    assert found(home) == SkippedBatches()


def test_an_entry_without_files_has_the_time_of_its_own_file(home: Path) -> None:
    """A clock may be a minute off, so only an older one counts."""
    for batch, ago in ((0, 100.0), (1, 30.0)):
        plan(home, batch, 1000.0)
        _write(home / "output/_spark_metadata" / str(batch), "v1", 1000.0 - ago)
    assert found(home) == SkippedBatches(skipped=(0,))


def test_without_a_manifest_there_is_nothing_to_compare(home: Path) -> None:
    (home / "output/_spark_metadata").rmdir()
    assert found(home) is None


def test_the_output_of_a_script_is_taken_from_sparks_report(home: Path) -> None:
    entry(home, 0, 1000.0)
    plan(home, 0, 1010.0)
    script = spec(sink=SinkSpec(), checkpoint=str(home / "checkpoint"))
    report = parse_progress({**recorded("hdfs")[5], "sink": {"description": f"FileSink[file:{home}/output]"}})
    batch = Batch(stream="orders", query_id="one", batch_id=0, progress=report)
    assert skipped_of(script, [batch]) == SkippedBatches(skipped=(0,))
    assert skipped_of(script, []) is None
