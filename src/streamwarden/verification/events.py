"""The records of an at-least-once sink: what identifies one, and what remains when repeats are dropped.

A Kafka sink writes each row as one record: the key is the JSON object of the row's key columns, the value that of all
its columns. Two headers complete it:

- `streamwarden-batch`: `QUERY_ID/BATCH_ID`, the batch that wrote it.
- `streamwarden-event-id`: the SHA-256, in hexadecimal digits, over the key, a line feed and the value; in update mode
  also a line feed and `streamwarden-batch`.

A batch that runs again has the same rows, so its records have the same ids. A reader that drops the ids that it has
already seen has each row once. In append mode a key comes only once, and the id depends only on the row: it stays the
same if batches are cut differently, also with a new checkpoint. In update mode a row may rightly come back (1, 2, 1),
so the batch is part of its identity.

In real-time mode a record is written long before its batch ends, by a writer that does not know the batch. The header
`streamwarden-batch` is left out, and the id is that of key and value, in update mode too. If the rows of a job differ
from each other (events, states of a counter), each has its own id. If a row may rightly come back, a reader uses the
newest row of each key instead: a batch that runs again ends with the same rows, or continues.

A record with the key of an earlier one in the same batch but with another value is not a repeat: the job returned
another row when the batch ran again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

EVENT_ID: Final = "streamwarden-event-id"
BATCH: Final = "streamwarden-batch"

SEPARATOR: Final = "\n"
"""Separates the parts of an id. JSON on one line does not contain it."""


@dataclass(frozen=True, slots=True)
class Event:
    """One record of a topic. `id`, `query`, `batch`: the values of its headers; None if there are none."""

    key: bytes
    value: bytes
    id: str | None = None
    query: str | None = None
    batch: int | None = None

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None, headers: Mapping[str, bytes]) -> Event:
        """Build an event from a record's parts; headers that cannot be parsed count as missing."""
        query, _, batch = headers.get(BATCH, b"").decode(errors="replace").rpartition("/")
        known = bool(query) and batch.isascii() and batch.isdigit()
        return cls(
            key or b"",
            value or b"",
            headers[EVENT_ID].decode(errors="replace") if EVENT_ID in headers else None,
            query if known else None,
            int(batch) if known else None,
        )

    @property
    def written_by(self) -> str:
        return f"{self.query}/{self.batch}"


def event_id(key: bytes, value: bytes, batch: str | None = None) -> str:
    """The id of a record.

    Args:
        batch: `QUERY_ID/BATCH_ID` in update mode.
    """
    parts = [key, value] if batch is None else [key, value, batch.encode()]
    return hashlib.sha256(SEPARATOR.encode().join(parts)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The records that one query delivered.

    Args:
        events: each once (unless repeats were requested), in the order of the topic.
        repeated: number of records that a batch wrote again.
        repeats: batch -> how many of its records are repeats.
        foreign: records of other queries and other writers.
        uncommitted: records of a batch that is not committed: it will run again.
        problems: violations of the rules of the sink.
    """

    events: list[Event] = field(repr=False)
    repeated: int = 0
    repeats: Mapping[int, int] = field(default_factory=dict)
    foreign: int = 0
    uncommitted: int = 0
    problems: tuple[str, ...] = ()


def delivered(
    events: Iterable[Event],
    *,
    query: str,
    committed: int | None,
    first: int = 0,
    update: bool = False,
    deduplicated: bool = True,
) -> Delivery:
    """The records of the query's committed batches from `first` on, in the order of `events`.

    A record is a repeat if the same batch has already written its id. The same row from two batches is not a repeat and
    stays. In update mode the newest row of each key remains, as for a reader that replaces by key.

    Args:
        deduplicated: False: as a reader sees it that ignores ids.
    """
    kept: list[Event] = []
    seen: set[tuple[str | None, int]] = set()
    repeats: Counter[int] = Counter()
    foreign = uncommitted = misnamed = 0
    last = -1 if committed is None else committed
    for event in events:
        if event.query != query or event.batch is None:
            foreign += 1
            continue
        if event.batch > last:
            uncommitted += 1
            continue
        if event.batch < first:
            continue
        if event.id != event_id(event.key, event.value, event.written_by if update else None):
            misnamed += 1
        if (event.id, event.batch) in seen:
            repeats[event.batch] += 1
            if deduplicated:
                continue
        seen.add((event.id, event.batch))
        kept.append(event)
    problems = []
    if misnamed:
        problems.append(f"{misnamed} records have an event id that is not that of their key and value")
    if update and deduplicated:
        kept, changed = _newest(kept)
        if changed:
            problems.append(f"{changed} rows differed when their batch ran again, or a key came twice in a batch")
    return Delivery(
        events=kept,
        repeated=repeats.total(),
        repeats=dict(sorted(repeats.items())),
        foreign=foreign,
        uncommitted=uncommitted,
        problems=tuple(problems),
    )


def delivered_live(events: Iterable[Event], *, deduplicated: bool = True) -> Delivery:
    """The records of a stream in real-time mode, in the order of `events`: the newest row of each key.

    A record does not say which stream wrote it or whether its batch is committed. So no other program may write to the
    topic, and the stream must have been stopped at a boundary: what a killed driver wrote last, the next one writes
    again.

    Args:
        deduplicated: False: as a reader sees it that ignores ids and keys.
    """
    kept: list[Event] = []
    seen: set[str] = set()
    repeated = foreign = misnamed = 0
    for event in events:
        if event.id is None or event.query is not None:
            foreign += 1
            continue
        misnamed += event.id != event_id(event.key, event.value)
        repeated += event.id in seen
        seen.add(event.id)
        kept.append(event)
    problems = (f"{misnamed} records have an event id that is not that of their key and value",) if misnamed else ()
    return Delivery(
        events=_newest(kept)[0] if deduplicated else kept, repeated=repeated, foreign=foreign, problems=problems
    )


def _newest(events: Iterable[Event]) -> tuple[list[Event], int]:
    """The newest row of each key, and how many rows of one batch contradict each other. A key is in one partition, so
    its records are in the order of their batches."""
    newest: dict[bytes, Event] = {}
    changed = 0
    for event in events:
        before = newest.pop(event.key, None)
        changed += before is not None and before.batch == event.batch
        newest[event.key] = event
    return list(newest.values()), changed
