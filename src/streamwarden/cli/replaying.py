"""`replay`: real flights as files, at a chosen speed-up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamwarden.cli.exits import Exit
from streamwarden.cli.output import as_json, say, text
from streamwarden.cli.session import AsJson, session


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("replay")(replay)


def replay(
    context: typer.Context,
    into: Annotated[
        str | None, typer.Argument(help="Folder to publish into, below the data folder unless absolute.")
    ] = None,
    stream: Annotated[str | None, typer.Option(help="Publish into the input folder of this stream.")] = None,
    speedup: Annotated[
        float | None, typer.Option(help="Event seconds a second.", show_default="as fast as possible")
    ] = None,
    rows_per_file: Annotated[int | None, typer.Option(help="Flights a file; fixed by the first replay.")] = None,
    limit: Annotated[
        int | None, typer.Option(help="Stop after the file that reaches this many flights.", show_default="all")
    ] = None,
    json: AsJson = False,
) -> int:
    """Publish the flights of 2013 as JSON files, in the order in which they really departed.

    A stream that reads flights and weather gets both, each in its folder. Each file appears whole. A replay that was
    interrupted goes on where it was.
    """
    from streamwarden.adapters.replay import ROWS_PER_FILE
    from streamwarden.adapters.replay import replay as publish

    folder, parts = _folder(context, into, stream)
    stats = publish(folder, parts=parts, speedup=speedup, rows_per_file=rows_per_file or ROWS_PER_FILE, limit=limit)
    if json:
        as_json(stats)
    else:
        weather = f", {stats.observations:,} observations of the weather" if parts else ""
        say(
            f"{stats.files_written} files written, {stats.files_skipped} were there; {stats.flights:,} flights, "
            f"{stats.cancelled:,} of them cancelled{weather}, into {text(folder)} in {stats.seconds:.1f} s"
        )
    return Exit.OK


def _folder(context: typer.Context, into: str | None, stream: str | None) -> tuple[Path, tuple[str, ...]]:
    from streamwarden.errors import ConfigError

    if (into is None) == (stream is None):
        raise typer.BadParameter("name either a folder or --stream", param_hint="INTO")
    if into is not None and Path(into).is_absolute():
        return Path(into), ()
    space = session(context).workspace
    if into is not None:
        return Path(space.locate(into)), ()
    source = space.stream(str(stream)).source
    path = source.path
    if path is None or "://" in path:
        raise ConfigError(
            f"the stream {stream!r} reads no local folder", expected="source.kind: files", next_step="name a folder"
        )
    return Path(path), source.parts
