"""Positions, offsets in words, and which batch read which file."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import LocalFiles, open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import Damaged, parse_json, parse_log_file
from streamwarden.checkpoint.formats.logs import (
    commit,
    committed_times,
    log_position,
    offsets,
    planned_times,
    require_uuid,
    watermarks,
)
from streamwarden.checkpoint.formats.sources import file_source_log, source_entries
from streamwarden.checkpoint.offset_texts import describe_offset
from streamwarden.errors import CheckpointError
from support.checkpoints.recorded import Unpack


def write_offsets(root: Path, batch: int, *ends: object, watermark: int = 0) -> None:
    (root / "offsets").mkdir(parents=True, exist_ok=True)
    head = {"batchWatermarkMs": watermark, "batchTimestampMs": 1, "conf": {"spark.sql.shuffle.partitions": "3"}}
    lines = ["v1", json.dumps(head), *(end if isinstance(end, str) else json.dumps(end) for end in ends)]
    (root / "offsets" / str(batch)).write_text("\n".join(lines))


def write_commit(root: Path, batch: int) -> None:
    (root / "commits").mkdir(parents=True, exist_ok=True)
    (root / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":5}')


def write_source(root: Path, name: str, *files: tuple[str, int]) -> None:
    folder = root / "sources/0"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": f"file:///in/{path}", "timestamp": 1, "batchId": at}) for path, at in files]
    (folder / name).write_text("\n".join(["v1", *lines]))


def test_a_checkpoint_that_does_not_exist_yet_has_an_empty_position(tmp_path: Path) -> None:
    position = log_position(open_path(tmp_path / "none"))
    assert (position.query_id, position.planned, position.committed, position.gap) == (None, None, None, 0)


def test_a_running_batch_is_a_gap_of_one(tmp_path: Path) -> None:
    for batch in range(3):
        write_offsets(tmp_path, batch, {"logOffset": batch})
    for batch in range(2):
        write_commit(tmp_path, batch)
    os.utime(tmp_path / "offsets/2", (100.5, 100.5))
    (tmp_path / "offsets/.3.tmp").write_text("scratch")
    (tmp_path / "offsets/.2.crc").write_bytes(b"crc")
    position = log_position(open_path(tmp_path))
    assert (position.planned, position.committed, position.gap) == (2, 1, 1)
    assert position.planned_at == 100.5


def test_the_first_batch_running_is_a_gap_of_one_too(tmp_path: Path) -> None:
    write_offsets(tmp_path, 0, {"logOffset": 0})
    assert log_position(open_path(tmp_path)).gap == 1


def test_unreadable_folder_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    class Locked(LocalFiles):
        def names(self, path: str) -> list[str]:
            raise PermissionError(13, "Permission denied", path)

    with pytest.raises(CheckpointError, match="permissions"):
        log_position(Location(Locked(), str(tmp_path)))


def test_times_and_watermarks_come_by_batch(unpack: Unpack, tmp_path: Path) -> None:
    checkpoint = open_path(unpack("spark-4.3.0-changelog", tmp_path))
    assert list(planned_times(checkpoint)) == list(committed_times(checkpoint)) == list(range(14))
    marks = watermarks(checkpoint)
    assert marks[0] == 0
    assert sorted(marks.values()) == list(marks.values())
    assert marks[13] == commit(checkpoint, 12).next_watermark_ms == offsets(checkpoint, 13).watermark_ms


@pytest.mark.parametrize("content", [None, "", "v1", 'v1\n{"batchWaterm', "not a log"])
def test_a_log_file_that_cannot_be_used_is_an_error_that_names_it(content: str | None, tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    if content is not None:
        (tmp_path / "offsets/4").write_text(content)
    with pytest.raises(CheckpointError) as caught:
        offsets(open_path(tmp_path), 4)
    assert caught.value.where.endswith("offsets/4")
    assert "inspect" in caught.value.next_step


def test_files_belong_to_the_batch_that_read_them_also_when_batches_had_none(tmp_path: Path) -> None:
    """Batch 1 had no new file, so from then on the log's own numbers lag behind the batch ids."""
    for batch, end in enumerate([0, 0, 2, 2, 3]):
        write_offsets(tmp_path, batch, {"logOffset": end})
    write_source(tmp_path, "0", ("a", 0))
    write_source(tmp_path, "1.compact", ("a", 0), ("b", 1))
    write_source(tmp_path, "2", ("c", 2))
    write_source(tmp_path, "3", ("d", 3))
    read = {batch: [uri[-1] for uri in uris] for batch, uris in file_source_log(open_path(tmp_path)).items()}
    assert read == {0: ["a"], 1: [], 2: ["b", "c"], 3: [], 4: ["d"]}


def test_the_batch_after_a_purge_is_left_out_since_its_files_are_not_known(tmp_path: Path) -> None:
    for batch in (4, 5):
        write_offsets(tmp_path, batch, {"logOffset": batch})
    write_source(tmp_path, "4.compact", ("a", 0), ("b", 4))
    write_source(tmp_path, "5", ("c", 5))
    assert {batch: len(uris) for batch, uris in file_source_log(open_path(tmp_path)).items()} == {5: 1}
    assert list(source_entries(open_path(tmp_path))) == [0, 4, 5]


def test_a_hole_in_the_source_log_is_an_error(tmp_path: Path) -> None:
    write_offsets(tmp_path, 0, {"logOffset": 2})
    write_source(tmp_path, "0", ("a", 0))
    write_source(tmp_path, "2", ("c", 2))
    with pytest.raises(CheckpointError) as caught:
        file_source_log(open_path(tmp_path))
    assert caught.value.where.endswith("sources/0/1")


def test_a_source_without_a_log_of_files_has_no_files(tmp_path: Path) -> None:
    """A rate source keeps only the time at which it began."""
    write_offsets(tmp_path, 0, "8")
    write_source(tmp_path, "0")
    (tmp_path / "sources/0/0").write_text("v1\n1795269690509")
    assert file_source_log(open_path(tmp_path)) == {}


def test_format_2_names_its_sources(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/0").write_text(
        'v2\n{"batchWatermarkMs":0}\norders:{"t":{"0":5,"1":7}}\nclicks:{"logOffset":3}'
    )
    record = offsets(open_path(tmp_path), 0)
    assert record.source_ids == ("orders", "clicks")
    assert record.sources == ({"t": {"0": 5, "1": 7}}, {"logOffset": 3})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "no offset"),
        (8, "offset 8"),
        ({"logOffset": 7}, "file log offset 7"),
        (
            {"b": {"0": 5}, "a": {"10": 3, "2": 4}},
            "topic a: 2 partitions up to 2:4, 10:3; topic b: 1 partition up to 0:5",
        ),
        ({"custom": "x"}, '{"custom": "x"}'),
        ([1, 2], "[1, 2]"),
        ("2026-01-01", "2026-01-01"),
    ],
)
def test_offsets_are_said_in_words(value: object, words: str) -> None:
    assert describe_offset(value) == words


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("7c1b6bd0-0000-4000-8000-000000000000", True),
        ("7C1B6BD0-0000-4000-8000-000000000000", True),
        ("1-2-3-4-5", True),
        ("flights", False),
        ("1-2-3-4", False),
        ("1-2-3-4-5-6", False),
        ("1--3-4-5", False),
        ("7c1b6bd0000040008000000000000000", False),
        (" 7c1b6bd0-0000-4000-8000-000000000000", False),
        ("7c1b6bd0-0000-4000-8000-00000000000g", False),
    ],
)
def test_an_id_is_a_uuid_as_java_reads_it(text: str, accepted: bool) -> None:
    """Tried with Spark 4.3: it takes shortened numbers, and refuses the form without dashes."""
    with nullcontext() if accepted else pytest.raises(Damaged, match="not a UUID"):
        require_uuid(text)


def test_a_line_counts_up_to_the_end_of_its_first_value() -> None:
    assert parse_json('{"a": 1}more') == {"a": 1}
    with pytest.raises(Damaged):
        parse_json('{"a": 1')


@pytest.mark.parametrize("first", ["v0", " v1", "v1 ", "v", "1"])
def test_a_version_line_is_taken_to_the_letter(first: str) -> None:
    with pytest.raises(Damaged, match="first line"):
        parse_log_file(f"{first}\n{{}}".encode())
    assert parse_log_file(b"v1\r\n{}\r\n").version == 1
