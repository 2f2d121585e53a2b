"""Shared by the faults that change the files which a fork reads: its own links to them, which no other stream reads."""

from collections.abc import Sequence
from typing import Final, Protocol

from streamwarden.drills.faults.base import Fault
from streamwarden.drills.ports import Port
from streamwarden.drills.records.types import ForkView
from streamwarden.stream.spec import StreamSpec


class InputFiles(Protocol):
    """The files of the fork's own input. Raises DrillAborted for a fork that reads its origin's."""

    def files_of(self, fork: ForkView, batch: int) -> Sequence[str]:
        """The files that a planned batch reads, below the input."""

    def missing(self, fork: ForkView, batch: int) -> Sequence[str]:
        """Those of them that are not in the input."""

    def take_out(self, fork: ForkView, file: str) -> None:
        """Take one of them out of the input."""

    def put_back(self, fork: ForkView) -> bool:
        """Put back what was taken out; False: there is nothing. May run again."""

    def unread(self, fork: ForkView) -> Sequence[str]:
        """The files that no batch has planned, in the order in which Spark will read those of one folder."""

    def read_last(self, fork: ForkView, files: Sequence[str]) -> None:
        """Make these files the newest of the input, in this order."""

    def double(self, fork: ForkView, file: str) -> str:
        """Copy a file that was read under another name, so that it is read next; returns the copy's name. May run
        again."""

    def copies(self, fork: ForkView) -> Sequence[str]:
        """The copies that `double` has made."""


INPUTS: Final = Port[InputFiles]("the fork's own input files")


def require_files(fault: Fault, stream: str, declared: StreamSpec) -> None:
    """Raises DrillAborted for a stream that reads no files. The records of a topic are lost otherwise."""
    if declared.source.path is None or declared.source.TABLE:
        raise fault.not_applicable(
            stream,
            f"the source of {stream} is of the kind {declared.source.kind}, which reads no folder of files",
            expected="source.kind files",
            next_step="drill a stream that reads a topic with `retention_passed`, and one that reads a table with "
            "`kill_driver`",
        )
