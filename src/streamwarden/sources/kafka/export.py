"""The records that a stream read of a topic, as files of lines: the input of an oracle, and evidence that stays.

Each file holds records of one batch and one partition that have one timestamp, in the order of their offsets; it is
named `PARTITION-OFFSET.json` and its time of modification is their timestamp. So the order of files is that of a job
that asks for `written_ms` and `place`, and "ahead of its file" is "ahead of its record".
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamwarden.adapters.connections import Connection
from streamwarden.adapters.kafka.brokers import kept_offsets, reader
from streamwarden.checkpoint.topics import TopicRange
from streamwarden.errors import VerificationError
from streamwarden.lifecycle.forks.topic_copy import CopiedTopic
from streamwarden.stream.spec import SourceSpec

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

SILENCE: Final = 30.0
"""Seconds without a record after which reading fails, with the broker's last message."""

READ_UNCOMMITTED: Final = "read_uncommitted"
"""As Spark's source reads by default."""

_BREAKS: Final = frozenset("\r\n")
"""Ends a line of a file."""

_NO_OBJECT: Final = "(no object)"
"""The line of a record that no line can hold: without a value, or with incomplete JSON over several lines."""


class Record(NamedTuple):
    """One record; `value` is None if it has none. `timestamp`: Unix milliseconds."""

    offset: int
    timestamp: int
    value: bytes | None


def export_topic(known: Connection, ranges: Mapping[int, Sequence[TopicRange]], into: Path) -> dict[int, list[Path]]:
    """Write every record of `ranges` (batch -> what it read) into files below `into`; batch -> its files.

    Raises VerificationError if a record cannot be read any more, or the broker does not answer.
    """
    into.mkdir(parents=True, exist_ok=True)
    return {
        batch: [path for part in parts for path in _write(part, read_range(known, part), into)]
        for batch, parts in ranges.items()
    }


def export_copied(
    known: Connection,
    ranges: Mapping[int, Sequence[TopicRange]],
    copied: CopiedTopic,
    into: Path,
    *,
    isolation: str = READ_UNCOMMITTED,
) -> dict[int, list[Path]]:
    """The same for a fork that read a copy of its origin's topic: the records as the origin has them, at their places
    in the copy. Later changes of the copy do not matter.

    Raises VerificationError if the origin's topic does not keep them any more, or the broker does not answer.
    """
    into.mkdir(parents=True, exist_ok=True)
    files: dict[int, list[Path]] = {batch: [] for batch in ranges}
    wanted = sorted((part, batch) for batch, parts in ranges.items() for part in parts)
    for partition, group in groupby(wanted, key=lambda pair: pair[0].partition):
        place = TopicRange(copied.origin, *copied.source_of(partition))
        with closing(read_messages(known, place, isolation=isolation)) as origin:
            at = 0
            for part, batch in group:
                taken = [
                    Record(part.start + number, message.timestamp()[1], message.value())
                    for number, message in enumerate(islice(origin, part.start - at, part.end - at))
                ]
                at = part.end
                if len(taken) < part.end - part.start:
                    raise _unread(part, part.start + len(taken), [f"{copied.origin} has no such record"])
                files[batch] += _write(part, taken, into)
    return files


def isolation_of(source: SourceSpec) -> str:
    """Which records of transactions the stream's source reads, in the client's words."""
    options = {key.lower(): value for key, value in source.options.items()}
    return options.get("kafka.isolation.level", READ_UNCOMMITTED)


def read_range(known: Connection, wanted: TopicRange) -> Iterator[Record]:
    """The records of one range as `read_messages` has them, reduced to the fields that an oracle takes."""
    for message in read_messages(known, wanted):
        yield Record(message.offset() or 0, message.timestamp()[1], message.value())


def read_messages(
    known: Connection, wanted: TopicRange, *, isolation: str = READ_UNCOMMITTED
) -> Generator[Message, None, None]:
    """The records of one range, in order, committed or not: as Spark's source reads them by default.

    Offsets without a record (of transactions, of a compacted topic) are skipped. Raises VerificationError.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    problems: list[str] = []
    settings = {"auto.offset.reset": "error", "enable.partition.eof": True, "isolation.level": isolation}
    consumer = reader(known, "verify", error_cb=lambda error: problems.append(error.str()), **settings)
    try:
        try:
            _require_kept(consumer, wanted)
            consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.start)])
        except KafkaException as refused:
            raise _unread(wanted, wanted.start, [*problems, refused.args[0].str()]) from refused
        at, deadline = wanted.start, time.monotonic() + SILENCE
        while at < wanted.end:
            message = consumer.poll(0.5)
            if message is None:
                if time.monotonic() > deadline:
                    raise _unread(wanted, at, problems)
                continue
            deadline = time.monotonic() + SILENCE
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return  # what is left of the range are offsets without a record
                raise _unread(wanted, at, [*problems, error.str()])
            offset = message.offset()
            assert offset is not None  # every message but an error has one
            at = offset + 1
            if offset < wanted.end:
                yield message
    finally:
        consumer.close()


def _require_kept(consumer: Consumer, wanted: TopicRange) -> None:
    low, high = kept_offsets(consumer, wanted.topic, wanted.partition, deadline=time.monotonic() + SILENCE)
    if low > wanted.start or high < wanted.end:
        gone = min(low, wanted.end) - wanted.start if low > wanted.start else wanted.end - max(high, wanted.start)
        raise VerificationError(
            f"{gone} of the records that the stream read are no longer in the topic",
            expected=f"offsets {wanted.start} to {wanted.end - 1}; the partition has {low} to {high - 1}",
            where=f"partition {wanted.partition} of topic {wanted.topic}",
            next_step="verify within the topic's retention (retention.ms). If the topic was recreated, they are lost",
        )


def _write(wanted: TopicRange, records: Iterable[Record], into: Path) -> Iterator[Path]:
    for timestamp, group in groupby(records, key=lambda record: record.timestamp):
        group_records = list(group)
        path = into / f"{wanted.partition:05d}-{group_records[0].offset:020d}.json"
        path.write_text("".join(f"{line(record.value)}\n" for record in group_records), encoding="utf-8")
        os.utime(path, ns=(timestamp * 1_000_000, timestamp * 1_000_000))
        yield path


def line(value: bytes | None) -> str:
    """The value as one line: whitespace between the parts of a JSON object may hold line breaks, a line may not."""
    text = "" if value is None else value.decode("utf-8", errors="replace")
    if not _BREAKS & set(text) and text.strip():
        return text
    try:
        parsed: Any = json.loads(text)
    except ValueError:
        return _NO_OBJECT
    return json.dumps(parsed, ensure_ascii=False)


def _unread(wanted: TopicRange, at: int, problems: Sequence[str]) -> VerificationError:
    return VerificationError(
        f"the topic could not be read from offset {at} on" + (f": {problems[-1]}" if problems else ""),
        expected=f"records up to offset {wanted.end - 1}",
        where=f"partition {wanted.partition} of topic {wanted.topic}",
        next_step="check that the broker runs and that the connection may read the topic, then verify again",
    )
