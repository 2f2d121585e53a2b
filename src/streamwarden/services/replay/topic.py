"""Replays the flights of 2013 as records of a Kafka topic, in the order in which they really departed.

Row i goes to partition i mod P, where it has the offset i div P. So the topic itself shows how far an earlier replay
came, and an interrupted one continues there. No other program may write to the topic: its record would give a row
another offset, which ends the replay with an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.connections import Connection
from streamwarden.adapters.kafka.brokers import QUIET, client_settings, reader
from streamwarden.errors import SourceError
from streamwarden.services.replay.flights import departures
from streamwarden.services.replay.replay import ROWS_PER_FILE, seconds_of, validate

if TYPE_CHECKING:
    from confluent_kafka import Message

PARTITIONS: Final = 4
"""Partitions of a topic that the replay creates."""

ANSWER_WITHIN: Final = 30.0
"""Seconds within which the broker accepts a portion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReplayStats:
    """Result of a replay into a topic: rows sent, rows that were there already, and its duration in seconds."""

    sent: int
    skipped: int
    partitions: int
    seconds: float


def replay_to_topic(
    known: Connection,
    topic: str,
    *,
    speedup: float | None = None,
    rows_per_portion: int = ROWS_PER_FILE,
    limit: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> TopicReplayStats:
    """Send the flights to `topic` (created if missing) and report the counts.

    Args:
        speedup: event seconds a second; a portion is sent when its last flight has departed on that clock, which starts
            at the first missing portion. None: as fast as possible.
        limit: stop after this many flights.

    Raises ConfigError for values out of range, SourceError if the broker does not accept them or the topic holds
    records of another program.
    """
    from confluent_kafka import KafkaException, Producer

    validate(speedup, rows_per_portion, limit)
    flights = departures()
    if limit is not None:
        flights = flights.head(limit)
    instants = seconds_of(flights["order"])
    lines = flights.drop(columns="order").to_json(orient="records", lines=True).splitlines()
    try:
        ends = _ends(known, topic)
        there = [row // len(ends) < ends[row % len(ends)] for row in range(len(lines))]
        delivery = _Delivery(topic, len(ends))
        producer = Producer({**client_settings(known), "enable.idempotence": True, "linger.ms": 20, "logger": QUIET})
        started = clock()
        origin: tuple[float, float] | None = None  # event instant and clock reading at the first portion to be sent
        for start in range(0, len(lines), rows_per_portion):
            rows = [row for row in range(start, min(start + rows_per_portion, len(lines))) if not there[row]]
            if not rows:
                continue
            if speedup is not None:
                origin = origin or (float(instants.iloc[rows[0]]), clock())
                due = origin[1] + (float(instants.iloc[rows[-1]]) - origin[0]) / speedup
                while (wait := due - clock()) > 0:
                    sleep(wait)
            for row in rows:
                partition = row % len(ends)
                producer.produce(topic, lines[row], partition=partition, on_delivery=delivery.of(row))
                producer.poll(0)
            left = producer.flush(ANSWER_WITHIN)
            delivery.require(left)
    except (KafkaException, BufferError) as error:
        raise _refused(known, topic, str(error.args[0])) from error
    return TopicReplayStats(
        sent=there.count(False), skipped=there.count(True), partitions=len(ends), seconds=clock() - started
    )


class _Delivery:
    """Checks where each row arrived."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._problem = ""

    def of(self, row: int) -> Callable[[object, Message], None]:
        def delivered(error: object, message: Message) -> None:
            if self._problem:
                return
            if error is not None:
                self._problem = f"row {row} was refused: {error}"
            elif message.offset() != row // self._partitions:
                self._problem = (
                    f"row {row} got the offset {message.offset()} of partition {message.partition()}, and not "
                    f"{row // self._partitions}: another program writes to the topic too"
                )

        return delivered

    def require(self, left: int) -> None:
        """Raises SourceError if a row has another offset than its own, or was not accepted in time."""
        if self._problem or left:
            raise SourceError(
                self._problem or f"the broker did not accept {left} rows within {ANSWER_WITHIN:g} s",
                expected="a broker that accepts them, and a topic that no other program writes to",
                where=f"topic {self._topic}",
                next_step="check that the broker runs; or replay into a new topic",
            )


def _ends(connection: Connection, topic: str) -> Mapping[int, int]:
    """Partition -> its end offset. A missing topic is created."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it does export it

    settings: dict[str, str | int | float | bool] = {**client_settings(connection), "log_level": 0}
    admin = AdminClient(settings)
    topics = admin.list_topics(timeout=ANSWER_WITHIN).topics
    if topic not in topics:
        try:
            admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(timeout=ANSWER_WITHIN)
        except KafkaException as error:
            raise _refused(connection, topic, f"it cannot be created: {error.args[0].str()}") from error
        return dict.fromkeys(range(PARTITIONS), 0)
    consumer = reader(connection, "replay")
    try:
        partitions = [TopicPartition(topic, partition) for partition in sorted(topics[topic].partitions)]
        return {
            partition.partition: consumer.get_watermark_offsets(partition, timeout=ANSWER_WITHIN)[1]
            for partition in partitions
        }
    finally:
        consumer.close()


def _refused(connection: Connection, topic: str, said: str) -> SourceError:
    return SourceError(
        f"the broker does not accept the replay: {said}",
        expected="an answer, and the right to write",
        where=f"topic {topic} at the connection {connection.name}",
        next_step="check that the broker runs and that the connection may write to the topic",
    )
