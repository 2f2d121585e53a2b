"""A topic of a fork's own: what its spec says then, where a partition is cut, and what its records' digest sees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.drills.records.codec import decode, encode
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import CopiedPartition, CopiedTopic, Digest, Feed, cut_at
from streamwarden.services.forks.forks import fork
from streamwarden.services.forks.spec import forked_spec, renewed_spec
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.sources.files import FilesSource
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import SinkSpec, StreamSpec

SOURCE = KafkaSource(connection="events", topic="events", options={"failOnDataLoss": "false"})
ORIGIN = StreamSpec(
    name="a", job="/p/a.py", checkpoint="/c", source=SOURCE, sink=ParquetSink(path="/out"), quarantine="/quarantine"
)
OWN = pytest.mark.parametrize("feed", [Feed.COPY, Feed.GROWING])
PLACES = Places.under("/drills/run/fork")


@OWN
def test_a_fork_with_a_topic_of_its_own_reads_it_over_the_same_connection_until_it_is_stopped(feed: Feed) -> None:
    forked = forked_spec(ORIGIN, PLACES, feed)
    assert forked.source == replace(SOURCE, topic=f"{PLACES.schema}_source")
    assert str(forked.source.topic).startswith("streamwarden_fork_")
    assert not forked.trigger.available_now
    assert forked.trigger.interval is None, "as fast as it can"


@OWN
def test_of_files_there_is_no_topic_to_copy(feed: Feed, tmp_path: Path) -> None:
    files = replace(ORIGIN, source=FilesSource(path=str(tmp_path)))
    with pytest.raises(CheckpointError, match=r"of the kind files, not a topic that can be copied.*kill_driver"):
        fork(files, into=tmp_path / "fork", rewind="all", feed=feed)
    assert not (tmp_path / "fork").exists()


@pytest.mark.parametrize(
    "sink",
    [
        ParquetSink(path="/out"),
        PostgresqlSink(connection="db", table="public.sums", key=("k",)),
        KafkaSink(connection="events", topic="sums", key=("k",)),
    ],
)
def test_renewed_fork_shares_only_its_input_with_the_first_one(sink: SinkSpec) -> None:
    before = forked_spec(replace(ORIGIN, sink=sink), PLACES, Feed.COPY)
    places = Places.under("/drills/run/anew")
    after = renewed_spec(before, places)
    assert (after.name, after.source, after.trigger) == (before.name, before.source, before.trigger)
    assert after.checkpoint == places.checkpoint != before.checkpoint
    assert after.quarantine == places.quarantine
    assert after.sink != before.sink
    assert after.sink == forked_spec(replace(ORIGIN, sink=sink), places).sink


@pytest.mark.parametrize(
    ("start", "end", "growing"), [(0, 0, 0), (0, 1, 1), (0, 9, 5), (7, 7, 7), (100, 110, 105), (3, 6, 5)]
)
def test_a_growing_topic_gets_the_first_half_first(start: int, end: int, growing: int) -> None:
    assert cut_at(start, end, Feed.GROWING) == growing
    assert cut_at(start, end, Feed.COPY) == end


RECORD = (b"key", b"value", 1_700_000_000_000, [("name", b"content"), ("empty", None)])


def digest(*records: tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]) -> str:
    made = Digest()
    for record in records:
        made.add(*record)
    assert made.count == len(records)
    return made.text()


@pytest.mark.parametrize(
    "other",
    [
        (b"kez", *RECORD[1:]),
        (None, *RECORD[1:]),
        (b"", *RECORD[1:]),
        (b"keyv", b"alue", *RECORD[2:]),
        (b"key", None, *RECORD[2:]),
        (*RECORD[:2], 1_700_000_000_001, RECORD[3]),
        (*RECORD[:3], []),
        (*RECORD[:3], [("name", b"content")]),
        (*RECORD[:3], [("empty", None), ("name", b"content")]),
        (*RECORD[:3], [("name", b"content"), ("empty", b"")]),
        (*RECORD[:3], [("name", b"content"), ("emptx", None)]),
    ],
)
def test_no_two_records_have_one_digest(other: tuple[bytes, bytes, int, list[tuple[str, bytes | None]]]) -> None:
    assert digest(RECORD) == digest(RECORD)
    assert digest(other) != digest(RECORD)
    assert digest(other, RECORD) != digest(RECORD, other), "their order counts"
    assert digest(RECORD, RECORD) != digest(RECORD)


def test_what_was_copied_survives_the_way_through_json_and_is_summed() -> None:
    parts = [
        CopiedPartition(
            partition=number, start=5, cut=8, end=11, records=3, held=2, digest="a" * 64, held_digest="b" * 64
        )
        for number in range(2)
    ]
    copied = CopiedTopic(origin="events", topic=f"{PLACES.schema}_source", partitions=tuple(parts))
    assert decode(CopiedTopic, encode(copied)) == copied
    assert (copied.records, copied.held) == (10, 4)
    assert [copied.source_of(number) for number in range(4)] == [(0, 5, 8), (1, 5, 8), (0, 8, 11), (1, 8, 11)]
    longer = replace(copied, partitions=(parts[0], replace(parts[1], end=12)))
    assert longer.ranges_digest != copied.ranges_digest
