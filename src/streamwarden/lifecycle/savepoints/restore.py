"""The journal of a restore, which puts a stream back to a savepoint: what it was going to do, and where. Pure.

Everything that can be refused is refused before the journal is written, and all copies are made. What follows is a few
renames, or one transaction. From then on no driver is started until the restore is complete, and a restore that was
killed goes on from its journal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

RESTORED: Final = "restored"
"""Kind of the event of a stream's newest driver when its stream was put back; `by`, `reason` and `observed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Args:
    stamp: of all names that this restore gives: when it began.
    batch: the savepoint's; the stream goes on with the next one.
    output: what the sink has planned for its part.
    """

    savepoint: str
    stream: str
    query_id: str
    batch: int
    stamp: str
    by: str
    reason: str
    checkpoint: str
    output: Mapping[str, Any] = field(default_factory=dict)

    @property
    def prepared(self) -> str:
        """The copy that is going to be the checkpoint."""
        return f"{self.checkpoint}.restored-{self.stamp}"

    @property
    def aside(self) -> str:
        """Where the previous checkpoint is kept."""
        return f"{self.checkpoint}.before-{self.stamp}"


def journal_of(checkpoint: str) -> str:
    """The path of the journal, beside the checkpoint. It is there while a restore is not complete."""
    return f"{checkpoint.rstrip('/')}.restore.json"
