"""The table of a fork: a metadata file of its own that names the data files of the origin's, as of one batch. Pure.

Nothing is copied. The fork's writer adds snapshots and data files in the fork's folder; the origin's files are read
and never written. `gc.enabled` is false, with which Iceberg refuses to expire snapshots and to purge the table: neither
may remove a file of the origin.
"""

import json
import uuid
from collections.abc import Collection
from typing import Any, Final

from streamwarden.adapters.iceberg.metadata import (
    BATCH,
    MAIN,
    PUBLISHED,
    QUERY,
    Snapshot,
    TableMetadata,
    written_by,
)
from streamwarden.checkpoint.formats.uris import to_hadoop

_ELSEWHERE: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Properties that lead a writer out of the table's folder."""

_DROPPED: Final = ("current-snapshot-id", "statistics", "partition-statistics")


def cloned(
    table: TableMetadata, location: str, upto: Snapshot | None, queries: Collection[str] = (), query_id: str = ""
) -> bytes:
    """The first metadata file of a fork's table.

    Args:
        location: the folder of the fork's table.
        upto: the snapshot with which the fork begins; None: with an empty table of the same columns.
        queries: the origin's queries, whose snapshots become those of `query_id`, the fork's query: the fork continues
            the numbers of their batches.
    """
    kept = _kept(table, upto, queries, query_id)
    properties = {name: value for name, value in table.document.get("properties", {}).items() if name not in _ELSEWHERE}
    document = {name: value for name, value in table.document.items() if name not in _DROPPED}
    document |= {
        "table-uuid": str(uuid.uuid4()),
        "location": to_hadoop(location),
        "properties": {**properties, "gc.enabled": "false"},
        "snapshots": kept,
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
    }
    if upto is not None:
        document["current-snapshot-id"] = upto.id
        document["refs"] = {MAIN: {"snapshot-id": upto.id, "type": "branch"}}
    return json.dumps(document).encode()


def _kept(table: TableMetadata, upto: Snapshot | None, queries: Collection[str], query_id: str) -> list[dict[str, Any]]:
    """The entries of `upto` and of the snapshots before it, as the file has them."""
    wanted, following = set(), upto
    while following is not None:
        wanted.add(following.id)
        following = table.snapshots.get(following.parent) if following.parent is not None else None
    kept = [entry for entry in table.document.get("snapshots") or () if entry["snapshot-id"] in wanted]
    return [_renamed(entry, queries, query_id) for entry in kept]


def _renamed(entry: dict[str, Any], queries: Collection[str], query_id: str) -> dict[str, Any]:
    summary = {name: value for name, value in (entry.get("summary") or {}).items() if name != PUBLISHED}
    query, batch = written_by(entry.get("summary") or {})
    return {**entry, "summary": {**summary, QUERY: query_id, BATCH: str(batch)}} if query in queries else entry
