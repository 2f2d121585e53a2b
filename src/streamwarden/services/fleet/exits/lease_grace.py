"""Decides when an expired lease of a driver on another host is over: the store has answered for a while without a
renewal.

After an outage of the store every such lease has expired, whether its driver is alive or dead. A living driver renews
its lease as soon as the store answers again; an observer that is faster must not take it for dead. The same applies to
two hosts whose clocks differ by more than a lease lasts: the times of the lease say nothing then, but a renewal does.

An observer that has seen the store answer all the time since the last renewal needs no such time: a lease that expires
before its eyes is over. So a stream is up again ten seconds earlier after the loss of a host that somebody watched.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.lifecycle.lease import Lease, Liveness, is_held

GRACE: Final = 10.0
"""Seconds in which the store answers and an expired lease is not renewed, until its holder counts as dead.

A driver tries to renew every 2 s (`spark.store_link.RETRY_EVERY`). An attempt that meets the end of the outage may take
the store's time limit of 2 s (`store.Database`), and so may the next: 6 s, plus a reserve for a busy machine."""

_COUNTED: Final = 2.0
"""Seconds before an observation for which it proves that the store answered; rarer observations need more time."""


@dataclass(frozen=True, slots=True)
class _Sighting:
    """A lease of a process that cannot be seen: how long the store has answered since its last renewal, and when it was
    observed last.

    Args:
        seen_at: when this observer saw a renewal, by its own clock; None: it has seen none.
        expected: the lease's times said that it is held.
    """

    token: int
    revision: float | None
    renewed_at: float
    answered: float
    looked_at: float
    seen_at: float | None = None
    expected: bool = False


class LeaseObserver:
    """One observer's memory of the leases that it cannot judge by their times; shared by its threads.

    Args:
        clock: Unix seconds.
    """

    def __init__(self, alive: Liveness, clock: Callable[[], float]) -> None:
        self._alive = alive
        self._clock = clock
        self._seen: dict[str, _Sighting] = {}

    def is_held(self, lease: Lease | None) -> bool | None:
        """Whether `lease`, as it was just read from the store, excludes another writer; None: that is not known yet.

        It is not known if the process cannot be seen and the lease has expired or was renewed in the future: ask again.
        A lease that is renewed meanwhile is held, even if the clocks disagree. A claim without a process ends when it
        expires, because its driver runs no query before it has bound the claim.
        """
        now = self._clock()
        if lease is None or lease.released_at is not None or lease.process is None:
            return is_held(lease, now=now, alive=self._alive)
        alive = self._alive(lease.process)
        if alive is not None:
            return alive
        expected = now < lease.expires_at and ahead(lease, now) == 0.0
        sighting = self._seen[lease.holder] = self._sighted(lease, now, expected=expected)
        return True if expected else _judged(lease, sighting, now)

    def skew(self, lease: Lease) -> float | None:
        """Seconds by which this host's clock is ahead of the holder's (negative: behind), measured at a renewal; None
        if no renewal was seen, or if the lease's times can be trusted."""
        sighting = self._seen.get(lease.holder)
        if sighting is None or sighting.seen_at is None or sighting.expected:
            return None
        return sighting.seen_at - sighting.renewed_at

    def _sighted(self, lease: Lease, now: float, *, expected: bool) -> _Sighting:
        before = self._seen.get(lease.holder)
        if before is None or before.token != lease.token:
            return _Sighting(lease.token, lease.revision, lease.renewed_at, 0.0, now, expected=expected)
        if before.revision != lease.revision:  # `renewed_at` differs in each reading if the store has another clock
            return _Sighting(lease.token, lease.revision, lease.renewed_at, 0.0, now, seen_at=now, expected=expected)
        passed = max(0.0, now - before.looked_at)
        # What was counted before the expiry counts no longer if the store may not have answered since.
        counted = 0.0 if before.expected and passed > _COUNTED else before.answered
        return replace(before, answered=counted + min(_COUNTED, passed), looked_at=now, expected=expected)


def _judged(lease: Lease, sighting: _Sighting, now: float) -> bool | None:
    """See `LeaseObserver.is_held`, of a lease whose times say that it has expired, or nothing. Pure."""
    lasts = lease.expires_at - lease.renewed_at
    if sighting.seen_at is not None and now < sighting.seen_at + lasts:
        return True
    # A lease that was renewed in the future has to expire first; only how long a lease lasts is known.
    patience = GRACE + (lasts if now < lease.expires_at else 0.0)
    return None if sighting.answered < patience else False


def ahead(lease: Lease, now: float) -> float:
    """Seconds by which `lease` was renewed in the future if that is more than it lasts, because one of the clocks is
    wrong; else 0. Pure."""
    future = lease.renewed_at - now
    return future if future > lease.expires_at - lease.renewed_at else 0.0


def clocks_differ(lease: Lease, skew: float) -> str:
    """A sentence on how far the clock of the holder's host differs from this one. Pure.

    Args:
        skew: see `LeaseObserver.skew`.
    """
    host = lease.process.host.partition("/")[0] if lease.process else "the holder's host"
    way = "behind" if skew > 0 else "ahead of"
    return f"the clock of {host} is about {abs(skew):.0f} s {way} this host's: synchronize both by NTP"
