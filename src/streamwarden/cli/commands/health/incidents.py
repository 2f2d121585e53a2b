"""`incidents`, `incident show`, `incident ack`, …: what is wrong, and what people do about it."""

import time
from typing import Annotated, Final

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import NONE, ago, clock, held_back, status_word
from streamwarden.cli.output import as_json, plain, say, table, text
from streamwarden.cli.session import AsJson, MaybeQuery, who, workspace
from streamwarden.health.incidents.handling import Handling
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.incident_actions import IncidentAction
from streamwarden.health.incidents.incident_log import LogEntry
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.queries import SEPARATOR, owner
from streamwarden.units import format_duration, format_fact

SHORT_ID: Final = 8
"""Characters of an id in a table; a command takes as many as identify one."""

app = typer.Typer(no_args_is_help=True, help="One incident: what people did about it, and what you do.")

IncidentId = Annotated[
    str,
    typer.Argument(metavar="INCIDENT", help="Its id, as `incidents` and messages show it, or its first characters."),
]
Comment = Annotated[str, typer.Option(metavar="TEXT", help="What the others should know; it is recorded.")]


def incidents(
    context: typer.Context,
    stream: MaybeQuery = None,
    everything: Annotated[bool, typer.Option("--all", help="Show resolved incidents too, newest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Most incidents to show.")] = 50,
    json: AsJson = False,
) -> int:
    """Show open incidents, each with its consequences below it. Exit code 1 if one of them is CRITICAL.

    An incident says who acknowledged it, and whether it is muted.
    """
    from streamwarden.health.incidents.consequences import grouped
    from streamwarden.services.incidents.handling import handling

    space, now = workspace(context), time.time()
    repository = space.store.incidents
    if stream is None or SEPARATOR in stream:
        shown = list(repository.recent(stream, limit) if everything else repository.open(stream))[:limit]
    elif everything:
        names = [name for name in repository.streams() if owner(name) == stream]
        shown = list(repository.recent_of(names, limit))
    else:
        shown = [incident for incident in repository.open() if owner(incident.stream) == stream][:limit]
    resolved = [incident.resolved_at for incident in shown if incident.resolved_at is not None]
    handled = handling(space.store, now, since=min(resolved, default=None))
    if json:
        as_json({"incidents": [_as_data(incident, handled, now) for incident in shown]})
    else:
        table(
            ("id", "stream", "check", "status", "worst", "opened", "lasted", "why"),
            [
                _row(incident, handled, now)
                for group in grouped(shown)
                for incident in (group.root, *group.consequences)
            ],
            empty="No incidents." if everything else "No open incidents.",
        )
    critical = any(incident.resolved_at is None and incident.status is Status.CRITICAL for incident in shown)
    return Exit.BAD if critical else Exit.OK


def _row(incident: Incident, handled: Handling, now: float) -> tuple[str, ...]:
    """A root incident, or indented below it one of its consequences, whose advice is that of the cause."""
    advice = [f"[italic]{text(incident.advice)}[/]"] if incident.advice and incident.is_root else []
    return (
        text(incident.incident_id[:SHORT_ID]),
        text(incident.stream),
        text(incident.check) if incident.is_root else f"  └ {text(incident.check)}",
        status_word(incident.status) if incident.resolved_at is None else "[green]resolved[/]",
        status_word(incident.peak),
        ago(incident.opened_at, now),
        format_duration(max(0.0, (incident.resolved_at or now) - incident.opened_at)),
        "\n".join(
            [text(incident.reason), *advice, *(f"[cyan]{text(mark)}[/]" for mark in _marks(incident, handled, now))]
        ),
    )


def _marks(incident: Incident, handled: Handling, now: float) -> list[str]:
    """Marks: who acknowledged the incident, and until when it is muted."""
    acknowledgement, mute = handled.acknowledged(incident), handled.muted(incident, now)
    marks = []
    if acknowledgement is not None:
        marks.append(_acknowledged(acknowledgement, incident))
    if mute is not None and incident.resolved_at is None:
        marks.append(held_back(mute))
    return marks


def _acknowledged(action: IncidentAction, incident: Incident) -> str:
    worse = "" if action.covers(incident.status) else f", when it was {action.status}"
    return f"acknowledged at {clock(action.at)} by {action.who}{worse}" + (f": {action.text}" if action.text else "")


def _as_data(incident: Incident, handled: Handling, now: float) -> dict[str, object]:
    mute = None if incident.resolved_at is not None else handled.muted(incident, now)
    return {**plain(incident), "acknowledged": plain(handled.acknowledged(incident)), "muted": plain(mute)}


@app.command("show")
def show(context: typer.Context, incident: IncidentId, json: AsJson = False) -> int:
    """Show one incident, with everything that people did about it: who, when and why."""
    from streamwarden.health.incidents.handling import Handling
    from streamwarden.services.incidents.handling import find, log_of

    store, now = workspace(context).store, time.time()
    shown = find(store, incident)
    actions, log = store.incident_actions.of(shown.incident_id), log_of(store, shown, now)
    handled = Handling(actions={shown.incident_id: actions}, mutes=store.mutes.since(now))
    if json:
        as_json({**_as_data(shown, handled, now), "actions": actions, "log": log})
        return Exit.OK
    state = status_word(shown.status) if shown.resolved_at is None else "[green]resolved[/]"
    say(f"{text(shown.incident_id)}: {text(shown.stream)}: {text(shown.check)}: {state}")
    say(f"  opened {clock(shown.opened_at)}; its worst status was {shown.peak}")
    for line in (shown.reason, shown.advice, *_marks(shown, handled, now)):
        if line:
            say(f"  {text(line)}")
    table(
        ("when", "what", "who", "status then", "comment"),
        [
            (
                clock(action.at),
                text(_did(action)),
                text(action.who),
                status_word(action.status) if action.status else NONE,
                text(action.said) or NONE,
            )
            for action in log
        ],
        empty="Nobody has acknowledged it, commented on it or muted it.",
    )
    table(
        ("evidence", "value"),
        [(text(name), text(format_fact(name, value))) for name, value in shown.evidence.items()],
        empty="No evidence is recorded.",
    )
    return Exit.OK


def _did(entry: LogEntry) -> str:
    """`muted until 2026-01-31 12:00 UTC (counted: backlog)`."""
    end = f" until {clock(entry.until)}" if entry.until is not None else ""
    return f"{entry.what}{end}" + (f" ({entry.scope})" if entry.scope else "")


@app.command("ack")
def acknowledge(context: typer.Context, incident: IncidentId, comment: Comment = "") -> int:
    """Acknowledge an open incident: you take care of it, and its status is not sent again.

    It is sent again if it gets worse than it is now, if another stream suffers from it, and when it is resolved.
    """
    from streamwarden.services.incidents.handling import acknowledge as record

    done = record(workspace(context).store, incident, who=who(), now=time.time(), comment=comment)
    say(f"{_named(done)}: acknowledged as {done.status}; it is sent again if it gets worse, and when it is resolved")
    return Exit.OK


@app.command("withdraw")
def withdraw(context: typer.Context, incident: IncidentId, comment: Comment = "") -> int:
    """Withdraw the acknowledgement of an open incident, whoever gave it: the incident is sent again like any other."""
    from streamwarden.services.incidents.handling import withdraw as record

    done = record(workspace(context).store, incident, who=who(), now=time.time(), comment=comment)
    say(f"{_named(done)}: no longer acknowledged; it is sent again like any other incident")
    return Exit.OK


@app.command("comment")
def comment(
    context: typer.Context,
    incident: IncidentId,
    comment: Annotated[str, typer.Argument(metavar="TEXT", help="What the others should know.")],
) -> int:
    """Comment on an incident, open or resolved. It changes nothing that is sent."""
    from streamwarden.services.incidents.handling import add_comment

    done = add_comment(workspace(context).store, incident, who=who(), now=time.time(), text=comment)
    say(f"{_named(done)}: the comment is recorded; `streamwarden incident show` shows all of them")
    return Exit.OK


def _named(action: IncidentAction) -> str:
    return f"incident {text(action.incident_id[:SHORT_ID])}"
