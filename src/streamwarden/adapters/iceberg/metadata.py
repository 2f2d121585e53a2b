"""What the metadata file of an Iceberg table says about its snapshots, and which batch made each of them. Pure.

A table is a tree of files. The newest `metadata/vN.metadata.json` is its root, and a commit is the rename that gives
that file its name. The file is JSON and lists every snapshot that is kept, each with the properties that its writer
gave it. Spark's sink gives the id of the query and the number of the batch: they are how it recognises a batch that
the table has already.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamwarden.checkpoint.formats.layout import Damaged

QUERY: Final = "spark.sql.streaming.queryId"
BATCH: Final = "spark.sql.streaming.epochId"
"""Properties of a snapshot that Spark's streaming sink made."""

STAGED: Final = "wap.id"
"""Property of a snapshot that was committed beside the table's history: the name under which it is published, which
Iceberg does once for each name."""

PUBLISHED: Final = "published-wap-id"
"""Property of the snapshot that Iceberg makes when it publishes a staged one on top of another program's commit: the
name of the staged one, of which it has no other property."""

_OWN: Final = "streamwarden"

_FIRST: Final = 1
"""The sequence number of the first snapshot of a table."""

MAIN: Final = "main"
"""The branch that readers see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The table as of one commit.

    Args:
        parent: the snapshot before it, which may not be kept any more; None: it was the first, or the program that
            expired the one before it has removed the reference.
        sequence: its number in the table; None in format 1.
        at: when it was committed, Unix seconds.
        operation: `append`, `overwrite`, `replace` (a compaction) or `delete`.
        query, batch: what wrote it; None if no streaming query did.
        staged: the name under which it was staged; None: it was committed at once, or made to publish a staged one.
    """

    id: int
    parent: int | None
    sequence: int | None
    at: float
    operation: str
    query: str | None
    batch: int | None
    staged: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata:
    """A table as of one metadata file.

    Args:
        version: the number in the file's name; file: its path or URL.
        snapshots: those that are kept, by id; current: the id of the one that readers see, None: the table is empty.
        document: the file's content.
    """

    version: int
    file: str
    snapshots: Mapping[int, Snapshot]
    current: int | None
    document: Mapping[str, Any]

    @property
    def history(self) -> Iterator[Snapshot]:
        """The current snapshot and those before it, newest first, as far as they are kept."""
        following = self.current
        while following is not None and following in self.snapshots:
            snapshot = self.snapshots[following]
            yield snapshot
            following = snapshot.parent

    @property
    def is_whole(self) -> bool:
        """Whether every snapshot is kept since the table was made: none was expired. One that was staged and
        never published has a number in the sequence, too."""
        kept = list(self.history)
        if not kept or kept[-1].sequence is None:
            return not kept or kept[-1].parent is None
        staged = {one.sequence for one in self.snapshots.values()} - {one.sequence for one in kept}
        return kept[-1].parent is None and staged.issuperset(range(_FIRST, kept[-1].sequence))

    def staged(self, query: str, batch: int) -> int | None:
        """The newest snapshot that was staged for a batch and is not in the history; None: there is none."""
        published, name = {snapshot.id for snapshot in self.history}, staging_name(query, batch)
        own = [one for one in self.snapshots.values() if one.staged == name and one.id not in published]
        return max(own, key=lambda one: one.sequence or 0).id if own else None

    def batches(self, queries: Collection[str]) -> dict[int, Snapshot]:
        """Batch -> the snapshot that one of these queries made of it, of the history; newest first."""
        found: dict[int, Snapshot] = {}
        for snapshot in self.history:
            if snapshot.query in queries and snapshot.batch is not None:
                found.setdefault(snapshot.batch, snapshot)
        return found

    def newest_batch(self, queries: Collection[str]) -> int | None:
        """The newest batch of these queries; None if the kept snapshots have none."""
        return max(self.batches(queries), default=None)

    def newest_of_others(self, queries: Collection[str]) -> tuple[str, int] | None:
        """The newest batch that another query has written, with the id of that query; None: no other has."""
        others = (snapshot for snapshot in self.history if snapshot.query not in queries)
        return next(((one.query, one.batch) for one in others if one.query and one.batch is not None), None)

    def repeated(self, queries: Collection[str]) -> Sequence[int]:
        """Batches that more than one snapshot has, ascending: their rows were appended more than once."""
        written = Counter(
            (snapshot.query, snapshot.batch)
            for snapshot in self.history
            if snapshot.query in queries and snapshot.batch is not None
        )
        return sorted({batch for (_, batch), times in written.items() if times > 1 and batch is not None})


def parsed(content: bytes, file: str, version: int) -> TableMetadata:
    """The content of a metadata file. Raises Damaged if it is not such a file."""
    try:
        document = json.loads(content)
        snapshots = [_snapshot(entry) for entry in document.get("snapshots") or ()]
        current = document.get("current-snapshot-id")
        document["location"], document["schemas"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{file} is no metadata of an Iceberg table: {type(error).__name__}: {error}") from error
    return TableMetadata(
        version=version,
        file=file,
        snapshots={snapshot.id: snapshot for snapshot in snapshots},
        current=None if current in (None, -1) else int(current),
        document=document,
    )


def _snapshot(entry: Mapping[str, Any]) -> Snapshot:
    summary = entry.get("summary") or {}
    query, batch = written_by(summary)
    return Snapshot(
        id=int(entry["snapshot-id"]),
        parent=entry.get("parent-snapshot-id"),
        sequence=entry.get("sequence-number"),
        at=entry["timestamp-ms"] / 1000,
        operation=summary.get("operation", ""),
        query=query,
        batch=batch,
        staged=summary.get(STAGED),
    )


def staging_name(query: str, batch: int) -> str:
    """The name under which a driver stages the snapshot of a batch."""
    return f"{_OWN}/{query}/{batch}"


def written_by(summary: Mapping[str, str]) -> tuple[str | None, int | None]:
    """The query and the batch of a snapshot with these properties."""
    owner, _, published = summary.get(PUBLISHED, "").partition("/")
    if owner == _OWN:
        query, _, number = published.rpartition("/")
        return query, int(number)
    batch = summary.get(BATCH)
    return summary.get(QUERY), None if batch is None else int(batch)
