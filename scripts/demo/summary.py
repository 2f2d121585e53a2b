"""The demo's result on one screen: what ran, its health, and whether the output was right."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from streamwarden.drills.journal import DrillRun
from streamwarden.drills.report import build_report, one_line, verdict_word
from streamwarden.drills.state import RunState
from streamwarden.health.check import ValueUnit
from streamwarden.health.checks import CHECKS
from streamwarden.services.workspace import Workspace

_ROWS = ("fault", "output", "judge", "recovery measured", "recovery predicted")
"""What is shown of the evidence; the report beside the journal has all of it."""

_COLOURS = {"OK": "green", "WARNING": "yellow", "CRITICAL": "bold red", "UNKNOWN": "dim"}


def summary(space: Workspace, run: DrillRun, *, stream: str, url: str) -> RenderableType:
    """The stream, its health, the drill, and where the details are."""
    colour = "green" if run.passed else "red"
    return Panel(
        Group(_stream(space, stream), "", _health(space, stream), "", *_drill(run), "", *_where(space, run, url)),
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


def _where(space: Workspace, run: DrillRun, url: str) -> list[str]:
    journal = RunState.of(run).journal
    lines = []
    if journal:
        lines.append(f"[bold]Journal[/] {escape(_relative(journal, space.project))} (report.md beside it)")
    lines.append(f"[bold]Airflow[/] {url}")
    data = _relative(str(space.data), space.project)
    lines.append(f"[bold]Shell[/]   STREAMWARDEN_DATA={data} .venv/bin/streamwarden status")
    return lines


def _relative(path: str, project: Path) -> str:
    return str(Path(path).relative_to(project)) if Path(path).is_relative_to(project) else path
