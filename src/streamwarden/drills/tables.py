"""What a drill does to the table that a fork's sink writes, as another program that writes it too: the interface that
each kind of sink with a table implements without Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

ADDED_COLUMN: Final = "streamwarden_drill"
"""The column of strings that a drill adds to a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommit:
    """How the commit of a batch stands in the history of a table. Versions are named as the table names them.

    Args:
        read: the version that the batch's writer had read, or that was the newest when the batch was planned.
        made: the version that the batch's commit made.
        others: versions of other writers between the two, oldest first.
    """

    read: str
    made: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What a maintenance has removed from the folder of a table, as names of files.

    Args:
        data: data files; log: files of the log or of the metadata.
        versions: the versions, or snapshots, that can no longer be read.
    """

    data: tuple[str, ...]
    log: tuple[str, ...]
    versions: tuple[str, ...]


class OtherWriter(Protocol):
    """Another program that writes a table. No method changes a row. Each raises DrillError if the table cannot be read
    or written; a table that no batch has made yet has no version."""

    def newest(self) -> str | None:
        """The newest version; None: there is no table yet."""

    def commit(self) -> bool:
        """Commit once, without a row. False: another writer was faster, or there is no table yet."""

    def compact(self) -> bool:
        """Write the rows of several data files into fewer. False: there was nothing to compact, or another writer was
        faster."""

    def commit_of(self, batch: int, since: str | None) -> BatchCommit | None:
        """The commit of a batch of the fork's query; None: the table does not have it.

        Args:
            since: the newest version when the batch was planned.
        """

    def clean(self) -> Removed:
        """Remove what only older versions need, at once: a maintenance whose retention is 0. No batch may be being
        written. What belongs to the origin of a fork stays."""

    def lose_log_file(self) -> str | None:
        """Delete the file that tells a reader where in the log to begin; its name. None: the log cannot be read without
        it, so nothing was deleted."""

    def add_column(self, name: str) -> bool:
        """Add a column of strings, in which every row has null. False: another writer was faster, or there is no table
        yet."""

    def columns(self) -> Sequence[str]:
        """The columns of the newest version."""
