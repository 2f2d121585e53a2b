"""Determines which of several streams owns a place that only one of them may use.

A stream whose drivers have used the place owns it: a copy of its file must not take it out of supervision. Files alone
do not say which of two streams is the original one, so that knowledge comes from the store, through `TenureOf`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """A stream's drivers, as the store knows them.

    Args:
        since: when its first driver was launched, in Unix seconds.
        runs: whether its newest driver holds the lease.
        last: what its newest driver was started with; None: that is not known, so it counts as what the file says.
    """

    since: float
    runs: bool
    last: StreamSpec | None


TenureOf = Callable[[str], Tenure | None]
"""The tenure of the stream with this name; None if no driver of it was ever launched. Raises StoreError."""


def without_history(stream: str) -> Tenure | None:
    """The tenure of every stream where there is no store."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A stream whose file names a place that another stream's file names, too.

    Args:
        tenure: of the stream, if its newest driver used this place; None: it has no history there.
    """

    stream: str
    tenure: Tenure | None


def owner(claimants: Iterable[Claimant]) -> Claimant | None:
    """The claimant that keeps the place; None if none has history there, because then none is known to be the right
    one.

    A stream that runs there precedes one that ran there. Among equals the one that was launched first precedes. Pure.
    """
    ranked = [
        (not claimant.tenure.runs, claimant.tenure.since, claimant.stream, claimant)
        for claimant in claimants
        if claimant.tenure
    ]
    return min(ranked, key=lambda rank: rank[:3])[3] if ranked else None
