"""The records that audited batches read, listed from the checkpoint and read again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import offsets
from streamwarden.checkpoint.topics import topic_offsets, topic_ranges
from streamwarden.sources.audited import AUDIT, AskedSource, CannotBalance, batch_tag
from streamwarden.verification.comparing.balance import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Topics = Mapping[str, Sequence[tuple[int, int, int, int]]]
"""Topic -> (partition, first offset, the offset behind the last one, batch)."""

_IN_BATCHES: Final = ("kafka.", "includeheaders", "minpartitions")
"""Prefixes (lower case) of the options of a topic's streaming reader that its batch reader takes, too. Other options
say where to begin, how much to read, or that lost records do not matter."""

_RECORD: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
)
_HEADERS: Final = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
_RANGE: Final = "__partition INT, __start BIGINT, __end BIGINT, __batch BIGINT"


def records_of(checkpoint: Location, audited: Range) -> Topics:
    """The ranges of each topic. A topic that is two sources of the query is left out: each could have read other
    records of it in a batch.

    Raises CheckpointError, OSError, Damaged.
    """
    topics: dict[str, list[tuple[int, int, int, int]]] = {}
    twice = set()
    for place, offset in enumerate(offsets(checkpoint, audited.upto).sources):
        named = {topic for topic, _ in topic_offsets(offset) or {}}
        twice |= named & topics.keys()
        topics |= {topic: [] for topic in named}
        ranges = topic_ranges(checkpoint, place) if named else {}
        for batch in audited.batches:
            for span in ranges.get(batch, ()):
                topics[span.topic].append((span.partition, span.start, span.end, batch))
    return {topic: read for topic, read in topics.items() if topic not in twice}


def read_records(asked: AskedSource, topics: Topics) -> DataFrame:
    """The records that the batches read from a topic, with the column AUDIT."""
    from pyspark.sql import functions as f

    topic = asked.lowered.get("subscribe", "")
    asked.require_first(topic)
    read = topics.get(topic)
    if read is None:
        raise CannotBalance(f"the job reads the topic {topic!r}, of which the checkpoint has no offsets of its own")
    kept = {name: value for name, value in asked.lowered.items() if name.startswith(_IN_BATCHES)}
    if not read:
        columns = f"{_RECORD}, {_HEADERS}" if kept.get("includeheaders") == "true" else _RECORD
        return asked.spark.createDataFrame([], columns).select("*", f.lit("").alias(AUDIT))
    bounds: dict[int, tuple[int, int]] = {}
    for partition, start, end, _ in read:
        first, last = bounds.get(partition, (start, end))
        bounds[partition] = min(first, start), max(last, end)
    records = (
        asked.spark.read.format("kafka")
        .options(**kept)
        .option("assign", json.dumps({topic: list(bounds)}))
        .option("startingOffsets", json.dumps({topic: {part: at[0] for part, at in bounds.items()}}))
        .option("endingOffsets", json.dumps({topic: {part: at[1] for part, at in bounds.items()}}))
        .load()
    )
    ranges = f.broadcast(asked.spark.createDataFrame([tuple(entry) for entry in read], _RANGE))
    inside = (f.col("partition") == ranges["__partition"]) & f.col("offset").between(
        ranges["__start"], ranges["__end"] - 1
    )
    return records.join(ranges, inside, "left").select(records["*"], batch_tag("__batch"))
