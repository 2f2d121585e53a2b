"""The replayed flights as a table that a stream reads: one commit for each file, with the types of the job's schema.
Also what tests ask of such a stream."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.services.workspace import Workspace
from streamwarden.sources.tables.source import TableSource

_TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("flight_id", "origin", "carrier", "dest", "tailnum")),
        *((name, _TIME) for name in ("event_time", "departed_at")),
        ("dep_delay", pa.int32()),
    ]
)

_REQUIRED = ("flight_id", "event_time", "origin", "carrier")


def tables(inputs: Path) -> list[pa.Table]:
    """One for each file of JSON lines, in the order of their names, without the rows that the job cannot use."""
    made = (_table(file) for file in sorted(inputs.glob("*.json")))
    return [table for table in made if table.num_rows]


def _table(file: Path) -> pa.Table:
    read = [json.loads(line) for line in file.read_text().splitlines()]
    rows = [row for row in read if all(row.get(name) is not None for name in _REQUIRED)]
    return pa.table(
        {field.name: pa.array([_value(row.get(field.name), field) for row in rows], field.type) for field in SCHEMA}
    )


def _value(value: object, field: pa.Field) -> object:
    return datetime.fromisoformat(str(value)) if field.type == _TIME and value is not None else value


def files_of_batch(workspace: Workspace, batch: int) -> list[Path]:
    """The data files that a batch of the stream `flights` read."""
    spec = workspace.stream("flights")
    assert isinstance(spec.source, TableSource)
    read = spec.source.files_read(spec, checkpoint_of(spec), range(batch, batch + 1))
    return [Path(file.path) for file in read[batch]]
