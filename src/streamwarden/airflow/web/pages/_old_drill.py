"""The report of a drill as one HTML page: no script, nothing loaded, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from streamwarden.drills.journal import JournalEntry
from streamwarden.drills.report import DrillReport, ReportRow, clock, distance, show_time
from streamwarden.drills.timeline import Moment

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1c2430;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #dde3ea}
th{width:14rem;font-weight:600}.verdict{display:inline-block;padding:.1rem .6rem;border-radius:.3rem;color:#fff}
.PASSED{background:#1a7f37}.DEVIATED,.FAILED{background:#b42318}.ABORTED{background:#9a6700}.RUNNING{background:#0969da}
.sentence{font-size:1.15rem;max-width:48rem}.time{width:1%;white-space:nowrap;padding-right:2rem;
font-variant-numeric:tabular-nums}.what{width:auto}
td{overflow-wrap:anywhere}details{margin-top:2rem}summary{cursor:pointer}
@media(prefers-color-scheme:dark){body{color:#d7dee7;background:#12171e}th,td{border-color:#2a3441}a{color:#6cb6ff}}
"""


def drill_page(report: DrillReport) -> str:
    """The whole page."""
    sections = [
        _section("Timeline", _timeline(report.timeline)),
        _section("Evidence", _rows(report.rows)),
        _section("How the recovery was predicted", _rows(report.explanations)) if report.explanations else "",
        f"<p><a href='../api/drills/{escape(report.run_id)}'>The journal as JSON</a></p>",
        f"<details><summary>Every line of the journal</summary>{_entries(report.entries)}</details>",
    ]
    title, word = escape(report.title), report.verdict
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{title}: {word}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{title} <span class='verdict {word}'>{word}</span></h1>"
        f"<p class='sentence'>{escape(report.sentence)}</p>{''.join(sections)}</body></html>"
    )


def _timeline(moments: Iterable[Moment]) -> str:
    rows = [
        f"<tr><td class='time'>{clock(each.at)}</td><td class='time'>{distance(each)}</td>"
        f"<td>{escape(each.text)}</td></tr>"
        for each in moments
    ]
    head = "<tr><th class='time'>UTC</th><th class='time'>from the fault</th><th class='what'>what happened</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _rows(rows: Iterable[ReportRow]) -> str:
    cells = (f"<tr><th>{escape(row.name)}</th><td>{escape(row.value)}</td></tr>" for row in rows)
    return f"<table>{''.join(cells)}</table>"


def _entries(entries: Iterable[JournalEntry]) -> str:
    rows = [
        f"<tr><td>{show_time(entry.at)}</td><td>{escape(entry.step.value)}</td><td>{escape(entry.kind)}</td>"
        f"<td>{escape(entry.message)}</td></tr>"
        for entry in entries
    ]
    return f"<table>{''.join(rows)}</table>"


def _section(title: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2>{body}"
