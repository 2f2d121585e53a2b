"""The demo's result on one screen: what ran, its health, whether the output was right, and what to try next."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.reporting.report import build_report, one_line, verdict_word
from streamwarden.drills.state import RunState
from streamwarden.health.check import ValueUnit
from streamwarden.health.checks import CHECKS
from streamwarden.services.notifying.links import drill_links
from streamwarden.services.workspace import Workspace

_ROWS = ("fault", "output", "judge", "recovery measured", "recovery predicted")
"""What is shown of the evidence; the report beside the journal has all of it."""

_COLOURS = {"OK": "green", "WARNING": "yellow", "CRITICAL": "bold red", "UNKNOWN": "dim"}


def summary(space: Workspace, run: DrillRun, *, stream: str) -> RenderableType:
    """The stream, its health, and the drill."""
    colour = "green" if run.passed else "red"
    return Panel(
        Group(_stream(space, stream), "", _health(space, stream), "", *_drill(run)),
        title=f"[bold {colour}]drill {run.drill}: {verdict_word(run)}[/]",
        border_style=colour,
    )


def _stream(space: Workspace, stream: str) -> str:
    total = space.store.batches.summary(stream)
    return f"[bold]Stream[/] {stream}: {total.batches:,} batches committed, {total.rows:,} rows in"


def _health(space: Workspace, stream: str) -> RenderableType:
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Health", title_justify="left", title_style="bold")
    for heading in ("check", "verdict", "value", "why"):
        grid.add_column(heading, overflow="fold")
    titles = {check.name: check.title for check in CHECKS}
    for verdict in space.store.verdicts.latest(stream):
        word = verdict.status.value
        known = verdict.value is not None and verdict.unit in set(ValueUnit)
        value = ValueUnit(verdict.unit).show(verdict.value) if known and verdict.value is not None else "-"
        reason = escape(" ".join(verdict.reason.split()))
        grid.add_row(titles.get(verdict.check, verdict.check), f"[{_COLOURS[word]}]{word}[/]", value, reason)
    return grid


def _drill(run: DrillRun) -> list[str]:
    report = build_report(run, ())
    rows = [f"  {row.name:<20} {escape(one_line(row.value))}" for row in report.rows if row.name in _ROWS]
    return [f"[bold]Drill[/] {run.drill}: {escape(report.sentence)}", *rows]


def addresses(space: Workspace, run: DrillRun, *, fleet: str, airflow: str) -> list[str]:
    """Where the details are: a line each, the fleet page first.

    Args:
        fleet: URL of the fleet page; airflow: URL of Airflow.
    """
    page = drill_links(airflow, f"drill_{run.drill}", run.run_id).page
    lines = [f"[bold]Fleet page[/]    {fleet}", f"[bold]Drill's report[/] {page}"]
    journal = RunState.of(run).journal
    if journal:
        lines.append(f"[bold]Journal[/]       {escape(_relative(journal, space.project))} (report.md beside it)")
    data = _relative(str(space.data), space.project)
    lines.append(f"[bold]Shell[/]         STREAMWARDEN_DATA={data} .venv/bin/streamwarden status")
    return lines


def kill_to_try(space: Workspace, stream: str) -> list[str]:
    """The command that kills the stream's driver, and what the fleet page shows then; nothing if no driver lives.

    The process is the JVM: it leads the driver's process group, and its supervisor process ends the rest of it.
    """
    record = space.store.drivers.latest(stream)
    if record is None or record.exit is not None or record.process is None:
        return []
    return [
        f"[bold]Try[/]            kill -9 {record.process.pid}",
        f"               It kills the driver of {stream}. Within 5 s the fleet page shows that it was killed by",
        "               signal 9 and when it is started again: the first time at once. Half a minute later it runs.",
    ]


def _relative(path: str, project: Path) -> str:
    return str(Path(path).relative_to(project)) if Path(path).is_relative_to(project) else path
