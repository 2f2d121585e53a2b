"""The table of a fork: hard links of the origin's data files, or copies in an object store, under a log of its own.

The log of the fork begins with the origin's commits and checkpoints up to the version that has the batch of the fork.
One more commit gives the fork's query the number of that batch. What Delta then does in the fork's folder (compaction,
VACUUM) changes no file of the origin.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.delta.log import FORK, LOG, commit_name, commits
from streamwarden.adapters.delta.table import newest_batch, opened
from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.adapters.storage.moving import bring
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import list_or_empty
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.errors import CheckpointError
from streamwarden.sinks.delta.output import partitions_of
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from deltalake import DeltaTable

_VERSIONED: Final = re.compile(r"(\d{20})\.(?:json|checkpoint\..*parquet)")
"""A commit of the log, or a part of a checkpoint of it."""


def copy(origin: StreamSpec, forked: StreamSpec, *, rewind: int, query_id: str, upto: int | None = None) -> int:
    """Make the fork's table as of `rewind` batches before the newest one of its origin; see `Sink.copy`.

    Raises CheckpointError, OSError.
    """
    root = open_path(str(origin.sink.path), origin.storage.connection)
    target = open_path(str(forked.sink.path), forked.storage.connection)
    own = read_query_id(checkpoint_of(origin)) or ""
    table = opened(root.path, origin.storage.connection)
    written = None if table is None else newest_batch(table, own)
    newest = written if upto is None else upto
    if table is None or written is None or newest is None or not rewind <= newest <= written:
        beyond = f"none {rewind} before that" if upto is None else f"not yet batch {upto}"
        raise _no_batch(root, written, beyond)
    version = version_of(root, own, newest - rewind)
    as_of = opened(root.path, origin.storage.connection, version=version)
    assert as_of is not None  # it was opened above
    _require_own_files(as_of, root)
    for name in (*partitions_of(as_of, root.path), *_log_up_to(root, version)):
        bring(Location(root.fs, name), target / name.removeprefix(f"{root.path.rstrip('/')}/"))
    claim = [_info(own, newest - rewind), {"txn": {"appId": query_id, "version": newest - rewind}}]
    (target / LOG / commit_name(version + 1)).write("\n".join(map(json.dumps, claim)).encode())
    return newest


def version_of(root: Location, query_id: str, batch: int) -> int:
    """The newest version of the table that has the batch and none after it. Raises CheckpointError, OSError."""
    found: int | None = None
    for commit in commits(root):
        number = commit.batches.get(query_id)
        if number is not None and number > batch:
            break
        if number == batch or found is not None:
            found = commit.version
    if found is None:
        raise CheckpointError(
            f"the log of the table no longer has the commit of batch {batch}",
            expected="a batch that is younger than delta.logRetentionDuration",
            where=(root / LOG).path,
            next_step="fork at a newer batch (a smaller `rewind`), or from the beginning (`rewind: all`)",
        )
    return found


def _log_up_to(root: Location, version: int) -> Iterator[str]:
    for name in list_or_empty(root / LOG):
        match = _VERSIONED.fullmatch(name)
        if match is not None and int(match[1]) <= version:
            yield (root / LOG / name).path


def _require_own_files(table: DeltaTable, root: Location) -> None:
    """Raises CheckpointError if the table is itself a clone, or of a catalogue that commits for it."""
    prefix = f"{root.path.rstrip('/')}/"
    features = {*(table.protocol().writer_features or ())} & {"inCommitTimestamp", "catalogManaged", "v2Checkpoint"}
    foreign: Iterable[str] = (name for name in partitions_of(table, root.path) if not name.startswith(prefix))
    what = next((f"its log names {name}, which is not in its folder" for name in foreign), None)
    what = f"it has the feature {', '.join(sorted(features))}" if features else what
    if what is not None:
        raise CheckpointError(
            f"the table cannot be forked: {what}",
            expected="a table with all of its files in its own folder, whose log is its only record",
            where=root.path,
            next_step="fork from the beginning (`rewind: all`), which takes nothing of the table",
        )


def _info(query_id: str, batch: int) -> dict[str, object]:
    """What the history of the fork's table says of its first own commit."""
    made = {"operation": FORK, "operationParameters": {"queryId": query_id, "epochId": str(batch)}}
    return {"commitInfo": {"timestamp": int(time.time() * 1000), **made, "engineInfo": "streamwarden"}}


def _no_batch(root: Location, written: int | None, beyond: str) -> CheckpointError:
    none = "the query has written no batch to the table yet"
    return CheckpointError(
        none if written is None else f"the table has batches 0 to {written}, and {beyond}",
        expected="a batch to fork at",
        where=root.path,
        next_step="wait for the next batches, or fork from the beginning (`rewind: all`)",
    )
