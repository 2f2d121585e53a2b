"""`notify test`: shows whether each channel delivers."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, say, text
from streamwarden.cli.session import AsJson, workspace

if TYPE_CHECKING:
    from streamwarden.services.notifying.notifiers import Channel

app = typer.Typer(help="Notifications.", no_args_is_help=True)


@app.callback()
def _notify() -> None:
    """A group even with one command."""


@app.command("test")
def send_test(
    context: typer.Context,
    channel: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this channel; the command prints their names.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Send a test message through every channel, and print for each whether it was accepted.

    The channels are the URLs in STREAMWARDEN_NOTIFY_URLS and Airflow's notifiers in `config/notifications.yaml`.
    Exit code 1 if a channel did not accept the message, 2 if there is no channel.
    """
    from streamwarden.config.notifications import load_notifications
    from streamwarden.services.notifying.notifiers import (
        airflow_channels,
        apprise_channels,
        no_channel,
        require_channel,
    )

    settings = load_notifications(workspace(context).project, is_notifier=lambda _: True)
    channels = (*apprise_channels(), *airflow_channels(settings, {}))
    if not channels:
        raise no_channel()
    chosen = channels if channel is None else (require_channel(channels, channel),)
    problems = {target.name: _problem(target) for target in chosen}
    if json:
        as_json({"channels": [{"channel": name, "problem": problem} for name, problem in problems.items()]})
    else:
        for name, problem in problems.items():
            say(
                f"[green]accepted[/] {text(name)}"
                if problem is None
                else f"[red]refused[/] {text(name)}: {text(problem)}"
            )
    return Exit.OK if all(problem is None for problem in problems.values()) else Exit.BAD


def _problem(channel: Channel) -> str | None:
    """Send a test message. Returns the channel's error, or None."""
    from streamwarden.services.notifying.messages import sample_message
    from streamwarden.services.notifying.sending import refusal_reason

    try:
        channel.send(sample_message(time.time(), socket.gethostname()))
    except Exception as error:  # a notifier raises what its service raises
        return refusal_reason(error)
    return None
