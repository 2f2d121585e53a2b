"""Why a stream needs a look: one line of it, and the place in the job that it names. Pure."""

import re
from dataclasses import dataclass
from typing import Final

from streamwarden.health.verdict import ALARMS
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.after_exit import Next
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.services.overview.rows import StreamRow
from streamwarden.services.overview.standing import LACKING

_PLACED: Final = re.compile(r"(?:\S.*?[/\\])?([^/\\\s:]+):(\d+): (.+)")
"""`/srv/jobs/orders.py:46: KeyError: 'gate'`: a job's own error, as a driver records it."""
_QUOTED: Final = re.compile(r"""(\w+: )(["'])(.+)\2""")
"""Python quotes the text of a KeyError once more."""
_SPEAKS: Final = frozenset({"stopped", "broken", "unresponsive", "unseen", "ended"})
"""States whose own sentence is the reason."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One line; `place`: `FILE:LINE` of the job if the reason names it."""

    text: str
    place: str = ""


FOLLOWS: Final = {
    Next.RESTARTS: "restarts",
    Next.LEFT_DOWN: "left down",
    Next.PAUSED: "its DAG is paused",
    Next.UNSUPERVISED: "nothing restarts it",
}
"""What becomes of a stream that is down, in few words; its page says why, and what to do."""


def follows(row: StreamRow) -> str:
    """Empty unless the stream is down and it is known."""
    return "" if row.after_exit is None else FOLLOWS.get(getattr(row.after_exit, "next"), "")  # noqa: B009  # derived


def reason(row: StreamRow) -> Reason | None:
    """Why the stream is not simply running; None if there is nothing to say."""
    if row.state == "down" and row.last_exit is not None:
        return of_exit(row.last_exit)
    if row.state in _SPEAKS or row.state in LACKING or not row.declared:
        return _line(row.sentence)
    if row.health not in ALARMS or not row.shows_health:
        return None
    causes = [cause for cause in row.health_causes if cause != row.state]
    return _line(": ".join(part for part in (causes[0] if causes else "", row.health_reason) if part))


def of_exit(exit: ExitRecord) -> Reason:
    """The end of a driver: the error and its place in the job, or how the process ended."""
    line = exit.message.partition("\n")[0]
    placed = _PLACED.fullmatch(line)
    if exit.kind is not ExitKind.FAILED or placed is None:
        return Reason(describe(exit))
    file, number, said = placed.groups()
    quoted = _QUOTED.fullmatch(said)
    text = f"{quoted[1]}{quoted[3]}" if quoted else said
    named = exit.error_class is None or exit.error_class in text
    return Reason(text if named else f"{exit.error_class}: {text}", f"{file}:{number}")


def _line(text: str) -> Reason | None:
    return Reason(" ".join(text.split())) if text.strip() else None
