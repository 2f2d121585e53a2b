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

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Self

EVENT_ID: Final = "streamwarden-event-id"
BATCH: Final = "streamwarden-batch"

SEPARATOR: Final = "\n"
"""Separates the parts of an id. JSON on one line does not contain it."""


@dataclass(frozen=True, slots=True)
class Event:
    """One record of a topic. `id`, `query`, `batch`: the values of its headers; None if there are none. `partition`,
    `offset`: its place; -1 if it does not matter."""

    key: bytes
    value: bytes
    id: str | None = None
    query: str | None = None
    batch: int | None = None
    partition: int = -1
    offset: int = -1

    @classmethod
    def of(
        cls,
        key: bytes | None,
        value: bytes | None,
        headers: Mapping[str, bytes],
        *,
        partition: int = -1,
        offset: int = -1,
    ) -> Self:
        """Build an event from a record's parts; headers that cannot be parsed count as missing."""
        query, _, batch = headers.get(BATCH, b"").decode(errors="replace").rpartition("/")
        has_batch = bool(query) and batch.isascii() and batch.isdigit()
        return cls(
            key or b"",
            value or b"",
            headers[EVENT_ID].decode(errors="replace") if EVENT_ID in headers else None,
            query if has_batch else None,
            int(batch) if has_batch else None,
            partition,
            offset,
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


@dataclass(slots=True)
class CommittedRecords:
    """Selects the records of one query's committed batches from `first` on, and counts the others.

    A record is a repeat if the same batch has already written its id. The same row from two batches is not a repeat and
    stays. In update mode the newest row of each key remains, as for a reader that replaces by key.

    Args:
        committed: the newest committed batch; None: no batch is committed.
        foreign: records of other queries and other writers.
        uncommitted: records of a batch that is not committed: it will run again.
        misnamed: records whose id is not that of their contents.
    """

    query: str
    committed: int | None
    first: int = 0
    update: bool = False
    foreign: int = 0
    uncommitted: int = 0
    misnamed: int = 0

    REPEATS_ARE_ROWS: ClassVar[bool] = False

    @property
    def newest(self) -> bool:
        """Whether the newest row of each key replaces the others."""
        return self.update

    def selects(self, event: Event) -> bool:
        """Whether the record is one of these."""
        if event.query != self.query or event.batch is None:
            self.foreign += 1
            return False
        if self.committed is None or event.batch > self.committed:
            self.uncommitted += 1
            return False
        if event.batch < self.first:
            return False
        self.misnamed += event.id != event_id(event.key, event.value, event.written_by if self.update else None)
        return True


@dataclass(slots=True)
class LiveRecords:
    """Selects the records of a stream in real-time mode, of which the newest row of each key remains.

    A record does not say which stream wrote it or whether its batch is committed. So no other program may write to the
    topic, and the stream must have been stopped at a boundary: what a killed driver wrote last, the next one writes
    again. A row with an id that was seen may therefore be the newest one of its key.

    Args: see `CommittedRecords`.
    """

    foreign: int = 0
    uncommitted: int = 0
    misnamed: int = 0

    REPEATS_ARE_ROWS: ClassVar[bool] = True
    newest: ClassVar[bool] = True

    def selects(self, event: Event) -> bool:
        """Whether the record is one of these."""
        if event.id is None or event.query is not None:
            self.foreign += 1
            return False
        self.misnamed += event.id != event_id(event.key, event.value)
        return True
