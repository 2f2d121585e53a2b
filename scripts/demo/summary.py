"""The demo's result on one screen: what ran, its health, and whether the output was right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from streamwarden.drills.journal import DrillRun
from streamwarden.drills.report import verdict_word
from streamwarden.health.check import ValueUnit
from streamwarden.health.checks import CHECKS
from streamwarden.services.workspace import Workspace

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
    facts = run.facts
    lines = [f"[bold]Drill[/] {run.drill}: {escape(run.reason)}"]
    fault = facts.get("fault")
    if fault:
        lines.append(f"  fault       {escape(' '.join(str(fault['message']).split()))}")
    counts = facts.get("reconciliation")
    if counts:
        lines.append(
            f"  output      [bold]{counts['lost']} lost, {counts['duplicated']} duplicated, {counts['unexpected']} "
            f"unexpected, {counts['wrong']} wrong[/] in {counts['actual']:,} rows from {counts['records']:,} flights"
        )
    judgement = facts.get("judgement")
    if judgement:
        word = "accepts" if judgement["success"] else "[bold red]rejects[/]"
        lines.append(f"  judge       {escape(str(judgement['judge']))} {word} the output")
    lines += _recovery(facts)
    return lines


def _recovery(facts: Mapping[str, Any]) -> list[str]:
    lines = []
    recovery = facts.get("recovery")
    if recovery and recovery.get("recovery_seconds") is not None:
        target = facts["drill"]["recovery"]["target"]
        lines.append(f"  recovery    measured {recovery['recovery_seconds']:.1f} s, target {target:.0f} s")
    for prediction in facts.get("predicted", []):
        if prediction["seconds"] is not None:
            formula = escape(str(prediction["formula"]))
            lines.append(f"              predicted {prediction['seconds']:.1f} s: {formula}")
    return lines


def _where(space: Workspace, run: DrillRun, url: str) -> list[str]:
    journal = run.facts.get("journal")
    lines = []
    if journal:
        lines.append(f"[bold]Journal[/] {escape(_relative(str(journal), space.project))} (report.md beside it)")
    lines.append(f"[bold]Airflow[/] {url}")
    data = _relative(str(space.data), space.project)
    lines.append(f"[bold]Shell[/]   STREAMWARDEN_DATA={data} .venv/bin/streamwarden status")
    return lines


def _relative(path: str, project: Path) -> str:
    return str(Path(path).relative_to(project)) if Path(path).is_relative_to(project) else path
