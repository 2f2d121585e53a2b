"""`upgrade`: tries a new version of a stream's job on forks, and switches the stream to it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, say, text
from streamwarden.cli.session import AsJson, StreamName, duration, who, workspace

if TYPE_CHECKING:
    from streamwarden.lifecycle.upgrades.journal import Upgrade
    from streamwarden.lifecycle.upgrades.preflight import Obstacle, Preflight
    from streamwarden.services.upgrades.live import LiveStream
    from streamwarden.services.upgrades.proposal import Proposal
    from streamwarden.services.workspace import Workspace
    from streamwarden.stream.spec import StreamSpec


def upgrade(
    context: typer.Context,
    stream: StreamName,
    job: Annotated[Path | None, typer.Option(help="The new version: a file of the project.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="The new text of the stream's file, for more than another job.")
    ] = None,
    preflight: Annotated[
        bool, typer.Option("--preflight", "--dry-run", help="Try the new version on forks, and change nothing.")
    ] = False,
    batches: Annotated[
        int, typer.Option(min=1, help="How many of the newest batches both versions execute on forks.")
    ] = 5,
    accept: Annotated[
        bool,
        typer.Option("--accept-difference", help="Go on although the output, or what the preflight names, differs."),
    ] = False,
    beside: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Run the new version beside the old one for so long, on each batch that the stream commits, then let "
            "it take over with the state that it has.",
        ),
    ] = None,
    watch: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the new version is watched before it counts as well.")
    ] = "5 minutes",
    rollback: Annotated[
        bool, typer.Option("--rollback/--no-rollback", help="Go back by itself if the new version fails.")
    ] = True,
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")] = "no reason given",
    json: AsJson = False,
) -> int:
    """Upgrade a stream to a new version of its job, with a way back.

    First the new version is tried on forks, from the stream's own state: whether Spark accepts it, what changes of the
    state, and which rows it writes otherwise than the old version. A difference is refused unless you accept it. Then
    the stream is stopped at a batch boundary, a savepoint is taken, its file names the new job, it is started and
    watched. With --beside the new version first runs beside the old one for a while, and takes over with its own state.
    If its driver fails or a check turns CRITICAL, the savepoint is restored and the old version goes on.

    Without a job, an upgrade that was interrupted is completed, or taken back. Exit code 1 if it is refused, or taken
    back.
    """
    from streamwarden.services.upgrades.upgrading import Order, resumed, tried, upgraded

    space = workspace(context)
    spec = space.stream(stream)
    limit = duration(watch, "--watch")
    follows = None if beside is None else duration(beside, "--beside")
    if job is None and file is None:
        return _report(resumed(space.store, _live(space, spec, json), spec), json)
    proposal = _proposal(space, spec, job, file)
    if preflight:
        return _report_preflight(*tried(proposal, batches), accept, json)
    order = Order(
        by=who(), reason=reason, batches=batches, accepted=accept, watch=limit, rollback=rollback, beside=follows
    )
    show = (lambda found, folder: None) if json else show_preflight
    ended = upgraded(space.store, _live(space, spec, json), proposal, order, show)
    if isinstance(ended, tuple):
        return _refuse(ended, json)
    return _report(ended, json)


def _proposal(space: Workspace, spec: StreamSpec, job: Path | None, file: Path | None) -> Proposal:
    from streamwarden.services.upgrades.proposal import propose

    if job is not None and file is not None:
        raise typer.BadParameter("name one of --job and --file", param_hint="--file")
    return propose(spec, job, file, space.thresholds())


def _live(space: Workspace, spec: StreamSpec, json: bool) -> LiveStream:
    from streamwarden.services.upgrades.live import LiveStream

    return LiveStream(
        store=space.store,
        fleet=space.fleet,
        monitor=space.health_monitor(),
        declared=partial(space.stream, spec.name),
        by=who(),
        say=(lambda seen: None) if json else (lambda seen: say(f"  {text(seen)}")),
    )


def _report_preflight(found: Preflight, folder: Path, accepted: bool, json: bool) -> int:
    from dataclasses import asdict

    from streamwarden.lifecycle.upgrades.preflight import obstacles

    standing = obstacles(found, accepted)
    if json:
        as_json(asdict(found) | {"obstacles": [asdict(each) for each in standing], "folder": str(folder)})
        return Exit.BAD if standing else Exit.OK
    show_preflight(found, folder)
    return _refuse(standing, json) if standing else Exit.OK


def show_preflight(found: Preflight, folder: Path) -> None:
    """Print what the preflight found."""
    from streamwarden.lifecycle.upgrades.report import report

    for line in report(found):
        say(f"[yellow]{text(line.text)}[/]" if line.warns else text(line.text))
        for row in line.rows:
            say(f"    {text(row)}")
    say(f"  logs and report: {text(folder)}")


def _refuse(standing: tuple[Obstacle, ...], json: bool) -> int:
    if json:
        from dataclasses import asdict

        as_json({"refused": [asdict(each) for each in standing]})
        return Exit.BAD
    say("[bold red]not upgraded[/]; nothing was changed:")
    for each in standing:
        say(f"  {text(each.observed)}\n    next: {text(each.next_step)}")
    return Exit.BAD


def _report(ended: Upgrade, json: bool) -> int:
    from streamwarden.lifecycle.upgrades.journal import Step

    well = ended.step is Step.DONE
    if json:
        as_json(ended)
    elif well:
        say(f"[green]upgraded[/]: {text(ended.stream)} runs {text(ended.after)}: {text(ended.why)}")
        say(f"  the way back: savepoint {text(ended.savepoint)}, batch {ended.batch}")
    else:
        say(f"[bold red]not upgraded[/]: {text(ended.stream)} runs {text(ended.before)} again: {text(ended.why)}")
    return Exit.OK if well else Exit.BAD
