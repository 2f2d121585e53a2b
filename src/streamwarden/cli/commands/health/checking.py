"""`check`: the health of streams, as the health DAG evaluates it."""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import measured, status_word
from streamwarden.cli.output import as_json, say, table, text
from streamwarden.cli.session import AsJson, MaybeQuery, workspace
from streamwarden.errors import ConfigError
from streamwarden.health.verdict import Status, worst_of
from streamwarden.lifecycle.queries import SEPARATOR, owner
from streamwarden.services.workspace import Workspace

if TYPE_CHECKING:
    from streamwarden.config.notifications import Notifications
    from streamwarden.services.monitoring.health_monitor import Evaluation
    from streamwarden.services.notifying.sending import SendReport


def check(
    context: typer.Context,
    stream: MaybeQuery = None,
    notify: Annotated[
        bool, typer.Option("--notify", help="Send the notifications that are due to STREAMWARDEN_NOTIFY_URLS.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Run all health checks now, store the verdicts and update the incidents.

    Exit code 1 if a check is CRITICAL, 4 if every check of every stream is UNKNOWN.
    """
    from streamwarden.health.evaluations import Evaluator
    from streamwarden.services.monitoring.rounds import run_round
    from streamwarden.services.notifying.watching import surroundings, usable_settings

    space = workspace(context)
    settings, broken = usable_settings(space.project)
    if stream is None:
        evaluated = run_round(space, Evaluator.SHELL, surroundings(settings) if notify else None).evaluation
    else:
        evaluated = space.health_monitor().evaluate(
            [space.declared_or_running(owner(stream))], time.time(), afresh=True
        )
    report = _only(evaluated, stream)
    if json:
        as_json({"at": report.at, "streams": report.streams, "incidents": report.changes, "seconds": report.seconds})
    else:
        _show(report)
    if notify:
        _notify(space, settings, broken, None if stream is None else evaluated.streams)
    level = worst_of(verdict.status for verdict in report.verdicts)
    if level is Status.CRITICAL:
        return Exit.BAD
    if all(verdict.status is Status.UNKNOWN for verdict in report.verdicts):
        return Exit.UNDECIDED
    return Exit.OK


def _only(report: Evaluation, name: str | None) -> Evaluation:
    """The part of the report about one query. Raises ConfigError if its stream has no such query."""
    from streamwarden.config.loading import unknown

    if name is None or SEPARATOR not in name:
        return report
    if name not in report.streams:
        raise unknown("query", name, list(report.streams), f"see `streamwarden status {owner(name)}`")
    return replace(report, streams={name: report.streams[name]})


def _show(report: Evaluation) -> None:
    from streamwarden.health.checks import CHECKS

    titles = {definition.name: definition.title for definition in CHECKS}
    for name, health in report.streams.items():
        rows = [
            (
                text(titles.get(verdict.check, verdict.check)),
                status_word(verdict.status),
                measured(verdict.value, verdict.unit),
                text(verdict.reason) + (f"\n[italic]{text(verdict.advice)}[/]" if verdict.advice else ""),
            )
            for verdict in health.verdicts
        ]
        table(("check", "verdict", "value", "why"), rows, title=f"{name}: {health.status.value}")
        for problem in health.problems:
            say(f"  [yellow]not read:[/] {text(problem)}")
    changes = report.changes
    say(f"incidents: {len(changes.opened)} opened, {len(changes.updated)} updated, {len(changes.resolved)} resolved")


def _notify(space: Workspace, settings: Notifications, broken: ConfigError | None, only: Container[str] | None) -> None:
    from streamwarden.services.notifying.notifiers import apprise_channels, no_channel
    from streamwarden.services.notifying.watching import notify

    channels = apprise_channels()
    if not channels:
        raise no_channel()
    done = notify(space, channels, settings, time.time(), broken=broken, only=only)
    say(f"notifications: {len(done.sent)} sent, {done.taken} sent by others, {len(done.refused)} refused")
    say_refused(done)


def say_refused(report: SendReport) -> None:
    """Print each message that a channel did not accept, with the reason."""
    for refusal in report.refused:
        say(f"  [red]not sent[/] through {text(refusal.channel)}: {text(refusal.title)}: {text(refusal.reason)}")
