"""Reads a stream's output from its topic, by another client than Spark: committed records, each event once."""

import time
from collections.abc import Iterator, Mapping
from typing import Final

from streamwarden.adapters.connections import Connection, connection
from streamwarden.adapters.kafka.brokers import headers, reader
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.errors import VerificationError
from streamwarden.sinks.kafka.delivery import delivered
from streamwarden.sinks.kafka.taking_back import cuts_of
from streamwarden.sinks.output import Output
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.verification.comparing.events import CommittedRecords, Event, LiveRecords

SILENCE: Final = 30.0
"""Seconds without a record after which reading fails, with the broker's last message."""

_AT_ONCE: Final = 2_000
"""Records that are taken from the client at a time."""


def read_topic(
    spec: StreamSpec,
    like: Mapping[str, object],
    *,
    committed: int | None,
    first: int = 0,
    deduplicated: bool = True,
) -> Output:
    """The rows of the stream's committed batches in its topic.

    Args:
        like: column -> a value of its type; see `Expectation.samples`.
        first: first batch whose rows are read.
        deduplicated: False: as a reader sees them that does not know event ids, nor what restores took back.

    Raises VerificationError if the topic cannot be read, or does not keep all that was written to it.
    """
    cuts = cuts_of(spec.checkpoint) if deduplicated else ()
    events = (
        event
        for event in read_events(connection(str(spec.sink.connection)), str(spec.sink.topic))
        if not any(cut.takes_back(event) for cut in cuts)
    )
    if spec.trigger.real_time is not None:
        return delivered(events, LiveRecords(), like, deduplicated=deduplicated)
    records = CommittedRecords(
        query=read_query_id(checkpoint_of(spec)) or "",
        committed=committed,
        first=first,
        update=spec.sink.mode is OutputMode.UPDATE,
    )
    return delivered(events, records, like, deduplicated=deduplicated)


def read_events(known: Connection, topic: str, since_ms: int | None = None) -> Iterator[Event]:
    """Every committed record of the topic up to now, in the order of each partition.

    Args:
        since_ms: from the first record of this time on, Unix milliseconds; None: from the first one.

    Raises VerificationError if the topic is not there, the broker does not answer, or the topic keeps no longer all.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    problems: list[str] = []
    settings = {"auto.offset.reset": "error", "enable.partition.eof": True, "isolation.level": "read_committed"}
    consumer = reader(known, "verify", error_cb=lambda error: problems.append(error.str()), **settings)
    try:
        metadata = consumer.list_topics(topic, timeout=SILENCE).topics[topic]
        if metadata.error is not None:
            raise _unread(topic, known, metadata.error.str())
        left, begins = {}, {}
        for number in sorted(metadata.partitions):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=SILENCE)
            begin = low
            if since_ms is not None:
                (first,) = consumer.offsets_for_times([TopicPartition(topic, number, since_ms)], timeout=SILENCE)
                begin = first.offset if 0 <= first.offset < high else high
            if low and begin == low:
                raise _gone(topic, known, number, low)
            if begin < high:
                left[number], begins[number] = high, begin
        consumer.assign([TopicPartition(topic, number, begins[number]) for number in left])
        deadline = time.monotonic() + SILENCE
        while left:
            for message in consumer.consume(_AT_ONCE, 0.5):
                error, number, offset = message.error(), message.partition(), message.offset()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise _unread(topic, known, error.str())
                assert number is not None  # of a record, and of a partition's end
                if error is not None or offset is None:
                    left.pop(number, None)  # what is left of it are offsets without a committed record
                elif number in left:
                    deadline = time.monotonic() + SILENCE
                    if offset < left[number]:
                        found = headers(message)
                        yield Event.of(message.key(), message.value(), found, partition=number, offset=offset)
                    if offset + 1 >= left[number]:
                        del left[number]
            if left and time.monotonic() > deadline:
                raise _unread(topic, known, problems[-1] if problems else f"nothing came in {SILENCE:g} s")
    except KafkaException as refused:
        raise _unread(topic, known, problems[-1] if problems else refused.args[0].str()) from refused
    finally:
        consumer.close()


def _unread(topic: str, known: Connection, said: str) -> VerificationError:
    return VerificationError(
        f"the topic cannot be read: {said}",
        expected="a topic that this connection may read",
        where=f"topic {topic} (connection {known.name})",
        next_step="see that the broker runs, that the topic is there, and that the connection may read it",
    )


def _gone(topic: str, known: Connection, partition: int, low: int) -> VerificationError:
    return VerificationError(
        f"the first {low} records of partition {partition} are not kept any more",
        expected="a topic that keeps all that was written to it",
        where=f"topic {topic} (connection {known.name})",
        next_step="verify a fork of the stream (a drill does): its topic keeps everything",
    )
