"""Another program that writes a stream's Delta table: delta-rs. For drills; nothing of it changes a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from streamwarden.adapters.delta.log import LOG, Commit, commits, hinted, versions
from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.drills.tables import BatchCommit, Removed
from streamwarden.errors import DrillError
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from deltalake import DeltaTable

T = TypeVar("T")

_VERSIONED: Final = re.compile(r"(\d{20})\..+")
"""A file of the log that belongs to one version."""


class DeltaWriter:
    """Implements `OtherWriter` for a table on this host."""

    def __init__(self, spec: StreamSpec) -> None:
        self._spec = spec
        self._root = open_path(str(spec.sink.path))

    def newest(self) -> str | None:
        known = versions(self._root)
        return str(known[-1]) if known else None

    def commit(self) -> bool:
        """A commit that adds and removes no file."""
        return self._try(_commit_nothing) is not None

    def compact(self) -> bool:
        return bool(self._try(lambda table: table.optimize.compact()["numFilesAdded"]))

    def commit_of(self, batch: int, since: str | None) -> BatchCommit | None:
        query = read_query_id(checkpoint_of(self._spec)) or ""
        for commit in commits(self._root, newest_first=True):
            number = commit.batches.get(query)
            if number == batch:
                return self._made(commit, query, since)
            if number is not None and number < batch:
                return None
        return None

    def _made(self, own: Commit, query: str, since: str | None) -> BatchCommit:
        read = own.read if own.read is not None else int(since or -1)
        between = (commit for commit in commits(self._root) if read < commit.version < own.version)
        others = tuple(str(commit.version) for commit in between if query not in commit.batches)
        return BatchCommit(read=str(read), made=str(own.version), others=others)

    def clean(self) -> Removed:
        """VACUUM with a retention of 0, a checkpoint of the log, and none of the commits before it."""
        return self._try(self._clean) or Removed(data=(), log=(), versions=())

    def _clean(self, table: DeltaTable) -> Removed:
        data = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
        table.create_checkpoint()
        old = [file for file in sorted(self._log.iterdir()) if _is_before(file.name, table.version())]
        for file in old:
            file.unlink()
        gone = tuple(str(int(file.name[:20])) for file in old if file.suffix == ".json")
        return Removed(data=tuple(data), log=tuple(file.name for file in old), versions=gone)

    def lose_log_file(self) -> str | None:
        """The checkpoint of the log that `_last_checkpoint` names; it is made if there is none."""
        known = versions(self._root)
        if not known or known != list(range(len(known))):
            return None
        if hinted(self._root) is None:
            self._try(lambda table: table.create_checkpoint())
        name = hinted(self._root)
        for file in () if name is None else (*self._log.glob(f"{name}*"), *self._log.glob(f".{name}*")):
            file.unlink()
        return None if name is None else f"{LOG}/{name}parquet"

    def add_column(self, name: str) -> bool:
        from deltalake import Field
        from deltalake.schema import PrimitiveType

        def add(table: DeltaTable) -> bool:
            table.alter.add_columns([Field(name, PrimitiveType("string"))])
            return True

        return self._try(add) is not None

    def columns(self) -> Sequence[str]:
        return self._try(lambda table: [field.name for field in table.schema().fields]) or []

    @property
    def _log(self) -> Path:
        return Path(self._root.path) / LOG

    def _try(self, act: Callable[[DeltaTable], T]) -> T | None:
        """Act on the newest version; None: there is no table yet, or another writer was faster. Raises DrillError."""
        from deltalake import DeltaTable
        from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

        try:
            return act(DeltaTable(self._root.path))
        except (CommitFailedError, TableNotFoundError):
            return None
        except (DeltaError, OSError, ValueError) as error:
            raise DrillError(
                f"the Delta table cannot be written: {' '.join(str(error).split())[:300]}",
                expected="a table that delta-rs can write",
                where=self._root.path,
                next_step="check the disk; if delta-rs lacks a feature of the table, choose another fault",
            ) from error


def _commit_nothing(table: DeltaTable) -> bool:
    table.create_write_transaction([], "append", table.schema())
    return True


def _is_before(name: str, version: int) -> bool:
    """Whether a file of the log belongs to a version before this one."""
    match = _VERSIONED.fullmatch(name.removeprefix("."))
    return match is not None and int(match[1]) < version
