"""`flight_departures` in Bytewax. A window of a key is closed by that key's records alone. Its topics and its broker
are in the environment."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow

HOUR = timedelta(hours=1)
ALIGNED = datetime(2013, 1, 1, tzinfo=UTC)
Sums = tuple[int, int, int]


def at(flight: Any) -> datetime:
    """Scheduled departure."""
    return datetime.fromisoformat(flight["event_time"].replace("Z", "+00:00"))


def add(sums: Sums, flight: Any) -> Sums:
    """Flights, departures, minutes of delay."""
    return sums[0] + 1, sums[1] + (flight["departed_at"] is not None), sums[2] + (flight["dep_delay"] or 0)


def row(item: tuple[str, tuple[int, Sums]]) -> KafkaSinkMessage[None, bytes]:
    """A closed window as a row of the output. Windows are numbered from `ALIGNED` on."""
    key, (number, (flights, departures, delay)) = item
    origin, carrier = key.split("|")
    start = round((ALIGNED + number * HOUR / 4).timestamp() * 1000)
    values = {"window_start": start, "window_end": start + 3_600_000, "origin": origin, "carrier": carrier}
    values |= {"flights": flights, "departures": departures, "cancellations": flights - departures}
    return KafkaSinkMessage(None, json.dumps(values | {"delay_minutes": delay}).encode())


servers, source, sink = os.environ["SERVERS"], os.environ["SOURCE"], os.environ["SINK"]
flow = Dataflow("flight_departures")
records = op.input("flights", flow, KafkaSource([servers], [source]))
keyed = op.map("parse", records, lambda record: (record.key.decode(), json.loads(record.value)))
windows = win.fold_window(
    "windows",
    keyed,
    # No alarm for the end of a window: for flights of the past it would ring all the time.
    win.EventClock(at, wait_for_system_duration=2 * HOUR, to_system_utc=lambda _: None),
    win.SlidingWindower(length=HOUR, offset=HOUR / 4, align_to=ALIGNED),
    lambda: (0, 0, 0),
    add,
    lambda one, other: (one[0] + other[0], one[1] + other[1], one[2] + other[2]),
    ordered=False,
)
op.output("out", op.map("row", windows.down, row), KafkaSink([servers], sink))
