"""Renders templates: every text is escaped, numbers and times read as in the CLI."""

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import bokeh
from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

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
_INLINE_CODE: Final = re.compile(r"`([^`\n]+)`")
_TURNS: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Unicode's characters for the direction of text."""
STATIC: Final = Path(__file__).parent / "static"
_BOKEH: Final = Path(bokeh.__file__).parent / "server" / "static" / "js"

ASSETS: Final = {
    "pages.css": (STATIC / "pages.css", "text/css"),
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
        "utc": lambda at: utc(at).replace(" ", _UNBROKEN),
        "safe_text": redacted_text,
        "fact": lambda value, name: redacted_text(format_fact(name, value)),
        "prose": lambda text: unbroken(redacted_text(text)),
        "coded": coded,
        "spark": sparkline,
        "verdict": verdict_word,
        "clock": clock,
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


def coded(text: str) -> Markup:
    """A text for people. Its `inline code` is shown as such, without the signs around it, and as a person may copy it."""
    parts = _INLINE_CODE.split(redacted_text(text))
    prose, code = ([escape(visible(part)) for part in found] for found in (map(unbroken, parts[::2]), parts[1::2]))
    shown = [Markup("<code>{}</code>").format(part) for part in code]
    return Markup("").join(part for pair in zip_longest(prose, shown, fillvalue="") for part in pair)


def rate(per_second: float | None) -> str:
    """`12,345`, `3.2`, `0`."""
    if per_second is None:
        return "–"
    return f"{per_second:,.0f}" if per_second >= 10 or not per_second else f"{per_second:.1f}"


def unbroken(text: str) -> str:
    """The text with a no-break space between each number and its unit. Not for what a person may copy and run."""
    return _BEFORE_UNIT.sub(_UNBROKEN, text)


def utc(at: float | None) -> str:
    """`2026-01-31 12:00:00`, UTC."""
    return "–" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def sparkline(points: Sequence[tuple[float, float]], width: int = 72, height: int = 18) -> str:
    """The points of an SVG polyline in a box of this size; empty for fewer than two."""
    if len(points) < 2:
        return ""
    first, last = points[0][0], points[-1][0]
    top = max(value for _, value in points) or 1.0
    across, up = (width - 2) / ((last - first) or 1.0), (height - 2) / top
    return " ".join(f"{1 + (at - first) * across:.1f},{height - 1 - value * up:.1f}" for at, value in points)
