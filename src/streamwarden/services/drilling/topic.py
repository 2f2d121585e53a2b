"""Probes the topic that a fork's sink writes to: which batch wrote the newest record."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.connections import connection
from streamwarden.adapters.kafka.brokers import headers, reader
from streamwarden.drills.ports import Arrivals, ForkView
from streamwarden.errors import DrillError
from streamwarden.stream import SinkSpec
from streamwarden.units import Seconds
from streamwarden.verification.events import Event

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

ANSWER_WITHIN: Final = 30.0
"""Seconds for an answer of the broker."""


class ForkTopic:
    """Implements `drills.ports.SinkProbe`."""

    @contextmanager
    def listen(self, fork: ForkView) -> Iterator[Arrivals]:
        """Report every record of the fork from now on."""
        with self._consumer(fork) as consumer:
            _assign(consumer, _topic(fork), back=0)
            yield _Records(consumer)

    def newest(self, fork: ForkView) -> int | None:
        """The newest batch that wrote the last record of a partition."""
        with self._consumer(fork) as consumer:
            left = _assign(consumer, _topic(fork), back=1)
            batches = []
            deadline = time.monotonic() + ANSWER_WITHIN
            while left:
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    left.discard(message.partition())
                    batches.append(_batch(message))
                elif time.monotonic() > deadline:
                    raise _silent(fork, f"no record arrived within {ANSWER_WITHIN:g} s")
        return max((batch for batch in batches if batch is not None), default=None)

    @contextmanager
    def _consumer(self, fork: ForkView) -> Iterator[Consumer]:
        from confluent_kafka import KafkaException

        sink = _sink(fork)
        consumer = reader(connection(sink.connection or ""), "drill")
        try:
            yield consumer
        except KafkaException as error:
            raise _silent(fork, error.args[0].str()) from error
        finally:
            consumer.close()


class _Records:
    """The records as they arrive."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def next(self, timeout: Seconds) -> int | None:
        message = self._consumer.poll(timeout)
        return None if message is None or message.error() is not None else _batch(message)


def _assign(consumer: Consumer, topic: str, *, back: int) -> set[int | None]:
    """Begin `back` records before the end of each partition. Returns the partitions that have a record there."""
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


def _topic(fork: ForkView) -> str:
    return str(_sink(fork).topic)


def _sink(fork: ForkView) -> SinkSpec:
    return fork.spec.sink


def _silent(fork: ForkView, problem: str) -> DrillError:
    return DrillError(
        f"the broker does not report what is in the fork's topic: {problem}",
        expected=f"an answer within {ANSWER_WITHIN:g} s",
        where=f"topic {_topic(fork)}",
        next_step="make sure that the broker runs, then run the drill again",
    )
