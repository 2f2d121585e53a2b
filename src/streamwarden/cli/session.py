"""Shared by the commands: the workspace of the global options, and the name of the user."""

import getpass
import os
import socket
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Annotated

import typer

from streamwarden.services.workspace import Workspace


@dataclass(frozen=True)
class CliSession:
    """One run of the command line."""

    project: str | None
    data: str | None
    store_url: str | None
    local_data: str | None = None

    @cached_property
    def workspace(self) -> Workspace:
        """Opened at its first use: `--help` and `replay` need no project."""
        return Workspace.open(self.project, self.data, self.store_url, local_data=self.local_data)

    def close(self) -> None:
        opened = self.__dict__.get("workspace")
        if opened is not None:
            opened.close()


def session(context: typer.Context) -> CliSession:
    """The session of this run."""
    options = context.find_object(CliSession)
    if options is None:
        raise RuntimeError("a command ran outside the application")
    return options


def workspace(context: typer.Context) -> Workspace:
    """The workspace of this run. Raises ConfigError if there is none."""
    return session(context).workspace


def who() -> str:
    """`name@host (command line)`: the user of this command, as records keep it."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # no entry for this user id
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()} (command line)"


def duration(given: str, option: str) -> float:
    """Seconds in the value of an option. Raises BadParameter."""
    from streamwarden.units import parse_duration

    try:
        return parse_duration(given)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def moment(given: str, option: str) -> float:
    """Unix seconds of the date and time in the value of an option, in this host's time zone unless it names another.

    Raises BadParameter.
    """
    try:
        return datetime.fromisoformat(given).timestamp()
    except (ValueError, OverflowError, OSError):
        allowed = "a date and a time such as 2026-11-24 08:00 or 2026-11-24T08:00+01:00"
        raise typer.BadParameter(f"{given!r} is not {allowed}", param_hint=option) from None


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]
StreamName = Annotated[str, typer.Argument(metavar="STREAM", help="Name of a stream: the stem of its YAML file.")]
MaybeQuery = Annotated[
    str | None,
    typer.Argument(metavar="STREAM", help="Only this stream. STREAM/QUERY: only this query of a script with several."),
]
MaybeStream = Annotated[str | None, typer.Argument(metavar="STREAM", help="Only this stream.")]
