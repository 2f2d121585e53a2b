"""The report of a drill as one HTML page: no script, nothing loaded, every text escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Final

from streamwarden.drills.journal import JournalEntry
from streamwarden.drills.report import DrillReport, ReportRow, show_time

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1c2430;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #dde3ea}
th{width:14rem;font-weight:600}.verdict{display:inline-block;padding:.1rem .6rem;border-radius:.3rem;color:#fff}
.PASSED{background:#1a7f37}.DEVIATED,.FAILED{background:#b42318}.ABORTED{background:#9a6700}.RUNNING{background:#0969da}
pre{background:#f4f6f8;padding:.6rem;overflow:auto;white-space:pre-wrap}
@media(prefers-color-scheme:dark){body{color:#d7dee7;background:#12171e}th,td{border-color:#2a3441}
pre{background:#1b232d}}
"""


def drill_page(report: DrillReport) -> str:
    """The whole page."""
    sections = [
        _section("Run", _rows(report.rows)),
        _section("Steps", _rows(report.steps)),
        *(_section(each.title, _json(each.data)) for each in report.details),
        _section("What happened", _entries(report.entries)),
    ]
    title, word = escape(report.title), report.verdict
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{title}: {word}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{title} <span class='verdict {word}'>{word}</span></h1>"
        f"<p>{escape(report.reason)}</p>{''.join(sections)}</body></html>"
    )


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


def _json(value: object) -> str:
    return f"<pre>{escape(json.dumps(value, indent=1, sort_keys=True))}</pre>"
