"""The report of a drill as one HTML page: no script, nothing loaded, every text escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

from streamwarden.drills.journal import DrillRun, JournalEntry
from streamwarden.drills.report import verdict_word
from streamwarden.units import format_duration

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


def drill_page(run: DrillRun, entries: Sequence[JournalEntry]) -> str:
    """The whole page."""
    word = verdict_word(run)
    facts = run.facts
    counts, judgement = facts.get("reconciliation"), facts.get("judgement")
    sections = [
        _section("Run", _rows(_run(run))),
        _section("Steps", _rows(_steps(facts.get("steps") or {}))),
        _section("Output", _rows(_counts(counts))) if counts else "",
        _section("Judge", _json(judgement)) if judgement else "",
        _section("Told", _json(facts["told"])) if facts.get("told") else "",
        _section("Recovery", _json({"measured": facts.get("recovery"), "predicted": facts.get("predicted")})),
        _section("Fault", _json(facts.get("fault"))) if facts.get("fault") else "",
        _section("What happened", _entries(entries)),
    ]
    title = f"Drill {run.drill} on {run.stream}"
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}: {word}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)} <span class='verdict {word}'>{word}</span></h1>"
        f"<p>{escape(run.reason or 'The drill is still running.')}</p>{''.join(sections)}</body></html>"
    )


def _run(run: DrillRun) -> Iterable[tuple[str, object]]:
    yield "run", run.run_id
    yield "started", _time(run.started_at)
    if run.ended_at is not None:
        yield "took", format_duration(run.ended_at - run.started_at)
    yield "completed", run.status.value
    yield "deviated", {None: "not known", True: "yes", False: "no"}[run.deviated]
    if "journal" in run.facts:
        yield "journal", run.facts["journal"]


def _steps(steps: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    for name, done in steps.items():
        yield name, f"{done.get('outcome')}: {done.get('message')}"


def _counts(counts: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    for kind in ("records", "expected", "actual", "lost", "duplicated", "unexpected", "wrong"):
        yield kind, counts.get(kind)
    for kind, rows in (counts.get("samples") or {}).items():
        yield f"{kind}, for example", "; ".join(map(str, rows))


def _entries(entries: Sequence[JournalEntry]) -> str:
    rows = [
        f"<tr><td>{_time(entry.at)}</td><td>{escape(entry.step.value)}</td><td>{escape(entry.kind)}</td>"
        f"<td>{escape(entry.message)}</td></tr>"
        for entry in entries
    ]
    return f"<table>{''.join(rows)}</table>"


def _section(title: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2>{body}"


def _rows(rows: Iterable[tuple[str, object]]) -> str:
    cells = (f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows)
    return f"<table>{''.join(cells)}</table>"


def _json(value: object) -> str:
    return f"<pre>{escape(json.dumps(value, indent=1, sort_keys=True, default=str))}</pre>"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
