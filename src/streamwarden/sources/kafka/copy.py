"""The copied topic that a fork reads: created with the records of its origin's, extended, recreated, deleted.

The origin's topic is only ever read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from streamwarden.adapters.connections import Connection, connection
from streamwarden.adapters.kafka import scratch_topics
from streamwarden.adapters.kafka.brokers import QUIET, client_settings, kept_offsets, reader
from streamwarden.checkpoint.topics import TopicRange
from streamwarden.errors import SourceError, VerificationError
from streamwarden.lifecycle.forks.fork import BoundedInput
from streamwarden.lifecycle.forks.topic_copy import CopiedPartition, CopiedTopic, Digest, Feed, cut_at
from streamwarden.sources.kafka.export import isolation_of, read_messages
from streamwarden.sources.kafka.lag import lag_of
from streamwarden.stream.spec import SourceSpec, StreamSpec

if TYPE_CHECKING:
    from confluent_kafka import Message

TAKEN_WITHIN: Final = 30.0
"""Seconds without progress after which sending fails."""

_LARGEST: Final = "1000000000"
"""Bytes of a record, and of a batch of them: the copy accepts what the origin's topic accepted."""

_AS_WRITTEN: Final = {"message.timestamp.type": "CreateTime", "max.message.bytes": _LARGEST}
"""Settings of the copy: it keeps the records' timestamps."""


def create(origin: StreamSpec, forked: StreamSpec, feed: Feed) -> BoundedInput:
    """Create the fork's topic, fill it with the records that its origin's keeps now, and read it back.

    Raises SourceError if the origin's cannot be read or the copy is not equal to it, CheckpointError if the broker
    refuses to create it, ConfigError.
    """
    known, name = of(forked.source)
    source = str(origin.source.topic)
    places = [TopicRange(source, lag.partition, lag.first, lag.last) for lag in lag_of(origin.source, {}, {})]
    scratch_topics.create(known, name, len(places), **_AS_WRITTEN)
    partitions = []
    for place in places:
        cut = cut_at(place.start, place.end, feed)
        sent = _send(known, name, place.partition, _read(origin, place, place.start, cut))
        held = _digest(_read(origin, place, cut, place.end))
        _require_equal(known, name, place.partition, sent.text(), sent.count)
        partitions.append(
            CopiedPartition(
                partition=place.partition,
                start=place.start,
                cut=cut,
                end=place.end,
                records=sent.count,
                held=held.count,
                digest=sent.text(),
                held_digest=held.text(),
            )
        )
    copied = CopiedTopic(origin=source, topic=name, partitions=tuple(partitions))
    return BoundedInput(
        what="record",
        total=copied.records,
        unseen=copied.records,
        longest_queue=copied.records,
        digest=copied.ranges_digest,
        copied=copied,
    )


def drop(source: SourceSpec) -> str | None:
    """Delete the topic that a fork reads; returns its name, None if it was not there. Raises CheckpointError."""
    known, name = of(source)
    return f"the topic {name}" if scratch_topics.delete(known, name) else None


def grow(forked: StreamSpec, copied: CopiedTopic) -> None:
    """Add as many partitions as there were, and send the records that were held back into them. A second call sends
    what is still missing.

    Raises SourceError if the new partitions then do not hold exactly these records, CheckpointError if the broker
    refuses.
    """
    known, name = of(forked.source)
    first = len(copied.partitions)
    scratch_topics.extend(known, name, 2 * first)
    for part in copied.partitions:
        place = TopicRange(copied.origin, part.partition, part.start, part.end)
        held = _read(forked, place, part.cut, part.end)
        _send(known, name, first + part.partition, islice(held, _end(known, name, first + part.partition), None))
        _require_equal(known, name, first + part.partition, part.held_digest, part.held)


def forget(forked: StreamSpec, before: Mapping[int, int]) -> None:
    """Remove the records before an offset of each partition, as a retention does. Raises CheckpointError."""
    from confluent_kafka import TopicPartition

    known, name = of(forked.source)
    with scratch_topics.administered(known, name) as admin:
        places = [TopicPartition(name, partition, offset) for partition, offset in sorted(before.items())]
        for done in admin.delete_records(places).values():
            done.result(timeout=scratch_topics.ANSWER_WITHIN)


def recreate(forked: StreamSpec, copied: CopiedTopic, leave: Mapping[int, int]) -> None:
    """Delete the topic and create it again with the first `leave[partition]` records of each partition.

    Raises SourceError, CheckpointError.
    """
    known, name = of(forked.source)
    scratch_topics.delete(known, name)
    scratch_topics.create(known, name, len(copied.partitions), **_AS_WRITTEN)
    for part in copied.partitions:
        place = TopicRange(copied.origin, part.partition, part.start, part.end)
        sent = _send(
            known,
            name,
            part.partition,
            islice(_read(forked, place, part.start, part.end), leave[part.partition]),
        )
        _require_equal(known, name, part.partition, sent.text(), sent.count)


def of(source: SourceSpec) -> tuple[Connection, str]:
    """The connection to the topic, and its name."""
    return connection(str(source.connection)), str(source.topic)


def _read(spec: StreamSpec, place: TopicRange, start: int, end: int) -> Iterator[Message]:
    """Records of the origin's topic, as the stream's source reads them. Raises SourceError."""
    if start >= end:
        return
    known, _ = of(spec.source)
    try:
        wanted = TopicRange(place.topic, place.partition, start, end)
        yield from read_messages(known, wanted, isolation=isolation_of(spec.source))
    except VerificationError as error:
        raise SourceError(
            f"the stream's topic cannot be copied: {error.observed}",
            expected=error.expected,
            where=error.where,
            next_step="check that the broker runs and that the topic keeps its records while they are copied, then run "
            "the drill again",
        ) from error


def _send(known: Connection, name: str, partition: int, records: Iterable[Message]) -> Digest:
    """Write the records into one partition, unchanged and in order; returns when the broker has them."""
    from confluent_kafka import KafkaException, Producer

    problems: list[str] = []

    def delivered(error: object, _: Message) -> None:
        if error is not None:
            problems.append(str(error))

    settings: dict[str, Any] = {**client_settings(known), "enable.idempotence": True, "linger.ms": 20, "logger": QUIET}
    producer = Producer({**settings, "message.max.bytes": _LARGEST})
    digest = Digest()
    try:
        for record in records:
            at, headers = record.timestamp()[1], record.headers() or None
            while True:
                try:
                    producer.produce(
                        name,
                        record.value(),
                        record.key(),
                        partition=partition,
                        timestamp=at,
                        headers=headers,
                        on_delivery=delivered,
                    )
                    break
                except BufferError:  # its queue is full
                    producer.poll(0.1)
            producer.poll(0)
            _add(digest, record)
            if problems:
                break
        _flush(producer)
    except (KafkaException, BufferError) as error:
        raise _refused(known, name, str(error.args[0])) from error
    if problems:
        raise _refused(known, name, problems[0])
    return digest


def _flush(producer: Any) -> None:
    """Wait until the broker has all records, as long as it makes progress."""
    left, deadline = len(producer), time.monotonic() + TAKEN_WITHIN
    while (now := producer.flush(1.0)) > 0:
        if now < left:
            left, deadline = now, time.monotonic() + TAKEN_WITHIN
        elif time.monotonic() > deadline:
            raise BufferError(f"the broker did not accept {now} records within {TAKEN_WITHIN:g} s")


def _end(known: Connection, name: str, partition: int) -> int:
    """The offset that the next record of the partition gets. Raises SourceError."""
    from confluent_kafka import KafkaException

    client = reader(known, "copy")
    try:
        return kept_offsets(client, name, partition, deadline=time.monotonic() + scratch_topics.ANSWER_WITHIN)[1]
    except KafkaException as error:
        raise _refused(known, name, error.args[0].str()) from error
    finally:
        client.close()


def _digest(records: Iterable[Message]) -> Digest:
    digest = Digest()
    for record in records:
        _add(digest, record)
    return digest


def _add(digest: Digest, record: Message) -> None:
    headers: Any = record.headers() or []
    digest.add(_raw(record.key()), _raw(record.value()), record.timestamp()[1], headers)


def _raw(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part


def _require_equal(known: Connection, name: str, partition: int, digest: str, count: int) -> None:
    """The partition holds these records and no other. Raises SourceError."""
    end = _end(known, name, partition)
    try:
        there = _digest(read_messages(known, TopicRange(name, partition, 0, end)) if end else ())
    except VerificationError as error:
        raise _refused(known, name, error.observed) from error
    if (there.count, there.text()) != (count, digest):
        raise SourceError(
            f"partition {partition} of the copy is not what was copied: it has {there.count:,} records (digest "
            f"{there.text()[:12]}…)",
            expected=f"{count:,} records (digest {digest[:12]}…), with keys, values, timestamps and headers",
            where=scratch_topics.where(known, name),
            next_step="check whether the broker changes records (a timestamp of 1970 becomes the time of writing); "
            "drill this stream with a fault that needs no copy of its topic",
        )


def _refused(known: Connection, name: str, said: str) -> SourceError:
    return SourceError(
        f"the broker does not accept the copy of the stream's topic: {said}",
        expected="an answer, and the right to write",
        where=scratch_topics.where(known, name),
        next_step="check that it runs and has room for the records, then run the drill again",
    )
