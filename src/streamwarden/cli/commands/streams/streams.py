"""`start`, `stop`, `restart`, `logs`, `drain`: the life of a stream."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.exit_report import report_exit
from streamwarden.cli.output import say, text
from streamwarden.cli.session import StreamName, duration, who, workspace
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec

Reason = Annotated[str, typer.Option(help="Why; it is recorded.")]
BatchDeadline = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION", help="How long to wait for the batch boundary before SIGTERM.", show_default="the stream's"
    ),
]
TermDeadline = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION", help="How long to wait after SIGTERM before SIGKILL.", show_default="the stream's"
    ),
]
UpWithin = Annotated[
    str, typer.Option("--within", metavar="DURATION", help="How long to wait until the query runs; 0: do not wait.")
]
BeginAnew = Annotated[
    str | None,
    typer.Option(
        metavar="REASON",
        help="Begin with the checkpoint as it is, also if it contradicts the store or the output, and take the "
        "batches after it out of the output's manifest. The reason is recorded.",
        show_default="refuse",
    ),
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return as soon as the driver is launched, for scripts.")]

POLL: Final = 0.5
"""Seconds between two readings of a log that is followed."""


def start(
    context: typer.Context,
    stream: StreamName,
    supervise: Annotated[
        bool, typer.Option("--supervise", help="Stay, show the log, and restart the driver by the stream's policy.")
    ] = False,
    within: UpWithin = "2 minutes",
    no_wait: NoWait = False,
    reason: Reason = "no reason given",
    begin_anew: BeginAnew = None,
) -> int:
    """Start a stream, or find its living driver: there is never a second one.

    A start that would lose or double rows is refused: the checkpoint is gone, older, or another query's, or the output
    has batches that the checkpoint has not planned. `--begin-anew` starts all the same.

    Waits for the first batch, or for the end of the driver, and reports which of them came. Exit code 1 if the driver
    ended with an error. The driver goes on when this command ends, also after Ctrl-C; `stop` ends it.
    """
    from streamwarden.cli.commands.streams.starting import startable

    space = workspace(context)
    spec = startable(space, stream)
    limit = duration(within, "--within")
    space.fleet.set_running(stream, who(), reason, begin_anew)
    if supervise:
        from streamwarden.cli.commands.streams.supervising import supervise_here

        return supervise_here(space, stream, launched_by=who())
    return _start(space, spec, 0.0 if no_wait else limit)


def _start(space: Workspace, spec: StreamSpec, within: float) -> int:
    """Start the stream, or find its living driver, and report what happened; see `report_start`."""
    from streamwarden.cli.commands.streams.starting import report_start

    started = space.fleet.start(spec, launched_by=who(), announce=lambda seen: say(text(f"{spec.name}: {seen}")))
    _report_supervision(space, spec.name)
    return report_start(space, spec, started, within=within)


def _report_supervision(space: Workspace, stream: str) -> None:
    """Let Airflow follow the driver, and say whether it does. Without an Airflow there is nothing to say."""
    from streamwarden.services.fleet.airflow_supervision import hand_over

    supervision = hand_over(space.store, stream, environ=os.environ, now=time.time())
    if supervision is None:
        return
    if supervision.problem is not None:
        failure = f"[yellow]{text(supervision.dag_id)} could not be unpaused in Airflow[/]"
        say(f"{text(stream)}: {failure}: {text(supervision.problem)}")
        say("  While that DAG is paused, nothing restarts the driver if it fails")
    elif supervision.unpaused:
        say(f"{text(stream)}: unpaused {text(supervision.dag_id)} in Airflow, which now supervises it")


def stop(
    context: typer.Context,
    stream: StreamName,
    reason: Reason = "no reason given",
    batch_deadline: BatchDeadline = None,
    term_deadline: TermDeadline = None,
) -> int:
    """Stop a stream at a batch boundary and keep it stopped. Exit code 1 if it had to be killed."""
    deadlines = _maybe(batch_deadline, "--batch-deadline"), _maybe(term_deadline, "--term-deadline")
    space = workspace(context)
    space.require_known(stream)
    newest = space.store.drivers.latest(stream)
    if newest is not None and newest.exit is None:
        say(f"{text(stream)}: waiting for the batch boundary …")
    observation = space.fleet.stop(
        stream, requested_by=who(), reason=reason, batch_deadline=deadlines[0], term_deadline=deadlines[1]
    )
    if observation is None:
        say(f"{text(stream)}: no driver is alive; the stream stays stopped until you start it")
        return Exit.OK
    return report_exit(observation)


def restart(
    context: typer.Context,
    stream: StreamName,
    reason: Reason = "no reason given",
    batch_deadline: BatchDeadline = None,
    term_deadline: TermDeadline = None,
    within: UpWithin = "2 minutes",
    no_wait: NoWait = False,
) -> int:
    """Stop a stream at a batch boundary and start it again, with its YAML file as it is now.

    A driver of another host is started again there, or where its supervisor decides: this command does not move it.
    """
    from streamwarden.cli.commands.streams.starting import (
        is_left_to_its_supervisor,
        report_restart_elsewhere,
        startable,
    )

    space = workspace(context)
    spec = startable(space, stream)
    limit = duration(within, "--within")
    observation = space.fleet.stop(
        stream,
        requested_by=who(),
        reason=reason,
        restart=True,
        batch_deadline=_maybe(batch_deadline, "--batch-deadline"),
        term_deadline=_maybe(term_deadline, "--term-deadline"),
    )
    if observation is not None:
        report_exit(observation)
        if is_left_to_its_supervisor(space, observation.record):
            return report_restart_elsewhere(space, spec, observation.record, within=0.0 if no_wait else limit)
    # A supervisor starts it too; the lease makes sure that there is one driver, and each finds it.
    return _start(space, spec, 0.0 if no_wait else limit)


def logs(
    context: typer.Context,
    stream: StreamName,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the driver ends.")] = False,
    driver: Annotated[str | None, typer.Option(help="Another driver than the newest.")] = None,
) -> int:
    """Show the log of a stream's newest driver."""
    from streamwarden.errors import ConfigError
    from streamwarden.services.fleet.exits.log_tail import end_of_log

    space = workspace(context)
    space.require_known(stream)
    record = space.store.drivers.get(driver) if driver else space.store.drivers.latest(stream)
    if record is None or record.stream != stream:
        raise ConfigError(
            f"no driver {driver!r} of {stream}" if driver else f"{stream} has had no driver",
            next_step=f"see `streamwarden status {stream}`" if driver else f"run `streamwarden start {stream}`",
        )
    for line in end_of_log(record, lines):
        typer.echo(line, nl=False)
    if follow:
        driver_id = record.driver_id
        follow_log(space.fleet.log_path(driver_id), ended=lambda: not space.fleet.observe(driver_id).alive)
    return Exit.OK


def follow_log(path: Path, *, ended: Callable[[], bool], poll: float = POLL) -> None:
    """Print what is added to `path` until `ended()`, with all that was written before the end."""
    from streamwarden.services.fleet.exits.log_tail import LogTail

    tail = LogTail(path, start=path.stat().st_size if path.exists() else 0)
    while True:
        last = ended()  # asked before reading: what was written before the end is still printed
        for line in tail.read_all(final=last):
            print(line, flush=True)
        if last:
            return
        time.sleep(poll)


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


def _maybe(given: str | None, option: str) -> float | None:
    return None if given is None else duration(given, option)
