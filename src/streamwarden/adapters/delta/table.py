"""Opens the Delta table of a stream's sink with delta-rs, without Spark: its rows' files, and the newest batch of a
query, also after Delta has removed the commits from the log."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from streamwarden.adapters.delta.log import LOG, commit_name, is_hint_stale, versions
from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.storage.object_stores import REGION, access
from streamwarden.errors import CheckpointError
from streamwarden.stream.spec import OBJECT_STORE

if TYPE_CHECKING:
    from deltalake import DeltaTable


def opened(
    path: str, connection: str | None, *, version: int | None = None, environ: Mapping[str, str] | None = None
) -> DeltaTable | None:
    """The table in the folder `path`, to read it; None if there is none yet.

    `_last_checkpoint` may name a checkpoint of the log that is lost. Spark then reads the commits, and delta-rs fails:
    it gets a copy of the log without that file.

    Args:
        connection: to the object store that it is in; environ: has its variables.
        version: the table as of it; None: as of the newest one.

    Raises CheckpointError if the log is damaged or the storage does not answer, MissingExtra without delta-rs.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        options = storage_options(path, connection, environ)
        return DeltaTable(path, version=version, storage_options=options)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        copied = _without_hint(path, connection, version)
        if copied is not None:
            return copied
        raise CheckpointError(
            f"the Delta table cannot be read: {' '.join(str(error).split())[:300]}",
            expected="a log whose commits follow each other without a gap, and a storage that answers",
            where=path,
            next_step="check the storage and the connection to it; restore what is missing of _delta_log",
        ) from error


def _without_hint(path: str, connection: str | None, version: int | None) -> DeltaTable | None:
    """The table by its commits, if the checkpoint that `_last_checkpoint` names is lost and all commits are there."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    root = open_path(path, connection)
    try:
        known = versions(root)
        if not is_hint_stale(root) or known != list(range(len(known))):
            return None
        folder = TemporaryDirectory(prefix="streamwarden-delta-")
        log = Path(folder.name) / LOG
        log.mkdir()
        for number in known:
            (log / commit_name(number)).write_bytes((root / LOG / commit_name(number)).read())
        table = DeltaTable(folder.name, version=version)
    except (DeltaError, OSError, ValueError):
        return None
    weakref.finalize(table, folder.cleanup)
    return table


def newest_batch(table: DeltaTable, query_id: str | None) -> int | None:
    """The newest batch of a query in the table; None if it has none."""
    return None if query_id is None else table.transaction_version(query_id)


def storage_options(path: str, connection: str | None, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """How delta-rs reaches an object store; nothing for a folder of this host. Raises ConfigError."""
    if not OBJECT_STORE.match(path):
        return {}
    known = access(connection, environ)
    options = {
        "aws_access_key_id": known.key,
        "aws_secret_access_key": known.secret,
        "aws_session_token": known.token,
        "aws_region": known.region or (REGION if known.endpoint else None),
        "aws_endpoint": known.endpoint,
        "aws_virtual_hosted_style_request": str(not known.path_style).lower(),
        "allow_http": "true" if (known.endpoint or "").startswith("http://") else None,
    }
    return {name: value for name, value in options.items() if value is not None}
