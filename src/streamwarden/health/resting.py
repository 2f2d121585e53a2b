"""Checks that rest: what they judge changes in hours and costs much to read, so it is read every five to ten minutes.

In between, the verdict of the last reading stands, and its evidence says when that was. Only an OK stands.
"""

from dataclasses import replace
from typing import Final
from zlib import crc32

from streamwarden.health.check import Check
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window

MEASURED_AT: Final = "measured_at"
"""In the evidence of a check that rests: when what it judges was read, Unix seconds."""
_QUERY: Final = "measured_query"

MEASURED_EVERY: Final = 600.0
"""Seconds between two readings at most."""


def is_resting(check: Check, stream: str, newest: Verdict | None, now: float) -> bool:
    """Whether the newest verdict of the check on the stream stands at `now` (Unix seconds).

    The streams that one evaluation read for the first time come apart: each has a period of its own, from half of
    `MEASURED_EVERY` on.
    """
    if not check.rests or newest is None or newest.status is not Status.OK or _QUERY not in newest.evidence:
        return False
    at = newest.evidence.get(MEASURED_AT)
    period = MEASURED_EVERY * (0.5 + crc32(stream.encode()) % 100 / 200)
    return isinstance(at, int | float) and 0 <= now - at < period


def as_measured_last(check: Check, window: Window) -> Verdict:
    """The last verdict again, if it is about the query that runs now: nothing was read since."""
    last, query = window.previous.get(check.name), window.log and window.log.query_id
    if last is None or last.status is not Status.OK or last.evidence.get(_QUERY) != query:
        return check.verdict(window, Status.UNKNOWN, "what this check reads was not read yet of this query")
    return replace(last, at=window.now)


def measured_now(window: Window, verdict: Verdict) -> Verdict:
    """`verdict`, which says when and of which query it was measured."""
    query = window.log and window.log.query_id
    return replace(verdict, evidence={**verdict.evidence, MEASURED_AT: window.now, _QUERY: query})
