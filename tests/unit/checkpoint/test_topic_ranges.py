"""Which records of a topic each batch read, from the logs that Spark writes."""

import json
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.topics import TopicRange, topic_offsets, topic_ranges, without
from streamwarden.errors import CheckpointError


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Two batches of two partitions; the second batch finds a third partition, and nothing new in the first."""
    for folder in ("offsets", "sources/0"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sources/0/0").write_bytes(b'\0v1\n{"events":{"0":5,"1":0}}')
    for batch, offsets in enumerate(({"0": 9, "1": 4}, {"0": 9, "1": 7, "2": 3})):
        (tmp_path / f"offsets/{batch}").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps({"events": offsets})}')
    return tmp_path


def ranges(checkpoint: Path) -> dict[int, tuple[TopicRange, ...]]:
    return topic_ranges(open_path(checkpoint))


def test_a_batch_begins_where_the_one_before_it_ended(checkpoint: Path) -> None:
    assert ranges(checkpoint) == {
        0: (TopicRange("events", 0, 5, 9), TopicRange("events", 1, 0, 4)),
        1: (TopicRange("events", 1, 4, 7), TopicRange("events", 2, 0, 3)),
    }


def test_a_batch_without_its_predecessor_is_left_out(checkpoint: Path) -> None:
    (checkpoint / "offsets/0").unlink()
    assert ranges(checkpoint) == {}


@pytest.mark.parametrize("content", [b"", b"v1\n", b"\0v1\n{cut", b'v1\n{"logOffset":0}'])
def test_an_unknown_beginning_is_an_error(checkpoint: Path, content: bytes) -> None:
    (checkpoint / "sources/0/0").write_bytes(content)
    with pytest.raises(CheckpointError, match="sources/0/0"):
        ranges(checkpoint)


def test_another_kind_of_source_has_none(checkpoint: Path) -> None:
    for batch in (0, 1):
        (checkpoint / f"offsets/{batch}").write_text('v1\n{"batchWatermarkMs":0}\n{"logOffset":0}')
    assert ranges(checkpoint) == {}


@pytest.mark.parametrize("value", [None, 7, "x", {}, {"logOffset": 1}, {"t": {"x": 1}}, {"t": {"0": "1"}}])
def test_what_is_no_position_in_a_topic(value: object) -> None:
    assert topic_offsets(value) is None


@pytest.mark.parametrize(
    ("lost", "left"),
    [
        ([], [(5, 9)]),
        ([(5, 9)], []),
        ([(0, 20)], []),
        ([(0, 7)], [(7, 9)]),
        ([(8, 12)], [(5, 8)]),
        ([(6, 7)], [(5, 6), (7, 9)]),
        ([(0, 5)], [(5, 9)]),
        ([(9, 12)], [(5, 9)]),
        ([(5, 6), (8, 9)], [(6, 8)]),
    ],
)
def test_records_known_as_lost_are_subtracted_from_the_input(
    lost: list[tuple[int, int]], left: list[tuple[int, int]]
) -> None:
    elsewhere = [TopicRange("events", 1, 5, 9), TopicRange("others", 0, 5, 9)]
    gone = [TopicRange("events", 0, *each) for each in lost]
    found = without([TopicRange("events", 0, 5, 9), *elsewhere], gone)
    assert found == (*(TopicRange("events", 0, *each) for each in left), *elsewhere)
