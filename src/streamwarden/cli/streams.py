"""`status`, `start`, `stop`, `restart`, `logs`: the life of a stream."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.exits import Exit
from streamwarden.cli.output import as_json, say, table, text
from streamwarden.cli.session import AsJson, MaybeQuery, StreamName, who, workspace
from streamwarden.cli.words import NONE, age, ago, number, size, status_word
from streamwarden.health.evaluations import last_round

if TYPE_CHECKING:
    from streamwarden.cli.status import StreamStatus
    from streamwarden.lifecycle.driver import DriverRecord, ExitRecord
    from streamwarden.services.fleet.exit_recorder import Observation
    from streamwarden.services.workspace import Workspace
    from streamwarden.stream import StreamSpec

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


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    for name, command in (
        ("status", status),
        ("start", start),
        ("stop", stop),
        ("restart", restart),
        ("logs", logs),
    ):
        app.command(name)(command)


def status(context: typer.Context, stream: MaybeQuery = None, json: AsJson = False) -> int:
    """Show every stream: alive, progress, verdict, incidents, last exit. Exit code 1 if one is in trouble.

    The queries of a script that starts several follow their stream, as STREAM/QUERY.
    """
    from streamwarden.cli.status import gather

    now, space = time.time(), workspace(context)
    found = gather(space, stream, now=now)
    last = last_round(space.store.evaluations.all(), now)
    if json:
        as_json({"at": now, "last_evaluation": last, "streams": found})
    else:
        table(
            ("stream", "state", "pid", "since", "last batch", "batches", "rows in", "state size", "health", "incidents",
             "last exit"),
            [_row(each, now) for each in found],
            empty="No streams: add a file to config/streams.",
        )  # fmt: skip
        say(f"[yellow]{text(last.text)}[/]" if last.late else text(last.text))
    return Exit.BAD if any(each.in_trouble for each in found) else Exit.OK


def _row(each: StreamStatus, now: float) -> tuple[str, ...]:
    colour = {"running": "green", "stopped": "dim", "new": "dim"}.get(each.state, "bold red")
    batch = NONE if each.last_batch is None else f"{each.last_batch}, {ago(each.last_batch_at, now)}"
    return (
        text(each.stream),
        f"[{colour}]{each.state}[/]{_executors(each)}",
        NONE if each.pid is None else str(each.pid),
        age(each.since, now),
        batch,
        number(each.batches),
        number(each.rows) + _malformed(each),
        size(each.state_bytes),
        _health(each, now),
        f"[red]{each.incidents}[/]" if each.incidents else "0",
        text(each.problem) if each.problem else NONE,
    )


def _health(each: StreamStatus, now: float) -> str:
    """`WARNING (backlog)`; with the age of an evaluation that is too old to say that all is well."""
    if each.unjudged:
        return f"{status_word(each.worst)} (judged {ago(each.judged_at, now)})"
    return status_word(each.worst) + (f" ({', '.join(each.worst_checks)})" if each.worst_checks else "")


def _malformed(each: StreamStatus) -> str:
    """` (18 malformed, 7 of them not kept)`, if there are any."""
    if not each.malformed:
        return ""
    lost = f", [red]{number(each.not_kept)} of them not kept[/]" if each.not_kept else ""
    return f" [yellow]({number(each.malformed)} malformed{lost})[/]"


def _executors(each: StreamStatus) -> str:
    """`, 2 executors (1 lost)`, on a cluster."""
    if each.executors is None:
        return ""
    lost = f" [yellow]({each.executors_lost} lost)[/]" if each.executors_lost else ""
    return f", {each.executors} executor{'' if each.executors == 1 else 's'}{lost}"


def start(
    context: typer.Context,
    stream: StreamName,
    supervise: Annotated[
        bool, typer.Option("--supervise", help="Stay, show the log, and restart the driver by the stream's policy.")
    ] = False,
    within: UpWithin = "2 minutes",
    reason: Reason = "asked on the command line",
) -> int:
    """Start a stream, or find its living driver: there is never a second one.

    The driver goes on when this command ends, also after Ctrl-C; `stop` ends it.
    """
    space = workspace(context)
    spec = space.stream(stream)
    limit = _duration(within, "--within")
    space.fleet.set_running(stream, who(), reason)
    if supervise:
        from streamwarden.cli.supervising import supervise_here

        return supervise_here(space, spec, launched_by=who())
    started = space.fleet.start(spec, launched_by=who(), announce=lambda seen: say(text(f"{stream}: {seen}")))
    _report_supervision(space, stream)
    return _report_start(space, spec, started.record, reattached=started.reattached, within=limit)


def _report_supervision(space: Workspace, stream: str) -> None:
    """Let Airflow follow the driver, and say whether it does. Without an Airflow there is nothing to say."""
    from streamwarden.services.fleet.airflow_supervision import hand_over

    found = hand_over(space.store, stream, environ=os.environ, now=time.time())
    if found is None:
        return
    if found.problem is not None:
        say(f"{text(stream)}: [yellow]{text(found.dag_id)} could not be unpaused in Airflow[/]: {text(found.problem)}")
        say("  While that DAG is paused, nothing restarts the driver if it fails")
    elif found.unpaused:
        say(f"{text(stream)}: unpaused {text(found.dag_id)} in Airflow, which now supervises it")


def _report_start(space: Workspace, spec: StreamSpec, record: DriverRecord, *, reattached: bool, within: float) -> int:
    from streamwarden.cli.starting import await_queries
    from streamwarden.cli.status import shown_error

    fleet = space.fleet
    what = "runs already" if reattached else "launched"
    pid = f", pid {record.process.pid}" if record.process else ""
    say(f"{text(record.stream)}: driver {text(record.driver_id)} {what}{pid}")
    if reattached and record.process:
        say(f"  on host {text(record.process.host)}, checkpoint {text(record.checkpoint)}")
    say(f"  log: {text(fleet.log_path(record.driver_id))}")
    if within <= 0:
        return Exit.OK
    seen, starts = await_queries(space, spec, record.driver_id, within)
    for each in starts.running:
        say(f"  query {text(each.name or each.query_id)} runs")
    if not seen.alive:
        return _report_exit(seen)
    for each in starts.failed:
        say(f"  [bold red]query {text(each.name)} {text(shown_error(each))}[/]")
    return Exit.BAD if starts.failed else Exit.OK


def _report_exit(seen: Observation) -> int:
    """Tell how a driver ended. Exit code 1 unless it ended in good order."""
    from streamwarden.lifecycle.driver import ExitKind
    from streamwarden.lifecycle.restart import describe

    ended = seen.exit
    if ended is None:
        say(f"{text(seen.record.stream)}: [red]the driver ended and left no record[/]")
        return Exit.BAD
    good = ended.kind in (ExitKind.STOPPED, ExitKind.COMPLETED)
    colour = "green" if good else "bold red"
    say(f"{text(seen.record.stream)}: [{colour}]{text(describe(ended))}[/]{_cut(ended)}")
    if ended.next_step and not good:
        say(f"  next: {text(ended.next_step)}")
    if not good:
        say(f"  log: {text(Path(seen.record.folder) / 'driver.log')}")
    return Exit.OK if good else Exit.BAD


def _cut(ended: ExitRecord) -> str:
    return "; the batch that was running will run again" if ended.cut_batch else ""


def stop(
    context: typer.Context,
    stream: StreamName,
    reason: Reason = "asked on the command line",
    batch_deadline: BatchDeadline = None,
    term_deadline: TermDeadline = None,
) -> int:
    """Stop a stream at a batch boundary and keep it stopped. Exit code 1 if it had to be killed."""
    deadlines = _maybe(batch_deadline, "--batch-deadline"), _maybe(term_deadline, "--term-deadline")
    _known(context, stream)
    say(f"{text(stream)}: waiting for the batch boundary …")
    seen = workspace(context).fleet.stop(
        stream, requested_by=who(), reason=reason, batch_deadline=deadlines[0], term_deadline=deadlines[1]
    )
    if seen is None:
        say(f"{text(stream)}: no driver is alive; the stream stays stopped until you start it")
        return Exit.OK
    return _report_exit(seen)


def restart(
    context: typer.Context,
    stream: StreamName,
    reason: Reason = "asked on the command line",
    batch_deadline: BatchDeadline = None,
    term_deadline: TermDeadline = None,
    within: UpWithin = "2 minutes",
) -> int:
    """Stop a stream at a batch boundary and start it again, with its YAML file as it is now."""
    space = workspace(context)
    spec = space.stream(stream)
    limit = _duration(within, "--within")
    seen = space.fleet.stop(
        stream,
        requested_by=who(),
        reason=reason,
        restart=True,
        batch_deadline=_maybe(batch_deadline, "--batch-deadline"),
        term_deadline=_maybe(term_deadline, "--term-deadline"),
    )
    if seen is not None:
        _report_exit(seen)
    # A supervisor starts it too; the lease makes sure that there is one driver, and each finds it.
    started = space.fleet.start(spec, launched_by=who(), announce=lambda seen: say(text(f"{stream}: {seen}")))
    _report_supervision(space, stream)
    return _report_start(space, spec, started.record, reattached=started.reattached, within=limit)


def logs(
    context: typer.Context,
    stream: StreamName,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the driver ends.")] = False,
    driver: Annotated[str | None, typer.Option(help="Another driver than the newest.")] = None,
) -> int:
    """Show the log of a stream's newest driver."""
    from streamwarden.errors import ConfigError, ProcessError
    from streamwarden.services.fleet.log_tail import last_lines

    space = workspace(context)
    _known(context, stream)
    record = space.store.drivers.get(driver) if driver else space.store.drivers.latest(stream)
    if record is None or record.stream != stream:
        raise ConfigError(
            f"no driver {driver!r} of {stream}" if driver else f"{stream} has had no driver",
            next_step=f"see `streamwarden status {stream}`" if driver else f"run `streamwarden start {stream}`",
        )
    path = space.fleet.log_path(record.driver_id)
    try:
        shown = last_lines(path, lines)
    except OSError as error:
        raise ProcessError(
            f"the log cannot be read: {error.strerror}", where=str(path), next_step="read it on the driver's host"
        ) from error
    for line in shown:
        typer.echo(line, nl=False)
    if follow:
        from streamwarden.cli.following import follow as follow_log

        follow_log(path, ended=lambda: not space.fleet.observe(record.driver_id).alive)
    return Exit.OK


def _known(context: typer.Context, stream: str) -> None:
    """A broken file must not prevent a stop of its stream; an unknown name is refused."""
    catalog = workspace(context).catalog()
    if stream not in catalog.broken:
        catalog.get(stream)


def _maybe(given: str | None, option: str) -> float | None:
    return None if given is None else _duration(given, option)


def _duration(given: str, option: str) -> float:
    from streamwarden.units import parse_duration

    try:
        return parse_duration(given)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
