"""`inspect`: what a checkpoint holds, without Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from streamwarden.cli.session import AsJson


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("inspect")(inspect)


def inspect(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="DIR|STREAM", help="A checkpoint (path or URL), or a stream's name.")
    ],
    json: AsJson = False,
) -> int:
    """Show a checkpoint: batches, offsets, watermark, state, damage and what Spark will do about it. Needs no Spark."""
    raise typer.Exit(0)
