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
        left_out: columns that differ between the two unbroken runs, and were not compared.
        alone: the drill has no other oracle.
        outcome: the fork's rows against the twin's.
        reads_again: a function writes the batches, which may read its batch several times: Spark then counts more
            records than there are.
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
    outcome: Reconciliation
    reads_again: bool = False
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
    return f"not compared with the twin, since two unbroken runs differ in them: {', '.join(twin.left_out)}"
