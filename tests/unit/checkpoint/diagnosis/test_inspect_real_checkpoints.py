"""Checkpoints that Spark 3.5.6, 4.0.1 and 4.3.0 wrote are read, and nothing in them looks damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import fsspec
import pytest

from streamwarden.adapters.storage.files import FsspecFiles, open_path
from streamwarden.checkpoint.diagnosis.report import CheckpointReport, read_checkpoint
from streamwarden.errors import CheckpointError
from support.checkpoints.recorded import NAMES, Unpack

Inspect = Callable[[str], CheckpointReport]


@pytest.fixture(scope="session")
def inspect(whole: Callable[[str], Path]) -> Inspect:
    """Reads the checkpoint of this name."""

    def inspect_one(name: str) -> CheckpointReport:
        return read_checkpoint(open_path(whole(name)), output=open_path(whole(name).parent / "output"))

    return cache(inspect_one)


def test_there_are_archives_of_three_spark_versions() -> None:
    assert {name.split("-")[1] for name in NAMES} == {"3.5.6", "4.0.1", "4.3.0"}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wrong_with_a_whole_checkpoint(name: str, inspect: Inspect) -> None:
    report = inspect(name)
    assert report.findings == ()
    assert report.worst is None
    assert report.position.gap == 0
    assert report.position.query_id is not None
    assert report.position.committed is not None
    assert report.position.committed_at >= report.position.planned_at > 0  # type: ignore[operator]
    assert report.shuffle_partitions == 2
    assert report.state_bytes == sum(store.bytes for store in report.stores) > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_report_is_json(name: str, inspect: Inspect) -> None:
    report = inspect(name)
    read_back = json.loads(json.dumps(report.to_dict()))
    assert read_back["gap"] == 0
    assert read_back["batches"][-1]["batch"] == report.position.planned
    assert sum(sum(each["bytes_by_partition"].values()) for each in read_back["operators"]) == read_back["state_bytes"]


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_behind_fsspec_reads_the_same(name: str, whole: Callable[[str], Path]) -> None:
    local = read_checkpoint(open_path(whole(name)))
    memory = fsspec.filesystem("memory")
    memory.put(local.path, f"/remote/{name}", recursive=True)
    there = open_path(f"memory://remote/{name}")
    assert isinstance(there.fs, FsspecFiles)
    remote = read_checkpoint(there)
    assert remote.findings == ()
    assert remote.stores == local.stores
    assert remote.operators == local.operators
    assert [each.sources for each in remote.batches] == [each.sources for each in local.batches]


def test_what_the_batches_read_is_said_in_words(inspect: Inspect) -> None:
    report = inspect("spark-4.3.0-changelog")
    assert [batch.batch for batch in report.batches] == [9, 10, 11, 12, 13]
    assert report.batches[-2].sources == ("file log offset 12, 1 file",)
    assert report.batches[-1].sources == ("file log offset 12, 0 files",), "the last batch only moved the watermark"
    assert report.watermark_ms == 1_356_998_400_000 + 12 * 60_000 + 19_000 - 60_000


def test_operators_have_spark_s_own_names_since_spark_4(inspect: Inspect) -> None:
    def names(name: str) -> list[str | None]:
        return [each.name for each in inspect(name).operators]

    assert names("spark-3.5.6-hdfs") == ["stateStoreSave"], "inferred from the schema"
    assert inspect("spark-3.5.6-hdfs").operators[0].inferred
    assert names("spark-4.0.1-changelog") == ["stateStoreSave"]
    assert not inspect("spark-4.0.1-changelog").operators[0].inferred


def test_formats_are_distinguished(inspect: Inspect) -> None:
    old, second, named = (
        inspect(f"spark-{name}").formats for name in ("3.5.6-rocksdb", "4.3.0-format2", "4.3.0-offsets2")
    )
    assert (old["checkpoint"], old["offsets"], old["commits"]) == ("1", "v1", "v1")
    assert (second["checkpoint"], second["commits"]) == ("2", "v2")
    assert named["offsets"] == "v2"


def test_replay_facts_name_the_last_snapshot_and_the_later_deltas(inspect: Inspect) -> None:
    for store in inspect("spark-4.3.0-changelog").stores:
        replay = store.replay
        assert replay.newest == 14, "version N+1 is the state after batch N"
        assert replay.snapshot == max(store.snapshots)
        assert replay.versions == 14 - replay.snapshot
        assert (replay.changelog_bytes > 0) == (replay.versions > 0)


@pytest.mark.parametrize("part", ["", "output", "checkpoint/metadata", "nowhere"])
def test_folder_that_is_not_a_checkpoint_is_refused_with_a_next_step(part: str, unpack: Unpack, tmp_path: Path) -> None:
    unpack("spark-4.3.0-hdfs", tmp_path)
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(open_path(tmp_path / part))
    assert "checkpointLocation" in caught.value.next_step
    assert str(tmp_path / part) in str(caught.value)


def test_scheme_without_a_driver_is_refused_with_a_next_step() -> None:
    with pytest.raises(CheckpointError, match="driver"):
        open_path("nosuchscheme://bucket/checkpoint")
