"""`savepoint restore` and `rewind`: put a stream back to a savepoint, or to an older batch of its own checkpoint."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.commands.state.savepoints import MaybeId, Named
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, say, text
from streamwarden.cli.session import AsJson, who, workspace
from streamwarden.units import format_count

if TYPE_CHECKING:
    from streamwarden.services.exchanges.exchanging import Exchanged
    from streamwarden.services.savepoints.previewing import Preview
    from streamwarden.services.savepoints.restoring import Request
    from streamwarden.services.workspace import Workspace
    from streamwarden.stream.spec import StreamSpec

Reason = Annotated[str, typer.Option(help="Why; the stream's history says so.", show_default="none")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
Confirm = Annotated[
    bool, typer.Option("--confirm", help="Go back although records of later batches stay in the stream's topic.")
]
Proven = Annotated[
    bool, typer.Option("--proof/--no-proof", help="Try it first: a fork's driver starts from it and commits a batch.")
]


def restore(
    context: typer.Context,
    stream: Named,
    savepoint: MaybeId = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    confirm: Confirm = False,
    proof: Proven = True,
    json: AsJson = False,
) -> int:
    """Put a stopped stream back to a savepoint: its checkpoint, and its output with it. Its next start goes on after
    the savepoint's batch.

    Nothing is deleted but rows of a table: the previous checkpoint and the data files of later batches are moved aside.
    The savepoint is verified and tried on a fork first. If the restore is killed, no driver is started until it is run
    again and completes.
    """
    from streamwarden.services.savepoints.previewing import preview_restore
    from streamwarden.services.savepoints.restoring import restore as put_back

    space = workspace(context)
    spec = space.query(stream)
    if dry_run:
        return _show_plan(preview_restore(spec, savepoint), json)
    request = _request(space, spec, reason, confirm, proof)
    return _show(put_back(space.store, spec, savepoint, request), json)


def rewind(
    context: typer.Context,
    stream: Named,
    to: Annotated[int | None, typer.Option(min=0, help="Batch to go back to.", show_default="none")] = None,
    to_time: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S"],
            help="Time to go back to: the newest batch that was planned then or before. Without an offset in this "
            "host's time zone.",
            show_default="none",
        ),
    ] = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    confirm: Confirm = False,
    proof: Proven = True,
    json: AsJson = False,
) -> int:
    """Put a stopped stream back to an older batch, which its checkpoint still keeps: takes a savepoint of that batch,
    and restores it.
    """
    from streamwarden.services.savepoints.previewing import preview_rewind
    from streamwarden.services.savepoints.rewinding import Target
    from streamwarden.services.savepoints.rewinding import rewind as put_back

    if (to is None) == (to_time is None):
        raise typer.BadParameter("name either a batch (--to) or a time (--to-time)")
    space = workspace(context)
    spec, target = space.query(stream), Target(batch=to, at=None if to_time is None else to_time.timestamp())
    if dry_run:
        return _show_plan(preview_rewind(spec, target), json)
    return _show(put_back(space.store, spec, target, _request(space, spec, reason, confirm, proof)), json)


def _request(space: Workspace, spec: StreamSpec, reason: str, confirmed: bool, proof: bool) -> Request:
    from streamwarden.services.savepoints.describing import Author
    from streamwarden.services.savepoints.proving import proof_on_fork
    from streamwarden.services.savepoints.restoring import Request

    prove = proof_on_fork(space.fleet, spec, who()) if proof else None
    return Request(author=Author(by=who(), reason=reason), confirmed=confirmed, prove=prove)


def _show(done: Exchanged, json: bool) -> int:
    if json:
        as_json(done)
        return Exit.OK
    made, again = done.exchange, ", which was interrupted before," if done.resumed else ""
    say(f"{text(made.stream)} is put back to {text(made.subject)}{again} and goes on after batch {made.batch}")
    say(f"  proof: {text(made.proof)}")
    say(f"  output: {text(done.output)}")
    say(f"  previous checkpoint: {text(done.aside or 'there was none')}")
    say(f"  next: streamwarden start {text(made.stream)}")
    return Exit.OK


def _show_plan(plan: Preview, json: bool) -> int:
    if json:
        as_json(plan)
        return Exit.OK
    say(f"{text(plan.stream)} would be put back to batch {plan.batch}; nothing was changed")
    say(f"  copied: {format_count(plan.files, 'file')}, linked where the disk allows it")
    say(f"  set aside: {text(plan.checkpoint)} as {text(plan.aside)}")
    say(f"  output: {text(plan.output)}")
    if plan.remains:
        say(f"  needs --confirm: {text(plan.remains)}")
    if plan.quarantined:
        say(f"  quarantine: the rows of {format_count(plan.quarantined, 'batch')} are moved aside")
    return Exit.OK
