"""The journal of an exchange, by which a prepared checkpoint takes the place of a stopped stream's one. Pure.

Everything that can be refused is refused before the journal is written, and all copies are made. What follows is a few
renames, or one transaction. From then on no driver is started until the exchange is complete, and one that was killed
goes on from its journal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from streamwarden.lifecycle.location import plain_path

RESTORED: Final = "restored"
"""Kind of the event of a stream's newest driver when its stream was put back; `by`, `reason` and `observed`."""

REWRITTEN: Final = "rewritten"
"""Kind of the event of a stream's newest driver when its checkpoint was rewritten; with the same details."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Args:
    operation: its name, as "restore".
    goes_back: the stream goes back to an earlier batch, and its output with it. False: the state has other files or
        other content, and nothing of the output is taken back.
    subject: what the operation was asked for, as the savepoint's id: the same request completes it.
    command: the command line that completes it.
    batch: the newest committed one of the prepared checkpoint; the stream goes on with the next one. A rewritten
        checkpoint may have one more than the output.
    planned_ms: when that batch was planned, Unix milliseconds; 0: it does not matter.
    stamp: of all names that this exchange gives: when it began.
    output: what the sink has planned for its part.
    proof: what a fork has proven of the prepared checkpoint; empty: nothing.
    """

    operation: str
    goes_back: bool = False
    subject: str
    command: str
    stream: str
    query_id: str
    batch: int
    stamp: str
    by: str
    reason: str
    checkpoint: str
    output: Mapping[str, Any] = field(default_factory=dict)
    proof: str = ""
    planned_ms: int = 0

    @property
    def prepared(self) -> str:
        """The copy that is going to be the checkpoint."""
        return f"{self.checkpoint}{PREPARED}{self.stamp}"

    @property
    def aside(self) -> str:
        """Where the previous checkpoint is kept."""
        return f"{self.checkpoint}.before-{self.stamp}"

    @property
    def event(self) -> str:
        """Kind of the driver event that says it."""
        return RESTORED if self.goes_back else REWRITTEN


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPlan:
    """What a sink is going to do when its stream goes back.

    Args:
        words: a sentence, with the counts.
        document: what the sink needs for it, as JSON-like data.
        remains: what it cannot take back, and what readers have to do about it; a person has to confirm it. Empty:
            everything is taken back.
    """

    words: str
    document: Mapping[str, Any] = field(default_factory=dict)
    remains: str = ""


PREPARED: Final = ".prepared-"
"""Between the checkpoint's path and the stamp."""


def stamp_of(at: float) -> str:
    """The stamp of an exchange that began then, Unix seconds."""
    return f"{datetime.fromtimestamp(at, UTC):%Y%m%dT%H%M%S.%fZ}"


def journal_of(checkpoint: str) -> str:
    """The path of the journal, beside the checkpoint. It is there while an exchange is not complete."""
    return f"{plain_path(checkpoint)}.exchange.json"
