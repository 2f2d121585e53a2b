"""`prepare` and `sweep`: the housekeeping of a host."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from streamwarden.cli.exits import Exit
from streamwarden.cli.output import say
from streamwarden.cli.session import workspace


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("prepare")(prepare)
    app.command("sweep")(sweep)


def prepare(
    again: Annotated[bool, typer.Option("--again", help="Make the archive anew although there is one.")] = False,
) -> int:
    """Archive the classes that drivers load, so that each start on this host takes less time.

    Once for each Java and Spark; `make setup` does it. It runs a small stream of its own and takes about half a minute.
    """
    from streamwarden.adapters import class_archive
    from streamwarden.adapters.java import find_java

    java = find_java()
    there = class_archive.find(java)
    if there is not None and not again:
        say(f"already there: {there}")
        return Exit.OK
    archive = class_archive.make(java)
    say(f"archived {archive.stat().st_size / 1e6:.0f} MB of classes: {archive}")
    return Exit.OK


def sweep(
    context: typer.Context,
    keep: Annotated[str, typer.Option(metavar="DURATION", help="Age up to which a drill's folder stays.")] = "30 days",
) -> int:
    """Remove the folders of old drills and of their forks' drivers. What the drills found stays in the store."""
    from streamwarden.adapters.sweep import sweep as sweep_folders
    from streamwarden.units import parse_duration

    try:
        seconds = parse_duration(keep)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--keep") from None
    place = workspace(context)
    gone = sweep_folders(place.store, place.data, time.time(), keep=seconds)
    say(f"removed {gone.drills} folders of drills and {gone.fork_drivers} of their forks' drivers")
    return Exit.OK
