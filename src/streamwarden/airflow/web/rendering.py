"""Renders templates: every text is escaped, numbers and times read as in the CLI."""

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import bokeh
from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from streamwarden.airflow.web.words.badge import of_incident
from streamwarden.airflow.web.words.commands import Piece, pieces
from streamwarden.airflow.web.words.drills import broken_words, fault_words
from streamwarden.airflow.web.words.moments import due_words, since_words
from streamwarden.drills.reporting.report import clock, distance, verdict_word
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.lifecycle.time_travel.answers import stretches
from streamwarden.lifecycle.time_travel.bounds import LONGEST as LONGEST_VALUE
from streamwarden.redaction import redacted_text
from streamwarden.services.overview import state_words
from streamwarden.services.overview.anatomy import moment_words, replay_words, versions_words
from streamwarden.services.overview.rows import StreamRow
from streamwarden.units import format_duration, format_fact, format_size

_UNBROKEN: Final = "\N{NO-BREAK SPACE}"
_BEFORE_UNIT: Final = re.compile(
    r"(?<=\d) (?=(?:ms|s|min|m|h|d|B|kB|MB|GB|TB|rows|batch(?:es)?|%)(?!\w))|(?<=\d[dhm]) (?=\d+[hms]\b)"
)
_TURNS: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Unicode's characters for the direction of text."""
_COUNTS: Final = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
STATIC: Final = Path(__file__).parent / "static"
_BOKEH: Final = Path(bokeh.__file__).parent / "server" / "static" / "js"

ASSETS: Final = {
    "pages.css": (STATIC / "pages.css", "text/css"),
    "times.js": (STATIC / "times.js", "text/javascript"),
    "pages.js": (STATIC / "pages.js", "text/javascript"),
    "actions.js": (STATIC / "actions.js", "text/javascript"),
    "tips.js": (STATIC / "tips.js", "text/javascript"),
    "charts.js": (STATIC / "charts.js", "text/javascript"),
    "bokeh.min.js": (_BOKEH / "bokeh.min.js", "text/javascript"),
    "bokeh-api.min.js": (_BOKEH / "bokeh-api.min.js", "text/javascript"),
}
"""Every file that a page loads; there is no other. Bokeh's are those of its own package."""

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_STYLES_OF_CHARTS: Final = "'unsafe-inline'"
"""Bokeh styles the parts of a chart with <style> elements in their shadow trees."""


def policy(*, charts: bool) -> str:
    """The Content-Security-Policy of a page: only our own files, no inline script, no `eval`; shown only by Airflow."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            f"style-src 'self' {_STYLES_OF_CHARTS}" if charts else "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'self'",
        )
    )


@cache
def environment() -> Environment:
    """The templates, with the filters that they use."""
    env = Environment(
        loader=PackageLoader("streamwarden.airflow.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible,
    )
    env.filters |= {
        "size": lambda count: unbroken(format_size(count)) if count is not None else "–",
        "duration": lambda seconds: unbroken(format_duration(seconds)) if seconds is not None else "–",
        "rate": rate,
        "number": lambda count: f"{count:,}" if count is not None else "–",
        "utc": lambda at: moment(at, "full"),
        "instant": lambda at: moment(at, "named"),
        "utc_text": lambda at: utc(at).replace(" ", _UNBROKEN),
        "safe_text": redacted_text,
        "fact": lambda value, name: redacted_text(format_fact(name, value)),
        "prose": lambda text: unbroken(redacted_text(text)),
        "marked_up": marked_up,
        "spark": sparkline,
        "verdict": verdict_word,
        "clock": lambda at: moment(at, "clock"),
        "distance": distance,
        "exit_words": describe,
        "replay": replay_words,
        "batches": versions_words,
        "moment": moment_words,
        "state_key": state_words.key_words,
        "state_value": lambda entry: state_words.value_words(entry.value, entry.item, longest=LONGEST_VALUE),
        "changed_entry": state_words.changed_entry,
        "happened": state_words.what_happened,
        "stretches": stretches,
        "since_words": lambda at, now: moment(at, "since", now),
        "due_words": lambda at: moment(at, "due"),
        "fault_words": fault_words,
        "broken_words": broken_words,
        "incident_badge": of_incident,
    }
    return env


def page(request: Request, template: str, *, charts: bool = False, status: int = 200, **values: Any) -> HTMLResponse:
    """The rendered page. `charts`: it draws some, and loads what that takes."""
    prefix = str(request.scope.get("root_path", ""))
    html = (
        environment()
        .get_template(template)
        .render(
            prefix=prefix,
            airflow=prefix.rpartition("/")[0],
            asset=lambda name: f"{prefix}/static/{fingerprint()}/{name}",
            charts=charts,
            clock_now=f"{time.time():.3f}",
            status=status,
            **values,
        )
    )
    headers = {**HEADERS, "Content-Security-Policy": policy(charts=charts)}
    return HTMLResponse(html, status_code=status, headers=headers)


class KeptRows:
    """Rows of the fleet as HTML: a row is rendered again only if it has changed. Threads may share it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, bool], tuple[StreamRow, Markup]] = {}

    def html(self, row: StreamRow, prefix: str, wide: bool, said: Callable[[StreamRow], Mapping[str, Any]]) -> Markup:
        """The row. `said`: what else the template says of it, made of the row alone."""
        key = (row.stream, prefix, wide)
        before = self._kept.get(key)
        if before is not None and (before[0] is row or before[0] == row):
            return before[1]
        template = environment().get_template("fleet_row.html")
        made = Markup(template.render(row=row, prefix=prefix, wide=wide, **said(row)))  # noqa: S704  # autoescaped
        self._kept[key] = row, made
        return made


@cache
def fingerprint() -> str:
    """Changes with every asset: a browser keeps each as long as it likes."""
    digest = hashlib.sha256()
    for path, _ in ASSETS.values():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def visible(value: Any) -> Any:
    """A text without characters that turn the direction of what follows: with one of them a message shows itself as
    another one. They are shown as codes. Whatever a template prints passes here."""
    return _TURNS.sub(_code, value) if type(value) is str and not value.isascii() else value


def _code(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def rate(per_second: float | None) -> str:
    """`1.2M`, `12.3k`, `457`, `3.2`, `0`: three digits at most."""
    if per_second is None:
        return "–"
    size, unit = next(((size, unit) for size, unit in _COUNTS if per_second >= 0.9995 * size), (1, ""))
    count = per_second / size
    return f"{count:.0f}{unit}" if count >= 99.95 or not count else f"{count:.1f}{unit}"


def marked_up(text: str, prefix: str | None = None) -> Markup:
    """A text as HTML, without secrets. Text between backticks becomes code, or a link if a page replaces the command.

    Args:
        prefix: of the addresses of the pages; None: no links.
    """
    return Markup("").join(_piece(piece, prefix) for piece in pieces(redacted_text(text)))


def _piece(piece: Piece, prefix: str | None) -> Markup:
    if piece.path is not None and prefix is None:
        return Markup("<code>{}</code>").format(visible(piece.command))
    shown = visible(piece.text)
    if piece.path is not None:
        return Markup('<a href="{}">{}</a>').format(f"{prefix}{piece.path}", shown)
    return Markup("<code>{}</code>").format(shown) if piece.code else escape(unbroken(shown))


def unbroken(text: str) -> str:
    """The text with a no-break space between each number and its unit. Not for what a person may copy and run."""
    return _BEFORE_UNIT.sub(_UNBROKEN, text)


def utc(at: float | None) -> str:
    """`2026-01-31 12:00:00`, UTC."""
    return "–" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


_SHAPES: Final[Mapping[str, Callable[[float, float], str]]] = {
    "full": lambda at, now: utc(at).replace(" ", _UNBROKEN),
    "named": lambda at, now: f"{utc(at).replace(' ', _UNBROKEN)} UTC",
    "clock": lambda at, now: clock(at),
    "since": since_words,
    "due": lambda at, now: due_words(at),
}
"""How a time is written. times.js writes each in the zone of Airflow's clock menu."""


def moment(at: float | None, shape: str, now: float = 0.0) -> Markup:
    """A time in UTC, as an element that times.js writes in the zone that the person chose."""
    if at is None:
        return Markup("–")
    return Markup('<time data-moment="{:.3f}" data-shape="{}">{}</time>').format(at, shape, _SHAPES[shape](at, now))


def sparkline(points: Sequence[tuple[float, float]], width: int = 72, height: int = 18) -> str:
    """The points of an SVG polyline in a box of this size; empty for fewer than two."""
    if len(points) < 2:
        return ""
    first, last = points[0][0], points[-1][0]
    top = max(value for _, value in points) or 1.0
    across, up = (width - 2) / ((last - first) or 1.0), (height - 2) / top
    return " ".join(f"{1 + (at - first) * across:.1f},{height - 1 - value * up:.1f}" for at, value in points)
