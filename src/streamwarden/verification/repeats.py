"""The rules of deduplication, as Spark defines them, implemented independently.

Within a watermark:
- A row is late iff its time <= the watermark of the previous batch. It is dropped and not remembered.
- The first row of an identity that is not late is emitted at once. It is remembered until the watermark of some batch
  reaches its time + the watermark's delay. Until then every other row of the identity is a repeat and is dropped.
- Rows are forgotten when a batch ends, so a repeat in that same batch is still recognised.

Without a watermark nothing is late and nothing is ever forgotten.

If one batch has several rows of one identity, it is undefined which of them is the first, because the rows of a batch
have no order. It makes no difference if they are equal. If they are not, the output depends on chance: a `clash`.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from streamwarden.verification.batches import InputBatch, InputReplay, some
from streamwarden.verification.oracle import Expectation, RowCounts, RunFacts
from streamwarden.verification.reconciliation import Key, Values

__all__ = ["Firsts", "firsts", "once_each"]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Firsts(Generic[R]):
    """The result for all rows, as (batch, row) in the order of the batches. Each row is in one of the first three.

    Args:
        clashes: repeats that differ from the first row of their identity in the same batch.
        remembered: identities that are remembered after the last batch.
    """

    emitted: list[tuple[int, R]] = field(default_factory=list)
    repeats: list[tuple[int, R]] = field(default_factory=list)
    late: list[tuple[int, R]] = field(default_factory=list)
    clashes: list[tuple[int, R]] = field(default_factory=list)
    remembered: set[Hashable] = field(default_factory=set)


def firsts(
    steps: Iterable[InputBatch[R]], *, identity: Callable[[R], Hashable], at: Callable[[R], int], delay: int | None
) -> Firsts[R]:
    """The first row of each identity of a bounded input, read in `steps`.

    Args:
        delay: of the watermark, milliseconds; None: there is no watermark, and no identity is ever forgotten.
    """
    result: Firsts[R] = Firsts()
    expiry: dict[Hashable, int] = {}
    for step in steps:
        of_this_batch: dict[Hashable, R] = {}
        for row in step.rows:
            key = identity(row)
            if delay is not None and at(row) <= step.closed:
                result.late.append((step.batch, row))
            elif key in expiry:
                result.repeats.append((step.batch, row))
                if key in of_this_batch and of_this_batch[key] != row:
                    result.clashes.append((step.batch, row))
            else:
                expiry[key] = at(row) + (delay or 0)
                of_this_batch[key] = row
                result.emitted.append((step.batch, row))
        if delay is not None:
            expiry = {key: end for key, end in expiry.items() if end > step.mark}
    result.remembered.update(expiry)
    return result


def once_each(
    found: Firsts[R],
    run: InputReplay[R],
    facts: RunFacts,
    *,
    key_columns: Sequence[str],
    value_columns: Sequence[str],
    row: Callable[[R], tuple[Key, Values]],
    what: str,
    name: Callable[[R], str],
    notes: Mapping[str, object],
    types: Mapping[str, str] | None = None,
    complete: bool = False,
) -> Expectation:
    """The expectation of a job whose output is the first rows, unchanged.

    Args:
        found: the firsts of `run`.
        row: key and values of a row of the output.
        types, complete: of the output's columns; see `Expectation`.
        what: the name of the rows of one identity, and `name` that of one of them, for the report of a clash.
    """
    judged = [first for batch, first in found.emitted if batch >= facts.first]
    clashes = [f"{name(first)} (batch {batch})" for batch, first in found.clashes]
    return Expectation(
        key_columns=key_columns,
        value_columns=value_columns,
        rows=dict(map(row, judged)),
        counts=RowCounts(
            records=run.records,
            malformed=run.malformed,
            pairs=run.records - run.malformed - len(found.repeats),
            dropped=len(found.late),
            emitted=len(judged),
            emitted_before=len(found.emitted) - len(judged),
            open=0,
        ),
        problems=(
            *run.problems,
            *some(f"{what} that differ, in one batch: it is undefined which of them is kept", clashes),
        ),
        notes=notes,
        types=types or {},
        complete=complete,
    )
