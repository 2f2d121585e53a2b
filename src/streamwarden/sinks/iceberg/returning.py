"""Brings a table to the batch of an exchanged checkpoint: a new metadata file makes the snapshot of that batch the
current one, as Iceberg's `rollback_to_snapshot` does. No data file is removed."""

import json
from typing import Any, Final

from streamwarden.adapters.iceberg.metadata import MAIN, Snapshot, TableMetadata
from streamwarden.adapters.iceberg.table import METADATA, table_of
from streamwarden.adapters.storage.files import open_path
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.exchanges.exchange import Exchange, OutputPlan
from streamwarden.stream.spec import StreamSpec

_LATER: Final = "snapshots"
"""Key of the plan: how many are taken back."""


def plan_rollback(spec: StreamSpec, restore: Exchange) -> OutputPlan:
    """Plan to take back the snapshots after the batch. Raises CheckpointError if the batch's snapshot is not kept, or
    another program has committed since."""
    table, target = _target(spec, restore)
    later = _later(table, target)
    foreign = [snapshot for snapshot in later if snapshot.query != restore.query_id]
    if foreign:
        raise _impossible(spec, f"another program has committed the snapshot {foreign[0].id} ({foreign[0].operation})")
    words = f"the table goes back to the snapshot {target.id} of batch {restore.batch}: {len(later)} snapshots after it"
    return OutputPlan(words=f"{words} are taken back", document={_LATER: len(later)})


def roll_back(spec: StreamSpec, restore: Exchange) -> str:
    """Make the snapshot of the batch the current one. Repeated, it does nothing. Raises CheckpointError, OSError."""
    table, target = _target(spec, restore)
    if table.current == target.id:
        return ""
    document = rolled_back(table, target)
    folder = open_path(str(spec.sink.path), spec.storage.connection) / METADATA
    (folder / f"v{table.version + 1}.metadata.json").write(json.dumps(document).encode())
    return f"the table went back to the snapshot {target.id} of batch {restore.batch}"


def rolled_back(table: TableMetadata, target: Snapshot) -> dict[str, Any]:
    """The table's metadata with another current snapshot. Pure. It is as old as before: the clock of a writer decides
    the age of a commit, not that of a restore."""
    at = table.document.get("last-updated-ms", 0)
    log = [*(table.document.get("snapshot-log") or ()), {"timestamp-ms": at, "snapshot-id": target.id}]
    return {
        **table.document,
        "current-snapshot-id": target.id,
        "refs": {**(table.document.get("refs") or {}), MAIN: {"snapshot-id": target.id, "type": "branch"}},
        "snapshot-log": log,
    }


def _target(spec: StreamSpec, restore: Exchange) -> tuple[TableMetadata, Snapshot]:
    table = table_of(spec)
    target = None if table is None else table.batches([restore.query_id]).get(restore.batch)
    if table is None or target is None:
        raise _impossible(spec, f"no snapshot of batch {restore.batch} of the query {restore.query_id} is kept")
    return table, target


def _later(table: TableMetadata, target: Snapshot) -> list[Snapshot]:
    history = list(table.history)
    return history[: history.index(target)]


def _impossible(spec: StreamSpec, what: str) -> CheckpointError:
    return CheckpointError(
        f"the table cannot be put back to the savepoint: {what}",
        expected="a table that only this query has written since, with the snapshot of the savepoint's batch",
        where=str(spec.sink.path),
        next_step="fork the savepoint (`streamwarden savepoint fork`), or give the stream a new checkpoint path and a "
        "new table, in one change",
    )
