"""Lapsed leases of drivers that cannot be seen: over only when the store has answered for a while, and nobody renewed.

After an outage of the store every such lease has lapsed, of the living as of the dead. The living renew theirs as soon
as they find the store back; an observer that looks before that must not take them for dead. The same goes for two hosts
whose clocks differ by more than a lease lasts: its times say nothing then, but that it is renewed does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.lifecycle.lease import Lease, Liveness, is_held

GRACE: Final = 10.0
"""Seconds in which the store answers and a lapsed lease is not renewed, until its holder counts as dead.

A driver tries every 2 s (`spark.store_link.RETRY_EVERY`), and an attempt that meets the end of the outage may take the
store's time limit of 2 s (`store.Database`), as may the next: 6 s, and room for a busy machine."""

_LOOK: Final = 2.0
"""Seconds before a look for which it can vouch that the store answered; whoever looks more rarely takes longer."""


@dataclass(frozen=True, slots=True)
class _Sighting:
    """A lease whose times say nothing: how long the store has answered since its last renewal, and when it did last.

    Args:
        seen_at: when this observer saw it being renewed, by its own clock; None: it has not yet.
    """

    token: int
    revision: float | None
    renewed_at: float
    answered: float
    looked_at: float
    seen_at: float | None = None


class LeaseObserver:
    """One observer's memory of the leases that it cannot judge by their times; shared by its threads.

    Args:
        clock: tells Unix seconds.
    """

    def __init__(self, alive: Liveness, clock: Callable[[], float]) -> None:
        self._alive = alive
        self._clock = clock
        self._seen: dict[str, _Sighting] = {}

    def is_held(self, lease: Lease | None) -> bool | None:
        """Whether `lease`, as it was just read from the store, excludes another writer; None: that is not known yet.

        It is not known of a lease whose process cannot be seen and that has lapsed, or was renewed in the future: ask
        again. One that is renewed meanwhile is held, whatever the two clocks say. A claim without a process, whose
        driver runs no query before it has bound it, ends when it lapses.
        """
        now = self._clock()
        if lease is None or lease.released_at is not None or lease.process is None:
            return is_held(lease, now=now, alive=self._alive)
        seen = self._alive(lease.process)
        if seen is not None:
            return seen
        if now < lease.expires_at and ahead(lease, now) == 0.0:
            self._seen.pop(lease.holder, None)
            return True
        return self._watch(lease, now)

    def skew(self, lease: Lease) -> float | None:
        """Seconds by which this host's clock is ahead of the holder's (negative: behind), as a renewal showed; None if
        none was seen, or if its times can be trusted."""
        found = self._seen.get(lease.holder)
        return None if found is None or found.seen_at is None else found.seen_at - found.renewed_at

    def _watch(self, lease: Lease, now: float) -> bool | None:
        before = self._seen.get(lease.holder)
        if before is None or before.token != lease.token:
            found = _Sighting(lease.token, lease.revision, lease.renewed_at, 0.0, now)
        elif before.revision != lease.revision:  # `renewed_at` differs in each reading if the store has another clock
            found = _Sighting(lease.token, lease.revision, lease.renewed_at, 0.0, now, seen_at=now)
        else:
            answered = before.answered + min(_LOOK, max(0.0, now - before.looked_at))
            found = replace(before, answered=answered, looked_at=now)
        self._seen[lease.holder] = found
        lasts = lease.expires_at - lease.renewed_at
        if found.seen_at is not None and now < found.seen_at + lasts:
            return True
        # A lease of the future has to lapse first: nothing is known of when that is but how long a lease lasts.
        patience = GRACE + (lasts if now < lease.expires_at else 0.0)
        return None if found.answered < patience else False


def ahead(lease: Lease, now: float) -> float:
    """Seconds by which `lease` was renewed in the future, if that is more than it lasts: one of the clocks is
    wrong; else 0. Pure."""
    future = lease.renewed_at - now
    return future if future > lease.expires_at - lease.renewed_at else 0.0


def clocks_differ(lease: Lease, skew: float) -> str:
    """By how much the clock of the holder's host differs from this one's, for people. Pure.

    Args:
        skew: see `LeaseObserver.skew`.
    """
    host = lease.process.host.partition("/")[0] if lease.process else "the holder's host"
    way = "behind" if skew > 0 else "ahead of"
    return f"the clock of {host} is about {abs(skew):.0f} s {way} this host's: set both by NTP"
