"""The table that a fork reads: the log of its origin's up to now, and hard links of the data files that it reads.

Nothing of the origin changes, and neither VACUUM nor the retention of the origin's log takes a file from the fork. The
id of the table is the origin's, which the offsets of the checkpoint name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from streamwarden.adapters.delta.log import LOG
from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.storage.moving import bring
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import is_file, list_or_empty
from streamwarden.errors import CheckpointError
from streamwarden.sources.delta.files import DeltaFiles
from streamwarden.sources.tables.source import TableFile

_VERSIONED: Final = re.compile(r"(\d{20})\.(?:json|checkpoint\..*parquet)")
"""A commit of the log, or a part of a checkpoint of it."""


def link_table(table: DeltaFiles, target: str, read: Sequence[TableFile], unread: Sequence[TableFile]) -> None:
    """Make the table of a fork in the folder `target`.

    Args:
        read: files that batches of the fork's checkpoint have read; those that are gone are left out.
        unread: files that the fork will read.

    Raises CheckpointError if one of them is not in the folder of the table, OSError.
    """
    own = f"{table.root.path.rstrip('/')}/"
    into = open_path(target)
    there = [file for file in read if is_file(Location(table.root.fs, file.path))]
    for file in (*there, *unread):
        if not file.path.startswith(own):
            raise _foreign(table.root, file)
        bring(Location(table.root.fs, file.path), into / file.path.removeprefix(own))
    for name in list_or_empty(table.root / LOG):
        if _VERSIONED.fullmatch(name):
            bring(table.root / LOG / name, into / LOG / name)


def _foreign(root: Location, file: TableFile) -> CheckpointError:
    return CheckpointError(
        f"the table names the data file {file.path}, which is not in its folder",
        expected="a table with all of its files in its own folder; a shallow clone has those of another one",
        where=root.path,
        next_step="drill a stream that reads a table of its own; or copy the table (`CREATE TABLE ... AS SELECT`)",
    )
