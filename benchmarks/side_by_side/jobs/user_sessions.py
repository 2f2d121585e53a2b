"""`user_sessions`: custom state and timers by the clock, over made-up users.

Each session ends with its last event, so that the answer does not depend on when a contender ran. The timers are set
all the same; none of them is due before the run has ended.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from benchmarks.side_by_side.jobs.job import Job, Record, Releases, in_one_batch

from streamwarden.verification.oracle import RunFacts

OPEN = 20_000
"""Users that have a session open at a time."""

EVENTS = 5
"""Of a session, on average."""


def lines(count: int) -> Sequence[str]:
    """One event in five is the last of its session; no two hold the same data."""
    chance = random.Random(7)  # noqa: S311 (test data)
    return [
        event(f"web:{chance.randrange(OPEN)}", f"d{number}", chance.random() < 1 / EVENTS) for number in range(count)
    ]


def event(user: str, data: str, is_last: bool) -> str:
    """One line."""
    return json.dumps({"id": user, "data": data, "is_last": is_last})


def closing(sent: Sequence[str]) -> Sequence[str]:
    """The last event of each user: no session stays open."""
    users = sorted({str(json.loads(line)["id"]) for line in sent})
    return [event(user, f"last-{user}", True) for user in users]


def facts(path: Path, records: Sequence[Record]) -> RunFacts:
    """The whole input in one batch: no timeout passes within it."""
    return in_one_batch(path, args=("web=30m",))


def row(record: Record) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """A session is known by its first event. When it began and ended depends on the run."""
    data = tuple(record["data"])
    return (record["id"], data[0], data[-1]), (record["client"], record["reason"], record["events"], data)


def releases(records: Sequence[Record], by_key: bool) -> Releases:
    """The last event of the session; it moves the clock of no other user."""
    numbers = {str(record["data"]): number for number, record in enumerate(records)}
    return lambda of: numbers.get(str(of[2]))


JOB = Job(
    name="user_sessions",
    stream="user_sessions",
    partitions=2,
    share=0.5,
    key=lambda record: str(record["id"]),
    lines=lines,
    closing=closing,
    facts=facts,
    row=row,
    releases=releases,
)
