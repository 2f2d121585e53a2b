"""`flight_departures`: windows of an hour, over the real flights of 2013."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.side_by_side.jobs.job import Job, Record, Releases, in_one_batch, milliseconds

from streamwarden.verification.oracle import RunFacts

DELAY = 2 * 3_600_000
"""Of the watermark, milliseconds."""

LAST = "2014-06-01T12:00:00.000Z"
"""Months behind the last flight: closes every window."""


def lines(count: int) -> Sequence[str]:
    """Flights in the order in which they departed, without those that come more than two hours late: which windows
    such a flight misses depends on where a contender cuts its input, so there is no one right answer for it."""
    from streamwarden.services.replay.flights import departures

    columns = departures().drop(columns="order").head(count + count // 10)  # one in fifty is too late
    every: list[dict[Any, Any]] = columns.astype(object).where(columns.notna(), None).to_dict("records")
    kept = in_time((milliseconds(flight["event_time"]), flight) for flight in every)
    return [json.dumps(flight) for flight in kept[:count]]


def in_time(flights: Iterable[tuple[int, Record]]) -> list[Record]:
    """Those whose scheduled time is less than `DELAY` behind the newest one so far."""
    newest, kept = 0, []
    for at, flight in flights:
        newest = max(newest, at)
        if at > newest - DELAY:
            kept.append(flight)
    return kept


def closing(sent: Sequence[str]) -> Sequence[str]:
    """A flight of each origin and carrier: some contenders close the windows of a key by the key's own records."""
    of_key = {key(flight := json.loads(line)): flight for line in sent}
    return [json.dumps({**flight, "flight_id": f"last-{name}", "event_time": LAST}) for name, flight in of_key.items()]


def key(flight: Record) -> str:
    """Origin and carrier."""
    return f"{flight['origin']}|{flight['carrier']}"


def facts(path: Path, records: Sequence[Record]) -> RunFacts:
    """The whole input in one batch."""
    return in_one_batch(path, max(milliseconds(flight["event_time"]) for flight in records), DELAY)


def row(record: Record) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """All columns of the output; a window's end follows from its start."""
    window = milliseconds(record["window_start"]), milliseconds(record["window_end"])
    amounts = tuple(record[name] for name in ("flights", "departures", "cancellations", "delay_minutes"))
    return (*window, record["origin"], record["carrier"]), amounts


def releases(records: Sequence[Record], by_key: bool) -> Releases:
    """The first record that is two hours past the end of a window."""
    newest: dict[str, list[int]] = defaultdict(list)
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, flight in enumerate(records):
        clock = key(flight) if by_key else ""
        at = milliseconds(flight["event_time"])
        if not newest[clock] or at > newest[clock][-1]:
            newest[clock].append(at)
            numbers[clock].append(number)

    def release(of: tuple[object, ...]) -> int | None:
        _, end, origin, carrier = of
        clock = f"{origin}|{carrier}" if by_key else ""
        place = bisect_left(newest[clock], int(str(end)) + DELAY)
        return numbers[clock][place] if place < len(numbers[clock]) else None

    return release


JOB = Job(
    name="flight_departures",
    stream="flight_departures",
    partitions=1,  # the order of all flights is what makes the answer the same for each contender
    share=1.0,
    key=key,
    lines=lines,
    closing=closing,
    facts=facts,
    row=row,
    releases=releases,
)
