"""The report of a drill is one model: Markdown and the terminal show its sentence, moments and rows."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from streamwarden.cli import output
from streamwarden.cli.commands.proofs import drilling
from streamwarden.drills.reporting.report import DrillReport, build_report, clock, distance, markdown
from support.streams.stored_journals import stored

EVERY = pytest.mark.parametrize("name", ["kill_driver", "kill_driver_begun", "retention_passed"])


def report_of(name: str) -> DrillReport:
    return build_report(*stored(name))


@EVERY
def test_the_markdown_has_the_sentence_every_moment_and_every_row(name: str) -> None:
    report, lines = report_of(name), markdown(report_of(name)).splitlines()
    assert report.sentence == lines[2]
    for row in report.rows:
        assert f"| {row.name} | {f'`{row.value}`' if row.literal else row.value} |" in lines
    for moment in report.timeline:
        assert f"| {clock(moment.at)} | {distance(moment)} | {moment.text} |" in lines


@EVERY
def test_the_terminal_shows_the_sentence_every_row_and_every_moment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, entries = stored(name)
    screen = StringIO()

    def console(*_: Any) -> Console:
        return Console(file=screen, force_terminal=True, width=2000, color_system=None)

    for module in (drilling, output):
        monkeypatch.setattr(module, "console", console)
    journals = SimpleNamespace(entries=lambda run_id: entries)
    drilling._show(run, SimpleNamespace(store=SimpleNamespace(journals=journals)))  # type: ignore[arg-type]
    shown, report = screen.getvalue(), report_of(name)
    assert f"{report.title}: {report.verdict}" in shown
    assert report.sentence in shown
    for row in (*report.rows, *report.explanations):
        assert row.name in shown
        assert row.value in shown
    assert all(moment.text in shown for moment in report.timeline)


def test_a_stack_trace_is_in_the_journal_and_not_in_the_report() -> None:
    run, entries = stored("kill_driver")
    trace = replace(entries[0], kind="traceback", message="Traceback (most recent call last)")
    assert "Traceback" not in markdown(build_report(run, [*entries, trace]))
