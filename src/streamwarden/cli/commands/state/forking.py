"""`savepoint fork`: runs a copy of a stream from a savepoint."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.commands.state.savepoints import MaybeId, Named
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.exit_report import report_exit
from streamwarden.cli.output import say, text
from streamwarden.cli.session import who, workspace
from streamwarden.units import format_count, format_size

if TYPE_CHECKING:
    from streamwarden.lifecycle.forks.fork import Fork
    from streamwarden.services.workspace import Workspace


def fork(
    context: typer.Context,
    stream: Named,
    into: Annotated[
        Path, typer.Option(help="Folder that gets the fork: absent or empty, on a disk with room for the output.")
    ],
    savepoint: MaybeId = None,
    run: Annotated[
        bool, typer.Option("--run/--no-run", help="Start the fork's driver, and wait until it has read the input.")
    ] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be forked, and copy nothing.")] = False,
) -> int:
    """Fork a stream from a savepoint: a copy that continues after the savepoint's batch, beside the stream, which is
    not touched. It proves that the savepoint opens.

    The fork has its own checkpoint, input and output in the folder, and runs the job as it is now. It ends when it has
    read the input that is there. The savepoint is verified first. Exit code 1 if the fork's driver failed.
    """
    from streamwarden.services.savepoints.forking import fork_from, require_forkable
    from streamwarden.services.savepoints.saved import Savepoints

    space = workspace(context)
    spec = space.query(stream)
    saved = Savepoints.of(spec).get(savepoint)
    if dry_run:
        require_forkable(spec, into.absolute())
        held = f"{format_count(len(saved.files), 'file')}, {format_size(saved.bytes)}"
        then = "and run until it has read the input" if run else "and not be run"
        say(f"{text(saved.id)}, after batch {saved.batch} ({held}), would be verified, copied to {text(into)}, {then}")
        return Exit.OK
    made = fork_from(spec, saved, into.absolute())
    say(
        f"{text(stream)} is forked from {text(saved.id)}, after batch {saved.batch}, into {text(into)}; "
        f"{format_count(made.unseen or 0, made.what)} to read"
    )
    return _run(space, made) if run else Exit.OK


def _run(space: Workspace, made: Fork) -> int:
    """Run the fork's driver to its end, and say how far it came."""
    from streamwarden.adapters.storage.files import checkpoint_of
    from streamwarden.checkpoint.formats.logs import log_position

    record = space.fleet.start(made.spec, launched_by=who()).record
    say(f"  driver {text(record.driver_id)}, log: {text(space.fleet.log_path(record.driver_id))}")
    try:
        ended = space.fleet.wait(record.driver_id, timeout=math.inf)
    except KeyboardInterrupt:
        space.fleet.request_stop(made.spec.name, requested_by=who(), reason="Ctrl-C of savepoint fork")
        raise
    committed = log_position(checkpoint_of(made.spec)).committed
    say(f"  committed batch {committed}; its output is {text(made.spec.sink.place)}")
    return report_exit(ended)
