"""`store migrate`, `store prune`, `sweep`: the housekeeping of the progress store and of the data folder."""

import time
from typing import Annotated

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, say, text
from streamwarden.cli.session import AsJson, duration, workspace

app = typer.Typer(no_args_is_help=True, help="Housekeeping of the progress store.")


@app.command("migrate")
def migrate(context: typer.Context) -> int:
    """Migrate the store to this version's tables. Every other command does the same if it is necessary."""
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
    gone = workspace(context).store.prune(time.time(), keep=duration(keep, "--keep"))
    if json:
        as_json(gone)
    else:
        say(
            f"{gone.rolled_up} hours rolled up; removed {gone.batches} batches, {gone.measurements} measurements, "
            f"{gone.verdict_changes} verdicts, {gone.hourly} hourly rows, {gone.mutes} mutes"
        )
    return Exit.OK


def sweep(
    context: typer.Context,
    keep: Annotated[
        str, typer.Option(metavar="DURATION", help="Age up to which a drill's folder is kept.")
    ] = "30 days",
) -> int:
    """Remove the folders of old drills and of their forks' drivers, what killed audits left, what drivers left whose
    host died, and what people asked of a state long ago: looks, and changes that nobody carried out.

    The drills' journals stay in the store, and the evidence of audits stays.
    """
    from streamwarden.services.housekeeping import sweep as sweep_folders

    seconds = duration(keep, "--keep")
    place = workspace(context)
    gone = sweep_folders(place.store, place.data, time.time(), keep=seconds)
    say(
        f"removed {gone.drills} folders of drills, {gone.fork_drivers} of their forks' drivers, {gone.drivers} of old "
        f"drivers and {gone.audits} of killed audits, {gone.looks} looks at state, and {gone.changes} changes of a "
        "state that nobody carried out"
    )
    return Exit.OK
