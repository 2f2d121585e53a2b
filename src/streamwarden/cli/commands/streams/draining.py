"""`drain`: stops the drivers of this host before an update."""

import typer

from streamwarden.cli.commands.streams.streams import Reason
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.exit_report import report_exit
from streamwarden.cli.output import say, text
from streamwarden.cli.session import who, workspace


def drain(context: typer.Context, reason: Reason = "no reason given") -> int:
    """Stop all drivers of this host at a batch boundary, before an update or a reboot.

    Every living driver counts, also one whose file was removed. The streams stay wanted: Airflow or a supervisor starts
    their drivers again. A stream that was stopped stays stopped. Exit code 1 if one had to be killed.
    """
    from streamwarden.services.fleet.draining import drain as drain_host

    space = workspace(context)
    ended = drain_host(space.store, space.fleet, requested_by=who(), reason=reason)
    if not ended:
        say(f"no driver runs on this host, with the data folder {text(space.data)}")
    return max((report_exit(observation) for observation in ended), default=Exit.OK)
