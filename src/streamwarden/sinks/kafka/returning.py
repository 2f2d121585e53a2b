"""Puts a stream back whose output is a topic: its records stay, and a list says which of them readers have to drop."""

import time
from collections.abc import Iterator

from streamwarden.adapters.connections import connection
from streamwarden.adapters.kafka.brokers import kept_offsets, reader
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.lifecycle.exchanges.exchange import Exchange, OutputPlan
from streamwarden.sinks.kafka.output import SILENCE, read_events
from streamwarden.sinks.kafka.taking_back import Cut, list_of, write_list
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.events import Event

_CLOCKS_MS = 600_000
"""Milliseconds by which the clock of a record's writer may be behind that of the driver."""


def plan_listing(spec: StreamSpec, restore: Exchange) -> OutputPlan:
    """Count the records of later batches. Raises CheckpointError if the topic does not keep them all, or the broker
    does not answer."""
    count = sum(1 for _ in _later(spec, restore, _cut(spec, restore)))
    file, records = list_of(restore.checkpoint, restore.stamp), _records(count, restore, spec)
    remains = (
        f"{records} can have been read. {file} is going to list their event ids; a reader drops these records, and "
        f"counts on after batch {restore.batch}"
    )
    return OutputPlan(words=f"{records} stay, and are listed in {file}", remains=remains if count else "")


def list_later(spec: StreamSpec, restore: Exchange) -> str:
    """Write the list. Repeated, it writes it again. Raises CheckpointError, OSError."""
    file, cut = list_of(restore.checkpoint, restore.stamp), _cut(spec, restore)
    count = write_list(file, cut, _later(spec, restore, cut))
    return f"{_records(count, restore, spec)} stay, and are listed in {file}"


def _records(count: int, restore: Exchange, spec: StreamSpec) -> str:
    return f"{count:,} records of batches after {restore.batch} in the topic {spec.sink.topic}"


def _later(spec: StreamSpec, restore: Exchange, cut: Cut) -> Iterator[Event]:
    known = connection(str(spec.sink.connection))
    try:
        for event in read_events(known, str(spec.sink.topic), restore.planned_ms - _CLOCKS_MS):
            if cut.takes_back(event):
                yield event
    except VerificationError as error:
        raise CheckpointError(
            f"the records of later batches cannot be listed: {error.observed}",
            expected="a broker that answers, and a topic that keeps everything since the batch",
            where=error.where,
            next_step="fork the savepoint (`streamwarden savepoint fork`), or give the stream a new checkpoint path "
            "and a new topic, in one change",
        ) from error


def _cut(spec: StreamSpec, restore: Exchange) -> Cut:
    """All that is in the topic now: the stream is stopped."""
    from confluent_kafka import KafkaException

    topic = str(spec.sink.topic)
    consumer = reader(connection(str(spec.sink.connection)), "restore")
    try:
        deadline = time.monotonic() + SILENCE
        partitions = consumer.list_topics(topic, timeout=SILENCE).topics[topic].partitions
        before = {number: kept_offsets(consumer, topic, number, deadline=deadline)[1] for number in sorted(partitions)}
    except KafkaException as error:
        raise CheckpointError(
            f"the topic cannot be read: {error.args[0].str()}",
            expected="a broker that answers",
            where=f"topic {topic} (connection {spec.sink.connection})",
            next_step="see that the broker runs, then run the same command again",
        ) from error
    finally:
        consumer.close()
    return Cut(query=restore.query_id, after=restore.batch, before=before)
