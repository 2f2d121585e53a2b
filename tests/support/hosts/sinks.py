"""Streams on the hosts of a park whose output is not in the shared folder: a topic, and a table of PostgreSQL."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from streamwarden.verification.comparing.events import EVENT_ID
from support.hosts.events import Events
from support.hosts.park import BROKER, DATABASE, Park
from support.hosts.streams import HostedStream
from support.servers.kafka_broker import Broker

INPUT: Final = "events-in"
OUTPUT: Final = "events-out"


class TopicEvents(Events):
    """Events in a topic."""

    def __init__(self, park: Park) -> None:
        self.count = 0
        settings = park.broker.settings
        self._producer: Producer = park.network.plugs[BROKER].call(lambda: Producer({**settings, "log_level": 0}))

    def publish(self, rows: int = 50) -> None:
        for line in self.lines(rows):
            self._producer.produce(INPUT, line)
        assert self._producer.flush(30) == 0


class TopicStream(HostedStream):
    """From a topic into a topic."""

    def __init__(self, park: Park) -> None:
        park.at_broker(lambda broker: [broker.create(topic) for topic in (INPUT, OUTPUT)])
        super().__init__(
            park,
            source={"kind": "kafka", "connection": "broker", "topic": INPUT, "max_offsets_per_trigger": 500},
            sink={"kind": "kafka", "connection": "broker", "topic": OUTPUT, "key": ["event_id"]},
            env={"AIRFLOW_CONN_BROKER": park.broker.connection},
        )
        self.events = TopicEvents(park)

    def delivered(self) -> Counter[str]:
        """As a reader has them that drops the records whose id it has seen."""
        return self.park.at_broker(_read)


class TableStream(HostedStream):
    """From files into a table."""

    def __init__(self, park: Park) -> None:
        super().__init__(
            park,
            sink={"kind": "postgresql", "connection": "warehouse", "table": "events", "key": ["event_id"]},
            env={"AIRFLOW_CONN_WAREHOUSE": park.database.connection("warehouse")},
        )

    def delivered(self) -> Counter[str]:
        if not self.park.ask("SELECT to_regclass('events') IS NOT NULL", DATABASE)[0][0]:
            return Counter()
        return Counter(row[0] for row in self.park.ask("SELECT event_id FROM events", DATABASE))


def _read(broker: Broker) -> Counter[str]:
    (end,) = broker.ends(OUTPUT, 1)
    consumer = Consumer({**broker.settings, "group.id": "test", "log_level": 0})
    seen: set[bytes] = set()
    counts: Counter[str] = Counter()
    try:
        consumer.assign([TopicPartition(OUTPUT, 0, 0)])
        at = 0
        while at < end:
            message = consumer.poll(30)
            assert message is not None, "the broker does not answer"
            at = (message.offset() or 0) + 1
            headers: dict[str, Any] = dict(message.headers() or ())
            if headers[EVENT_ID] not in seen:
                seen.add(headers[EVENT_ID])
                counts[json.loads(message.value() or b"")["event_id"]] += 1
    finally:
        consumer.close()
    return counts
