"""The report of a drill is one model: Markdown, the web page and the terminal show each of its rows."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from streamwarden.airflow.pages import drill_page
from streamwarden.cli import drilling, output
from streamwarden.drills.report import DrillReport, build_report, markdown
from support.stored_journals import stored

EVERY = pytest.mark.parametrize("name", ["kill_driver", "kill_driver_begun", "retention_passed"])


def report_of(name: str) -> DrillReport:
    return build_report(*stored(name))


@EVERY
def test_the_markdown_has_every_row_and_every_entry(name: str) -> None:
    report, lines = report_of(name), markdown(report_of(name)).splitlines()
    for row in report.rows:
        assert f"| {row.name} | {f'`{row.value}`' if row.literal else row.value} |" in lines
    assert len([line for line in lines if line.startswith("- ")]) == len(report.entries)


@EVERY
def test_the_page_has_every_row_every_step_and_the_evidence(name: str) -> None:
    report = report_of(name)
    page = drill_page(report)
    for row in (*report.rows, *report.steps):
        assert f"<th>{escape(row.name)}</th><td>{escape(row.value)}</td>" in page
    assert [detail.title for detail in report.details if f"<h2>{detail.title}</h2>" not in page] == []
    assert page.count("<tr><td>") == len(report.entries)


@EVERY
def test_the_terminal_shows_every_row_and_every_entry(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
    for row in report.rows:
        assert row.name in shown
        assert row.value in shown
    assert all(entry.message in shown for entry in report.entries)


def test_a_stack_trace_is_in_the_journal_and_not_in_the_report() -> None:
    run, entries = stored("kill_driver")
    trace = replace(entries[0], kind="traceback", message="Traceback (most recent call last)")
    assert "Traceback" not in markdown(build_report(run, [*entries, trace]))
