"""`savepoint restore`: puts a stream back to a savepoint."""

from __future__ import annotations

from typing import Annotated

import typer

from streamwarden.cli.commands.state.savepoints import MaybeId, Named
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, say, text
from streamwarden.cli.session import AsJson, who, workspace


def restore(
    context: typer.Context,
    stream: Named,
    savepoint: MaybeId = None,
    reason: Annotated[str, typer.Option(help="Why; the stream's history says so.", show_default="none")] = "",
    json: AsJson = False,
) -> int:
    """Put a stopped stream back to a savepoint: its checkpoint, and its output with it. Its next start goes on after
    the savepoint's batch.

    Nothing is deleted but rows of a table: the previous checkpoint and the data files of later batches are moved aside.
    The savepoint is verified first. If the restore is killed, no driver is started until it is run again and completes.
    """
    from streamwarden.services.savepoints.describing import Author
    from streamwarden.services.savepoints.restoring import restore as put_back

    space = workspace(context)
    done = put_back(space.store, space.query(stream), savepoint, Author(by=who(), reason=reason))
    if json:
        as_json(done)
        return Exit.OK
    made, again = done.exchange, ", which was interrupted before," if done.resumed else ""
    say(f"{text(stream)} is put back to {text(made.subject)}{again} and goes on after batch {made.batch}")
    say(f"  output: {text(done.output)}")
    say(f"  previous checkpoint: {text(done.aside or 'there was none')}")
    say(f"  next: streamwarden start {text(stream)}")
    return Exit.OK
