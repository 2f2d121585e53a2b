"""`device_heartbeats` by the readings' own times: custom state and timers whose answer does not depend on the clock.

The catalogue declares it as `device_heartbeats_event_time`. 1,000 devices have ten sessions each; a reading comes each
two milliseconds, and after two minutes new sessions begin, so that the old ones end by their silence.
"""

from __future__ import annotations

import json
import random
import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.side_by_side.jobs.job import Job, Record, Releases, in_one_batch, milliseconds

from streamwarden.verification.oracle import RunFacts

START = 1_767_603_600_000
"""The first reading: 5 January 2026, 09:00 UTC."""

STEP = 2
"""Milliseconds between two readings."""

DEVICES, SESSIONS, GENERATION = 1_000, 10, 60_000
HEARTBEAT, INACTIVE, LATE = 30_000, 120_000, 60_000
ARGS = ("time=event", "heartbeat=30s", "inactive=2m", "late=1m")
BEYOND = 3_600_000
"""Milliseconds from the last reading to those that close everything."""


def lines(count: int) -> Sequence[str]:
    """In the order of their times."""
    chance = random.Random(4)  # noqa: S311 (test data)
    return [
        reading(START + STEP * number, f"d{chance.randrange(DEVICES)}", session(number, chance.randrange(SESSIONS)))
        for number in range(count)
    ]


def session(number: int, of_device: int) -> str:
    """One of ten, and others after two minutes."""
    return f"s{number // GENERATION}-{of_device}"


def reading(at: int, device: str, name: str) -> str:
    """One line."""
    stamp = f"{datetime.fromtimestamp(at // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"
    return json.dumps({"device_id": device, "session_id": name, "state": f"v{at % 7}", "event_time": stamp})


def closing(sent: Sequence[str]) -> Sequence[str]:
    """A reading of each device an hour later: some contenders know the time of a device by its own readings alone."""
    devices = sorted({str(json.loads(line)["device_id"]) for line in sent})
    return [reading(START + STEP * len(sent) + BEYOND, device, "last") for device in devices]


def facts(path: Path, records: Sequence[Record]) -> RunFacts:
    """The whole input in one batch."""
    return in_one_batch(path, max(milliseconds(record["event_time"]) for record in records), LATE, ARGS)


def row(record: Record) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """All columns of the output."""
    key = record["device_id"], record["session_id"], record["kind"], milliseconds(record["at"])
    counted = tuple(record[name] for name in ("number", "readings", "added", "state"))
    return key, (milliseconds(record["started_at"]), *counted)


def releases(records: Sequence[Record], by_key: bool) -> Releases:
    """The first record that is a minute past the point of the device's grid at which the row is due."""
    times: dict[str, list[int]] = defaultdict(list)
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, record in enumerate(records):
        clock = str(record["device_id"]) if by_key else ""
        times[clock].append(milliseconds(record["event_time"]))
        numbers[clock].append(number)

    def release(of: tuple[object, ...]) -> int | None:
        device, _, kind, at = str(of[0]), of[1], of[2], int(str(of[3]))
        due = at if kind == "HEARTBEAT" else at + 1 + (zlib.crc32(device.encode()) - at - 1) % HEARTBEAT
        clock = device if by_key else ""
        place = bisect_left(times[clock], due + LATE)
        return numbers[clock][place] if place < len(times[clock]) else None

    return release


JOB = Job(
    name="device_heartbeats",
    stream="device_heartbeats_event_time",
    partitions=1,  # one clock for all devices
    share=0.5,
    key=lambda record: str(record["device_id"]),
    lines=lines,
    closing=closing,
    facts=facts,
    row=row,
    releases=releases,
)
