"""The probe with which a drill reads the topic that a fork's sink writes to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.connections import connection
from streamwarden.adapters.kafka.brokers import headers, reader
from streamwarden.drills.ports import Arrivals
from streamwarden.errors import DrillError
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds
from streamwarden.verification.events import Event

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

ANSWER_WITHIN: Final = 30.0
"""Seconds for an answer of the broker."""


@contextmanager
def listen(spec: StreamSpec) -> Iterator[Arrivals]:
    """Hear of every record in the stream's topic from here on."""
    with _consumer(spec) as consumer:
        _assign(consumer, str(spec.sink.topic), back=0)
        yield _Records(consumer)


def newest(spec: StreamSpec) -> int | None:
    """Newest batch among the last records of the partitions."""
    with _consumer(spec) as consumer:
        left = _assign(consumer, str(spec.sink.topic), back=1)
        batches = []
        deadline = time.monotonic() + ANSWER_WITHIN
        while left:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                left.discard(message.partition())
                batches.append(_batch(message))
            elif time.monotonic() > deadline:
                raise _silent(spec, f"no record came in {ANSWER_WITHIN:g} s")
    return max((batch for batch in batches if batch is not None), default=None)


@contextmanager
def _consumer(spec: StreamSpec) -> Iterator[Consumer]:
    from confluent_kafka import KafkaException

    consumer = reader(connection(spec.sink.connection or ""), "drill")
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


def _assign(consumer: Consumer, topic: str, *, back: int) -> set[int | None]:
    """Begin `back` records before the end of each partition; the partitions that have a record there."""
    from confluent_kafka import TopicPartition

    places = []
    for number in sorted(consumer.list_topics(topic, timeout=ANSWER_WITHIN).topics[topic].partitions):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=ANSWER_WITHIN)
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
