"""The page of the faults, from what each fault declares about itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from streamwarden.drills.faults import FAULTS, ExpectedEnd, Fault
from streamwarden.drills.faults.base import Description

EXPECTED: Final[Mapping[ExpectedEnd, str]] = {
    ExpectedEnd.LIVES: "recovers by itself: the driver goes on",
    ExpectedEnd.REPLACED: "recovers by itself: another driver takes over, and the struck one ends",
    ExpectedEnd.MAY_END: "recovers by itself, or after a restart if the driver gives up",
    ExpectedEnd.ENDS: "recovers after a restart",
    ExpectedEnd.REFUSES: "refuses to go on, with an error that names the cause; recovers after the documented "
    "remediation",
}
"""What a stream has to do after a fault, by what the fault declares: anything else is a deviation."""

_HEAD: Final = """\
# Faults

What a drill can do to a stream, what has to happen then, and what to do when it happens outside of a drill. A drill
deviates if anything else happens. [The guide](how-to/drills.md) explains drills and how each fault is set up.

"""

_PARTS: Final = (
    ("What the drill does", "does"),
    ("What Spark and the sink promise", "promise"),
    ("Seen in drills", "seen"),
    ("What to do", "next_step"),
)
"""Heading -> field of a description."""


def page() -> str:
    """The whole page, in Markdown."""
    return _HEAD + "\n".join(_section(kind, fault) for kind, fault in FAULTS.items())


def _section(kind: str, fault: type[Fault]) -> str:
    """A fault with what it does; one whose options differ has a table of them."""
    varies = fault.variants and fault.needs_options()
    common = () if varies else (f"- **Expected**: the stream {EXPECTED[fault.expected_end]}.",)
    lines = [f"## {kind}", "", *common, *_bullets(fault.description), *_proof(fault), _live(fault)]
    if fault.variants:
        lines += ["", f"| Option | Expected: the stream | {' | '.join(title for title, _ in _PARTS)} |"]
        lines += [f"|{'---|' * (len(_PARTS) + 2)}", *_rows(fault)]
    return "\n".join(lines) + "\n"


def _live(fault: type[Fault]) -> str:
    may = "allowed" if fault.live.allowed else "refused"
    return f"- **On a [live stream](how-to/drills.md#on-the-live-stream)**: {may}, because {fault.live.reason}."


def _proof(fault: type[Fault]) -> Iterator[str]:
    yield f"- **Proof that it landed**: {fault.proof}"
    yield f"- **Recovery**: {fault.recovery}"


def _bullets(each: Description) -> Iterator[str]:
    yield from (f"- **{title}**: {getattr(each, name)}" for title, name in _PARTS)


def _rows(fault: type[Fault]) -> Iterator[str]:
    for spelled, (expected_end, each) in fault.variants.items():
        cells = (f"`{spelled}`", EXPECTED[expected_end], *(getattr(each, name) for _, name in _PARTS))
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
