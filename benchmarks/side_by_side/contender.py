"""What the comparison asks of a contender, and of one run of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks.side_by_side.jobs.job import Job

COMMIT_SECONDS = 1
"""How often each contender commits: the trigger, the checkpoint interval, the commit interval."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run works. The path of `root` is in the command line of each of its processes or of a parent.

    Args:
        servers: address of the broker; source, sink: its topics.
        batch: most records of one batch, for a contender that reads in batches.
    """

    root: Path
    servers: str
    source: str
    sink: str
    job: Job
    batch: int


Seen = tuple[float, Mapping[str, Any]]
"""When a row could be read (Unix seconds), and its columns."""


class Output(Protocol):
    """Where the rows come out."""

    def new(self) -> Iterable[Seen]:
        """The rows that came since the last call; waits a moment if there are none."""
        ...

    def close(self) -> None: ...


class Running(Protocol):
    """One run of a contender."""

    @property
    def output(self) -> Output: ...

    def kill(self) -> None:
        """SIGKILL to all that computes. What nobody else starts again is started again at once."""
        ...

    def ready(self) -> bool:
        """Whether all that its owner would have waiting for a kill is there."""
        ...

    def checkpoints(self) -> Sequence[float]:
        """Seconds of each checkpoint so far, as the contender reports them; none: it does not."""
        ...


class Contender(Protocol):
    """One line of the registry.

    Args:
        name: with its version, for the table.
        by_key: a window closes by the records of its own key alone, not by those of the stream.
    """

    name: str
    by_key: bool

    def cannot(self, job: Job) -> str | None:
        """Why there is no figure for this job; None: it can be run."""
        ...

    def install(self) -> None:
        """Make its environment, if it is not there. Raises ProcessError."""
        ...

    def run(self, place: Place) -> AbstractContextManager[Running]: ...
