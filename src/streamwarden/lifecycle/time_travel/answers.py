"""A question about state, for the process that reads it, and its answers. Each travels as a JSON file.

Keys are tuples of texts, one for each field of the key; `fields` of an answer names them. A value is JSON.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from streamwarden.lifecycle.time_travel.tables import StateTable

Key = tuple[str | None, ...]


class Asked(StrEnum):
    """What is asked of the state."""

    SHOW = "show"
    HISTORY = "history"
    DIFF = "diff"
    PLACEMENT = "placement"
    EXPORT = "export"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question.

    Args:
        checkpoint: URI of a checkpoint that nobody changes meanwhile.
        batches: ascending; two for a difference, all of them for a history, else one.
        later: of a difference: URI of the checkpoint that has the second batch, if it is another one.
        keys: values of `--key`; empty: all keys.
        limit: rows, and entries of a sample, that the answer holds at most.
        format: of an export: `parquet` or `csv`.
        partitions: of a placement: how many partitions the state has.
    """

    asked: Asked
    checkpoint: str
    table: StateTable
    batches: tuple[int, ...]
    keys: tuple[str, ...] = ()
    limit: int = 20
    format: str = "parquet"
    later: str | None = None
    partitions: int = 0

    @property
    def sides(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Checkpoint and batch of both states of a difference."""
        before, after = self.batches
        return (self.checkpoint, before), (self.later or self.checkpoint, after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of state.

    Args:
        item: the key within a map variable, as JSON; value: None if the table keeps keys alone.
        expires_ms: Unix milliseconds, of the clock or of the watermark; None: it does not, or nothing says it.
    """

    partition: int
    key: Key
    item: str | None = None
    value: str | None = None
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Rows of a partition or a key. bytes: of their values; None: their type has no size that can be computed."""

    rows: int
    bytes: int | None
    partition: int | None = None
    key: Key = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """State after one batch.

    Args:
        rows: of the table, or of the keys that were asked for; entries: the first of them.
        partitions: the largest first. largest: keys, the largest first; empty if all have one row of one size.
    """

    fields: tuple[str, ...]
    rows: int
    entries: tuple[Entry, ...]
    partitions: tuple[Share, ...]
    largest: tuple[Share, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Rows of the asked keys after one batch, and the first of them."""

    batch: int
    rows: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The asked keys after each batch."""

    fields: tuple[str, ...]
    moments: tuple[Moment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One key in the state of two batches.

    Args:
        before, after: one row that only this state has, as JSON with its expiry; None: there is none.
    """

    key: Key
    rows_before: int
    rows_after: int
    bytes_before: int | None
    bytes_after: int | None
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference between the states of two batches. All counts are exact, and of keys unless they say rows.

    Args:
        changed: keys in both states whose rows, values or expiries differ.
        grew, shrank: those of them with more or fewer rows, or with more or fewer bytes of values.
        growth: keys that grew, the most first. sample: appeared, vanished and changed keys.
    """

    fields: tuple[str, ...]
    rows_before: int
    rows_after: int
    appeared: int
    vanished: int
    changed: int
    unchanged: int
    grew: int
    shrank: int
    growth: tuple[Change, ...] = ()
    sample: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """An export: how many rows it has. header: names of the columns, for CSV."""

    rows: int
    header: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Rows of a store, and how many of them are not in the partition in which a task looks for their key."""

    rows: int
    misplaced: int


Answer = Shown | History | Difference | Exported | Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why a question has no answer: the parts of an error. usage: the command line is wrong."""

    observed: str
    expected: str
    where: str
    next_step: str
    usage: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Batches after which the asked keys had the same rows."""

    first: int
    last: int
    moment: Moment


def stretches(moments: Sequence[Moment]) -> list[Stretch]:
    """The history as the stretches of batches in which nothing changed."""
    made: list[Stretch] = []
    for moment in moments:
        if made and _content(made[-1].moment) == _content(moment):
            made[-1] = replace(made[-1], last=moment.batch)
        else:
            made.append(Stretch(first=moment.batch, last=moment.batch, moment=moment))
    return made


def _content(moment: Moment) -> Moment:
    return replace(moment, batch=0)
