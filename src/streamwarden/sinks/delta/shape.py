"""The files of a Delta table and the length of its log, for the health monitor."""

import re
from typing import Final

from streamwarden.adapters.delta.log import LOG, versions
from streamwarden.adapters.delta.table import opened
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.layout import list_or_empty
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.health.window import TableShape

_SUMMARY: Final = re.compile(r"(\d{20})\.checkpoint\..*parquet")
"""A checkpoint of the log, or a part of one: it lists the files of the table as of its version."""


def shape_of(path: str, connection: str | None) -> TableShape | None:
    """None if there is no table yet. Raises CheckpointError, MissingExtra, OSError."""
    import pyarrow as pa

    table = opened(path, connection)
    if table is None:
        return None
    files = pa.table(table.get_add_actions(flatten=True))
    sizes, added = files["size_bytes"].to_pylist(), files["modification_time"].cast(pa.timestamp("ms")).cast(pa.int64())
    root = open_path(path, connection)
    summaries = [int(match[1]) for match in map(_SUMMARY.fullmatch, list_or_empty(root / LOG)) if match]
    newest = max(summaries, default=-1)
    return TableShape.of(
        zip(sizes, (at / 1000 for at in added.to_pylist()), strict=True),
        log=sum(version > newest for version in versions(root)),
        compact=f"OPTIMIZE delta.`{to_hadoop(path)}`",
        summarise=f"python -c \"import deltalake; deltalake.DeltaTable('{path}').create_checkpoint()\"",
    )
