"""`mute`, `unmute`, `mutes`, `maintenance plan`, …: for a time, nothing is sent of some streams."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from streamwarden.cli.commands.health.incidents import SHORT_ID
from streamwarden.cli.commands.streams.streams import Reason
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import clock
from streamwarden.cli.output import as_json, say, table, text
from streamwarden.cli.session import AsJson, duration, moment, who, workspace
from streamwarden.health.incidents.mutes import Mute
from streamwarden.services.workspace import Workspace

app = typer.Typer(no_args_is_help=True, help="Maintenance windows: mutes that are planned.")

Why = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded and shown.")]
For = Annotated[str | None, typer.Option("--for", metavar="DURATION", help="How long, such as `2h`.")]
Until = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Until when instead, such as `2026-11-24 08:00`, in this host's time zone."),
]
Over = Annotated[bool, typer.Option("--all", help="Show those that are over too.")]


def mute(
    context: typer.Context,
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="A stream with all its queries; STREAM/QUERY: one query of several.")
    ],
    reason: Why,
    check: Annotated[
        list[str] | None,
        typer.Option(metavar="CHECK", help="Only this check; may be repeated.", show_default="every check"),
    ] = None,
    span: For = None,
    until: Until = None,
    json: AsJson = False,
) -> int:
    """Send nothing of a stream for a time. Its incidents are still opened and shown, marked as muted.

    What is still open at the end is sent then. Give `--for` or `--until`.
    """
    from streamwarden.services.incidents.muting import mute as record

    space, now = workspace(context), time.time()
    end = _end(span, until, now)
    checks = tuple(check or ())
    new = record(space.store, space.catalog(), stream, until=end, who=who(), reason=reason, now=now, checks=checks)
    return _report(new, now, json)


def unmute(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(metavar="STREAM|MUTE", help="A stream or a query with all its mutes, or the id of one mute."),
    ],
    reason: Reason = "no reason given",
) -> int:
    """End mutes before their time. What is open is sent in the next evaluation. A maintenance window stays."""
    from streamwarden.services.incidents.muting import mutes_of

    space = workspace(context)
    of_stream = [entry.mute_id for entry in mutes_of(space.store, what, time.time())]
    for key in of_stream or [what]:
        _end_now(space, key, reason)
    return Exit.OK


def mutes(context: typer.Context, everything: Over = False, json: AsJson = False) -> int:
    """Show the mutes and the maintenance windows that are in force or planned, with who and why."""
    return _list(_known(workspace(context), everything), json)


@app.command("plan")
def plan(
    context: typer.Context,
    reason: Why,
    streams: Annotated[
        list[str] | None, typer.Argument(metavar="STREAM...", help="Streams or queries, each as in `mute`.")
    ] = None,
    tag: Annotated[str, typer.Option(metavar="TAG", help="All streams that have this tag now.")] = "",
    fleet: Annotated[
        bool, typer.Option("--all", help="The whole fleet, with what concerns all streams, such as Airflow.")
    ] = False,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="When it begins.", show_default="now")
    ] = None,
    span: For = None,
    until: Until = None,
    json: AsJson = False,
) -> int:
    """Plan a maintenance window: nothing is sent of what it covers, from its beginning to its end.

    Name streams, or give `--tag` or `--all`; give `--for` or `--until`.
    """
    from streamwarden.services.incidents.muting import plan_maintenance

    space, now = workspace(context), time.time()
    begin = now if start is None else moment(start, "--from")
    new = plan_maintenance(
        space.store,
        space.catalog(),
        starts_at=begin,
        until=_end(span, until, begin),
        who=who(),
        reason=reason,
        now=now,
        streams=tuple(streams or ()),
        tag=tag,
        fleet=fleet,
    )
    return _report(new, now, json)


@app.command("end")
def end(
    context: typer.Context,
    window: Annotated[str, typer.Argument(metavar="WINDOW", help="Its id, as `mutes` shows it, or how it begins.")],
    reason: Reason = "no reason given",
) -> int:
    """End a maintenance window before its time, or drop one that has not begun."""
    _end_now(workspace(context), window, reason)
    return Exit.OK


@app.command("list")
def list_windows(context: typer.Context, everything: Over = False, json: AsJson = False) -> int:
    """Show the maintenance windows that are in force or planned."""
    return _list([entry for entry in _known(workspace(context), everything) if entry.planned], json)


def _end(span: str | None, until: str | None, start: float) -> float:
    """Unix seconds. Raises BadParameter unless exactly one is given."""
    if until is not None and span is None:
        return moment(until, "--until")
    if span is not None and until is None:
        return start + duration(span, "--for")
    raise typer.BadParameter("give exactly one of --for and --until", param_hint="--for")


def _end_now(space: Workspace, mute_id: str, reason: str) -> None:
    from streamwarden.services.incidents.muting import unmute as record

    done = record(space.store, mute_id, who=who(), reason=reason, now=time.time())
    say(f"{text(done.scope)}: no longer {done.word}; what is open is sent in the next evaluation")


def _known(space: Workspace, everything: bool) -> Sequence[Mute]:
    from streamwarden.services.incidents.muting import current_mutes

    return space.store.mutes.since(0.0) if everything else current_mutes(space.store, time.time())


def _report(new: Mute, now: float, json: bool) -> int:
    if json:
        as_json(new)
        return Exit.OK
    begin = "" if new.starts_at <= now else f"from {clock(new.starts_at)} "
    say(f"{text(new.scope)}: {new.word} {begin}until {clock(new.until)}; incidents are still opened and shown")
    command = "streamwarden maintenance end" if new.planned else "streamwarden unmute"
    say(f"  to end it earlier: {command} {text(new.mute_id[:SHORT_ID])}")
    return Exit.OK


def _list(entries: Sequence[Mute], json: bool) -> int:
    if json:
        as_json({"mutes": entries})
        return Exit.OK
    now = time.time()
    table(
        ("id", "state", "what", "from", "until", "who", "why"),
        [
            (
                text(entry.mute_id[:SHORT_ID]),
                _state(entry, now),
                text(entry.scope),
                clock(entry.starts_at),
                clock(entry.over_at),
                text(entry.who),
                text(entry.reason) + _early(entry),
            )
            for entry in entries
        ],
        empty="Nothing is muted.",
    )
    return Exit.OK


def _state(entry: Mute, now: float) -> str:
    if entry.over_at <= now:
        return "[dim]over[/]"
    return f"[cyan]{entry.word}[/]" if entry.in_force(now) else "planned"


def _early(entry: Mute) -> str:
    return (
        f"\n[italic]ended by {text(entry.ended_by)}: {text(entry.ended_reason)}[/]"
        if entry.ended_at is not None
        else ""
    )
