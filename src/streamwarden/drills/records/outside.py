"""What the job of a fork or of its twins did outside of the drill's folder, and what that means for a verdict. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Final

_NAMED: Final = 3


class Trace(StrEnum):
    """Kind of a line in the record."""

    WATCHED = "watched"  # the first line of a driver
    FILE = "file"
    SERVER = "server"
    PROGRAM = "program"
    MISSED = "missed"  # an event that could not be recorded, after which the record proves nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Args:
    files: that the job wrote, renamed or removed; servers: that it connected to by itself; programs: that it started.
    recorded: a driver recorded all of it. It does not on another host, or where the record could not be written.
    changed: other files that are new, changed or gone since the drill began, by a listing, which does not say who wrote
        them; beside: the streams whose drivers ran meanwhile; commands: of the drill's file, which ran, too.
    listed: the files of a listing that was cut off; None: it had all.
    """

    files: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    recorded: bool = True
    changed: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    listed: int | None = None

    @property
    def state(self) -> tuple[str, ...]:
        """The files in which it may keep something from one start to the next. In a hidden folder, libraries keep what
        they can compute again."""
        return tuple(file for file in self.files if not any(part.startswith(".") for part in PurePath(file).parts[:-1]))

    @property
    def unprovable(self) -> str | None:
        """Why exactly-once cannot be proven; None: nothing speaks against it."""
        if not self.state:
            return self._changed
        return (
            f"exactly-once cannot be proven: the job wrote {_some(self.state)}, outside of the drill's folder; fork "
            "and twin share this, so that a loss that it causes is in both. Let the job name relative paths, which "
            "lead into the drill's folder, or keep its state in Spark"
        )

    @property
    def _changed(self) -> str | None:
        if not self.changed or self._others:
            return None
        return (
            f"exactly-once cannot be proven: {_some(self.changed)} changed outside of the drill's folder while it ran, "
            "and no other driver ran: if the job wrote this (in a worker, a library or a program), fork and twin "
            "share it, so that a loss that it causes is in both. Let the job keep its state in Spark, or let nothing "
            "else write there during a drill"
        )

    @property
    def _others(self) -> str:
        """What else may have written the changed files."""
        drivers = [f"the drivers of {_some(self.beside)}"] if self.beside else []
        return " and ".join([*drivers, *(["the drill's own commands"] if self.commands else [])])

    def unproven(self) -> Iterator[str]:
        """What no comparison shows, each in words."""
        others = tuple(file for file in self.files if file not in self.state)
        if others:
            yield f"not compared: what the job wrote to {_some(others)}"
        if self.servers:
            yield f"not compared: what the job sent to or read from {_some(self.servers)} by itself"
        if self.programs:
            yield f"not compared: what the programs that the job started did ({_some(self.programs)})"
        if not self.recorded:
            yield "not compared: what the job did outside of the drill's folder, which was not recorded"
        if self.changed and self._others:
            yield (
                f"not compared: {_some(self.changed)}, which changed outside of the drill's folder while it ran; the "
                f"writer is not known, since {self._others} ran, too"
            )
        if self.listed is not None:
            yield f"not compared: the files around the drill beyond the first {self.listed:,}"


def _some(names: tuple[str, ...]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
