"""The data files of a Delta table in the order in which Delta's streaming source reads them (4.4.0).

A new query begins with all files of the table as of a version, ordered by modification time and path; then come the
files that each later commit adds, in the order of the commit. A compaction adds files without new rows (`dataChange` is
false), which are not read. The index of an offset counts within a version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streamwarden.adapters.delta.log import LOG, commit_name, path_of, versions
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import is_file
from streamwarden.checkpoint.table_offsets import BEFORE_FIRST, DeltaOffset
from streamwarden.errors import CheckpointError
from streamwarden.sources.tables.source import TableFile

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaFiles:
    """The files of one table.

    Args:
        connection: to the object store that the table is in.
        starting: the version whose commit a new query reads first; None: it begins with the whole table.
        skips_changes: whether commits that change or delete rows are left out (`skipChangeCommits`).
    """

    root: Location
    connection: str | None
    starting: int | None = None
    skips_changes: bool = False
    _snapshots: dict[int, list[TableFile]] = field(default_factory=dict, repr=False, compare=False)

    def between(self, start: DeltaOffset | None, end: DeltaOffset) -> list[TableFile]:
        """The files that a batch with these offsets reads. Raises CheckpointError if the log does not say, OSError."""
        first = start or self.beginning(end)
        if first.snapshot and end.snapshot:
            return self.of_snapshot(first.version)[first.index + 1 : end.index + 1]
        files = self.of_snapshot(first.version)[first.index + 1 :] if first.snapshot else []
        following = first.version + 1 if first.snapshot else first.version
        for version in range(following, end.version + 1):
            low = first.index + 1 if version == first.version and not first.snapshot else 0
            if version < end.version:
                files += self.added_by(version)[low:]
            elif end.index != BEFORE_FIRST:  # otherwise its commit may not be there yet
                files += self.added_by(version)[low : end.index + 1]
        return files

    def beginning(self, end: DeltaOffset) -> DeltaOffset:
        """Where a query begins whose first batch has this end. If that is behind the table as of a version, Delta takes
        the version before the end's: the rows are the same."""
        if self.starting is not None:
            return DeltaOffset(self.starting, BEFORE_FIRST, False, end.table)
        version = end.version if end.snapshot else end.version - 1
        return DeltaOffset(version, BEFORE_FIRST, True, end.table)

    def added_by(self, version: int) -> list[TableFile]:
        """The files that a commit adds, with new rows. Raises CheckpointError if it is not in the log, OSError."""
        actions = list(self._actions(version))
        at = next((info.get("timestamp", 0) for action in actions if (info := action.get("commitInfo"))), 0) / 1000
        changes = any(action["remove"].get("dataChange") for action in actions if "remove" in action)
        if changes and self.skips_changes:
            return []
        added = (action["add"] for action in actions if "add" in action)
        return [self._file(add, at) for add in added if add.get("dataChange")]

    def removed_after(self, version: int, newest: int) -> set[str]:
        """The files that the commits from a version on remove: VACUUM deletes no others."""
        return {
            path_of(action["remove"]["path"], self.root.path)
            for later in range(version, newest + 1)
            for action in self._actions(later)
            if "remove" in action
        }

    def of_snapshot(self, version: int) -> list[TableFile]:
        """All files of the table as of a version, in Delta's order. Raises CheckpointError."""
        if version not in self._snapshots:
            self._snapshots[version] = list(self._listed(version))
        return self._snapshots[version]

    def _listed(self, version: int) -> Iterator[TableFile]:
        import pyarrow as pa

        listed = pa.table(self.as_of(version).get_add_actions(flatten=False)).to_pylist()
        listed.sort(key=lambda add: (add["modification_time"], add["path"]))
        for add in listed:
            yield TableFile(
                path=path_of(add["path"], self.root.path),
                size=add["size_bytes"],
                at=add["modification_time"] / 1000,
                partition={name: _text(value) for name, value in (add.get("partition") or {}).items()},
            )

    def as_of(self, version: int | None = None) -> DeltaTable:
        """The table as delta-rs reads it. Raises CheckpointError if it is not there, or the log lacks the version."""
        from streamwarden.adapters.delta.table import opened

        table = opened(self.root.path, self.connection, version=version)
        if table is None:
            raise CheckpointError(
                "there is no Delta table",
                expected="a folder with a log in _delta_log",
                where=self.root.path,
                next_step="correct `source.path`, or let its writer commit first",
            )
        return table

    def newest(self) -> int | None:
        """The newest version in the log; None: there is no table yet. Raises OSError."""
        return max(versions(self.root), default=None)

    def lost(self, files: Sequence[TableFile], first: int, newest: int) -> list[TableFile]:
        """Those of the files, of versions from `first` on, that are no longer on the storage. Raises OSError."""
        removed = self.removed_after(first, newest)
        return [file for file in files if file.path in removed and not is_file(Location(self.root.fs, file.path))]

    def _file(self, add: dict[str, Any], at: float) -> TableFile:
        values = add.get("partitionValues") or {}
        return TableFile(
            path=path_of(add["path"], self.root.path), size=int(add.get("size", 0)), at=at, partition=dict(values)
        )

    def _actions(self, version: int) -> Iterator[dict[str, Any]]:
        file = self.root / LOG / commit_name(version)
        try:
            yield from map(json.loads, file.read().decode().splitlines())
        except FileNotFoundError as error:
            raise CheckpointError(
                f"the log of the table no longer has version {version}",
                expected="the commit of each version that the query has yet to read, or that is to be read again",
                where=file.path,
                next_step="raise delta.logRetentionDuration of the table",
            ) from error
        except ValueError as error:
            raise CheckpointError(
                f"a commit of the Delta table cannot be understood: {error}",
                expected="JSON objects, one a line, each an action of Delta's protocol",
                where=file.path,
                next_step="restore the file",
            ) from error


def _text(value: object) -> str | None:
    """A partition's value as the log writes it."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
