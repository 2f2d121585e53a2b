"""What a job is to the comparison: its input, its question, and how a row of its output reads. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from streamwarden.verification.oracle import RunFacts

Record = Mapping[str, Any]
Releases = Callable[[tuple[object, ...]], int | None]
"""The key of an output row -> the number of the record that completes it; None: it is not known."""


@dataclass(frozen=True)
class Job:
    """One job of the catalogue.

    Args:
        stream: the file in `config/streams` that declares it.
        partitions: of its topic.
        share: of the records of a load that it gets: one that computes more for each gets fewer.
        key: a record's key: all that belongs together is in one partition.
        lines: so many input lines, in the order in which they are sent.
        closing: lines that complete every row of those before; what they begin themselves stays open.
        facts: the whole input as one batch, for the oracle.
        row: (key, values) of an output row, from the columns that do not depend on when the job ran.
        releases: which record completes a row, when it moves the clock of all keys, or of its own key alone.
    """

    name: str
    stream: str
    partitions: int
    share: float
    key: Callable[[Record], str]
    lines: Callable[[int], Sequence[str]]
    closing: Callable[[Sequence[str]], Sequence[str]]
    facts: Callable[[Path, Sequence[Record]], RunFacts]
    row: Callable[[Record], tuple[tuple[object, ...], tuple[object, ...]]]
    releases: Callable[[Sequence[Record], bool], Releases]


def milliseconds(value: object) -> int:
    """Unix milliseconds of an instant as one of the contenders writes it. Raises ValueError."""
    if isinstance(value, int):
        return value
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def in_one_batch(path: Path, newest: int | None = None, delay: int = 0, args: tuple[str, ...] = ()) -> RunFacts:
    """A run that reads the file in its first batch; `newest`, `delay`: of its watermark, Unix milliseconds."""
    if newest is None:
        return RunFacts(files={0: [path]}, watermarks={0: 0}, times={0: 1}, committed=0, args=args)
    return RunFacts(files={0: [path]}, watermarks={0: 0, 1: newest - delay}, committed=1, args=args)
