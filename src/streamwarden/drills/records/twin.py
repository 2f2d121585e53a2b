"""A twin's verdict on a fork. Pure.

A twin is a second fork of the stream. It executes the batches of the fork that was broken, and no fault hits it.
"""

from dataclasses import dataclass

from streamwarden.units import format_count
from streamwarden.verification.reconciliation import Reconciliation


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinReport:
    """The comparison of a broken fork with its twin.

    Args:
        first, last: the batches that the twin executed.
        seconds: that this took, with the start of Spark; of both twins if there were two.
        twins: 1; 2 if the fork differed from the first one, so that a second one showed what differs between unbroken
            runs too.
        key: columns that identify a row; empty: whole rows were compared, as a multiset.
        key_from: where the key came from, in words.
        left_out: columns that differ between the two unbroken runs: only their types and their NULLs were compared, or
            not even the NULLs of those of which `nulls_of` is there, too.
        unproven: what the comparison does not show, each in words: `not checked: which files …`.
        alone: the drill has no other oracle.
        outcome: the fork's rows against the twin's.
        reads_again: a function writes the batches, which may read its batch several times: Spark then counts more
            records than there are.
        watermarks: of the query; of a script, of the query that has most.
        third: what the stream's own rows of the same batches say; None: the fork began from nothing.
    """

    first: int
    last: int
    seconds: float
    twins: int
    key: tuple[str, ...]
    key_from: str
    left_out: tuple[str, ...]
    alone: bool
    unproven: tuple[str, ...] = ()
    outcome: Reconciliation
    reads_again: bool = False
    watermarks: int = 0
    third: str | None = None


def describe_run(twin: TwinReport) -> str:
    """The executed batches and their duration."""
    count = twin.last - twin.first + 1
    again = ", by two twins" if twin.twins > 1 else ""
    return f"executed {format_count(count, 'batch')} ({twin.first} to {twin.last}) again in {twin.seconds:.1f} s{again}"


def describe_key(twin: TwinReport) -> str:
    """By what the rows were compared."""
    return f"rows are identified by {', '.join(twin.key)} ({twin.key_from})" if twin.key else twin.key_from


def describe_left_out(twin: TwinReport | None) -> str | None:
    """The columns that were not compared; None: each was."""
    if twin is None or not twin.left_out:
        return None
    nulls = {nulls_of(name): name for name in twin.left_out}
    names = [name for name in twin.left_out if name not in nulls]
    partly = [name for name in names if nulls_of(name) not in twin.left_out]
    but = "" if not partly else f" (only the types, and whether {' or '.join(partly)} is NULL)"
    return f"not compared with the twin, since two unbroken runs differ in them: {', '.join(names)}{but}"


def nulls_of(name: str) -> str:
    """The name of the column that says of each row whether the column is NULL."""
    return f"{name} IS NULL"


def describe_unproven(twin: TwinReport | None) -> tuple[str, ...]:
    """What the comparison with the twin does not show, for the first sentence of a report."""
    if twin is None:
        return ()
    left_out = describe_left_out(twin)
    return (*twin.unproven, *([] if left_out is None else [left_out]))
