"""`flight_departures` in Quix Streams. Arguments: servers, source, sink, folder for state, seconds between commits."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

from quixstreams import Application
from quixstreams.dataframe.windows.aggregations import Count, Sum

HOUR_MS = 3_600_000


def event_time(value: Any, headers: Any, timestamp: float, timestamp_type: Any) -> int:
    """Scheduled departure, Unix milliseconds."""
    return round(datetime.fromisoformat(value["event_time"].replace("Z", "+00:00")).timestamp() * 1000)


def row(window: Any, key: bytes, timestamp: int, headers: Any) -> dict[str, Any]:
    """A closed window as a row of the output."""
    origin, carrier = key.decode().split("|")
    return {
        "window_start": window["start"],
        "window_end": window["end"],
        "origin": origin,
        "carrier": carrier,
        "flights": window["flights"],
        "departures": window["departures"],
        "cancellations": window["flights"] - window["departures"],
        "delay_minutes": window["delay_minutes"],
    }


if __name__ == "__main__":
    servers, source, sink, folder, seconds = sys.argv[1:]
    application = Application(
        broker_address=servers,
        consumer_group=source,
        auto_offset_reset="earliest",
        commit_interval=float(seconds),
        state_dir=folder,
        processing_guarantee="exactly-once",
        consumer_extra_config={"group.instance.id": source},
        loglevel="WARNING",
    )
    flights = application.dataframe(application.topic(source, timestamp_extractor=event_time))
    windows = flights.hopping_window(HOUR_MS, HOUR_MS // 4, grace_ms=2 * HOUR_MS).agg(
        flights=Count(), departures=Count("departed_at"), delay_minutes=Sum("dep_delay")
    )
    windows.final(closing_strategy="partition").apply(row, metadata=True).to_topic(application.topic(sink))
    application.run()
