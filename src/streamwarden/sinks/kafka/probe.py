"""The probe with which a drill reads the topic that a fork's sink writes to."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.connections import connection
from streamwarden.adapters.kafka.brokers import headers, reader
from streamwarden.errors import DrillError
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds
from streamwarden.verification.comparing.events import Event

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from streamwarden.drills.ports import Arrivals

ANSWER_WITHIN: Final = 30.0
"""Seconds for an answer of the broker."""

LAUNCH_WAITS: Final = 5.0
"""Seconds that a launch waits for the broker."""


@contextmanager
def listen(spec: StreamSpec) -> Iterator[Arrivals]:
    """Hear of every record in the stream's topic from here on."""
    with _consumer(spec) as consumer:
        _assign(consumer, str(spec.sink.topic), back=0)
        yield _Records(consumer)


def newest(spec: StreamSpec) -> int | None:
    """Newest batch among the last records of the partitions."""
    with _consumer(spec) as consumer:
        batches = [_batch(message) for message in _last_records(consumer, spec, ANSWER_WITHIN)]
    return max((batch for batch in batches if batch is not None), default=None)


def newest_of(spec: StreamSpec, queries: Sequence[str], environ: Mapping[str, str], since: float) -> int | None:
    """Newest batch of these queries among the last records of the partitions that were written after `since`, Unix
    seconds. Raises DrillError if the broker does not answer soon: a launch waits for it."""
    with _consumer(spec, environ) as consumer:
        last = list(_last_records(consumer, spec, LAUNCH_WAITS))
    events = (Event.of(None, None, headers(message)) for message in last if message.timestamp()[1] > since * 1000)
    return max((event.batch for event in events if event.query in queries and event.batch is not None), default=None)


def _last_records(consumer: Consumer, spec: StreamSpec, within: float) -> Iterator[Message]:
    left = _assign(consumer, str(spec.sink.topic), back=1, within=within)
    deadline = time.monotonic() + within
    while left:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            left.discard(message.partition())
            yield message
        elif time.monotonic() > deadline:
            raise _silent(spec, f"no record came in {within:g} s")


@contextmanager
def _consumer(spec: StreamSpec, environ: Mapping[str, str] | None = None) -> Iterator[Consumer]:
    from confluent_kafka import KafkaException

    consumer = reader(connection(spec.sink.connection or "", environ), "drill")
    try:
        yield consumer
    except KafkaException as error:
        raise _silent(spec, error.args[0].str()) from error
    finally:
        consumer.close()


class _Records:
    """The records as they come."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def next(self, timeout: Seconds) -> int | None:
        message = self._consumer.poll(timeout)
        return None if message is None or message.error() is not None else _batch(message)


def _assign(consumer: Consumer, topic: str, *, back: int, within: float = ANSWER_WITHIN) -> set[int | None]:
    """Begin `back` records before the end of each partition; the partitions that have a record there."""
    from confluent_kafka import TopicPartition

    places = []
    for number in sorted(consumer.list_topics(topic, timeout=within).topics[topic].partitions):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=within)
        if high - low >= back:
            places.append(TopicPartition(topic, number, high - back))
    consumer.assign(places)
    return {place.partition for place in places}


def _batch(message: Message) -> int | None:
    return Event.of(None, None, headers(message)).batch


def _silent(spec: StreamSpec, reason: str) -> DrillError:
    return DrillError(
        f"the broker does not report what is in the fork's topic: {reason}",
        expected=f"an answer within {ANSWER_WITHIN:g} s",
        where=f"topic {spec.sink.topic}",
        next_step="see that the broker runs, then run the drill again",
    )
