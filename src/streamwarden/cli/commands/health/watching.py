"""`watch`: judges the streams and sends notifications without Airflow, until it is stopped."""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.commands.health.checking import say_refused
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import say, text
from streamwarden.cli.session import duration, workspace
from streamwarden.errors import StreamwardenError
from streamwarden.health.verdict import Status
from streamwarden.services.workspace import Workspace
from streamwarden.units import format_duration

if TYPE_CHECKING:
    from streamwarden.services.monitoring.rounds import Round
    from streamwarden.services.notifying.sending import SendReport


def watch(
    context: typer.Context,
    interval: Annotated[
        str, typer.Option(metavar="DURATION", help="Time from the start of one evaluation to the next.")
    ] = "1m",
    once: Annotated[bool, typer.Option("--once", help="Evaluate and send once, then end.")] = False,
) -> int:
    """Judge all streams and send notifications every minute, without Airflow. SIGTERM and Ctrl-C end it.

    It does what the DAG `health` does, and it may run beside it: no message is sent twice. It sends through
    STREAMWARDEN_NOTIFY_URLS. If `airflow_url` is set in `config/notifications.yaml`, it also checks that Airflow's
    components run. While the store is unavailable it waits for the next evaluation.

    With `--once`, the exit code is 1 if a channel did not accept a message, and 3 if the store is unavailable.
    """
    space, seconds = workspace(context), _seconds(interval)
    _warn_without_channels()
    if once:
        return Exit.BAD if _round(space).refused else Exit.OK
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    while not stop.is_set():
        began = time.monotonic()
        _surviving_round(space)
        stop.wait(max(0.0, began + seconds - time.monotonic()))
    say("watching ended")
    return Exit.OK


def _warn_without_channels() -> None:
    from streamwarden.services.notifying.notifiers import URLS_VARIABLE, apprise_channels

    if not apprise_channels():
        say(f"[yellow]no message can be sent: {URLS_VARIABLE} is not set[/]")


def _seconds(interval: str) -> float:
    seconds = duration(interval, "--interval")
    if seconds < 1:
        raise typer.BadParameter(f"{interval} is less than one second", param_hint="--interval")
    return seconds


def _surviving_round(space: Workspace) -> None:
    """One round. Errors are printed, and the next round is tried all the same."""
    try:
        _round(space)
    except StreamwardenError as error:
        say(f"{_now()} [red]not evaluated:[/] {text(error)}")
    except Exception:
        say(f"{_now()} [red]not evaluated, because of a defect of Streamwarden:[/]\n{text(traceback.format_exc())}")


def _round(space: Workspace) -> SendReport:
    from streamwarden.health.evaluations import Evaluator
    from streamwarden.services.monitoring.rounds import run_round
    from streamwarden.services.notifying.notifiers import apprise_channels
    from streamwarden.services.notifying.watching import notify, surroundings, usable_settings

    settings, broken = usable_settings(space.project)
    done = run_round(space, Evaluator.WATCH, surroundings(settings))
    report = notify(space, apprise_channels(), settings, time.time(), broken=broken)
    say(f"{_now()} {_summary(done, report)}")
    say_refused(report)
    return report


def _summary(done: Round, report: SendReport) -> str:
    from streamwarden.services.monitoring.round_entries import entries_of

    entries = entries_of(done.evaluation, done.broken, done.idle)
    count = Counter(entry.status.value if entry.judged else "not judged" for entry in entries)
    shown = ", ".join(f"{count[word]} {word}" for word in (*Status, "not judged") if count[word]) or "no streams"
    took = format_duration(done.record.seconds)
    return f"evaluated in {took}: {shown}; messages: {len(report.sent)} sent, {len(report.refused)} refused"


def _now() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
