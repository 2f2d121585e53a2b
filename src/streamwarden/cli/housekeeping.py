"""`store migrate`, `store prune`: the housekeeping of the progress store."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from streamwarden.cli.exits import Exit
from streamwarden.cli.output import as_json, say, text
from streamwarden.cli.session import AsJson, workspace

app = typer.Typer(no_args_is_help=True, help="Housekeeping of the progress store.")


@app.command("migrate")
def migrate(context: typer.Context) -> int:
    """Bring the store to this version's tables; every other command does it too, where it must."""
    store = workspace(context).store
    say(f"the store is up to date: {text(store.where)}")
    return Exit.OK


@app.command("prune")
def prune(
    context: typer.Context,
    keep: Annotated[str, typer.Option(metavar="DURATION", help="Age up to which single batches are kept.")] = "7 days",
    json: AsJson = False,
) -> int:
    """Roll old batches up into hourly numbers and remove them. Checkpoints and drivers are never touched."""
    from streamwarden.units import parse_duration

    try:
        seconds = parse_duration(keep)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--keep") from None
    gone = workspace(context).store.prune(time.time(), keep=seconds)
    if json:
        as_json(gone)
    else:
        say(
            f"{gone.rolled_up} hours rolled up; removed {gone.batches} batches, {gone.measurements} measurements, "
            f"{gone.verdict_changes} verdicts, {gone.hourly} hourly rows"
        )
    return Exit.OK
