"""`history`: what happened to a stream, when, by whom and why."""

import time
from datetime import datetime
from typing import Annotated, Final

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import NONE, short
from streamwarden.cli.output import as_json, table, text
from streamwarden.cli.session import AsJson, StreamName, duration, workspace
from streamwarden.lifecycle.events import EventKind, StreamEvent
from streamwarden.lifecycle.queries import owner

_COLOURS: Final = {
    EventKind.CRASHED: "bold red",
    EventKind.LEFT_DOWN: "bold red",
    EventKind.FENCED: "yellow",
    EventKind.RESTARTED: "yellow",
    EventKind.DEPLOYED: "green",
    EventKind.DRILLED: "cyan",
}


def history(
    context: typer.Context,
    stream: StreamName,
    since: Annotated[str, typer.Option(metavar="DURATION", help="How far back.")] = "7d",
    json: AsJson = False,
) -> int:
    """Show a stream's launches, crashes, restarts, stops, deployments and drills, with who and why. The newest is last.

    A launch with another job file, configuration or package than the one before it is a deployment, which says what
    changed.
    """
    from streamwarden.services.analysis.history import history as events_of

    space, name = workspace(context), owner(stream)
    events = events_of(space.store, name, time.time() - duration(since, "--since"))
    if not events:
        space.require_known(name)  # a stream whose file was removed has a history
    if json:
        as_json({"stream": name, "events": events})
        return Exit.OK
    table(
        ("when", "what", "who", "why"),
        [(_when(event.at), _what(event), text(event.who) or NONE, _why(event)) for event in events],
        empty=f"Nothing happened to {text(name)} in the last {text(since)}.",
    )
    return Exit.OK


def _when(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")


def _what(event: StreamEvent) -> str:
    after = "" if event.after is None else f" after {short(event.after)}"
    colour = _COLOURS.get(event.kind)
    return f"[{colour}]{event.kind}[/]{after}" if colour else f"{event.kind}{after}"


def _why(event: StreamEvent) -> str:
    lines = [text(event.why) or NONE, *([f"[italic]{text(event.next_step)}[/]"] if event.next_step else [])]
    return "\n".join(lines)
