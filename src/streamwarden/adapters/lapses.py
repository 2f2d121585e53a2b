"""Lapsed leases of drivers that cannot be seen: over only when the store has answered for a while, and nobody renewed.

After an outage of the store every such lease has lapsed, of the living as of the dead. The living renew theirs as soon
as they find the store back; whoever looks before that must not take them for dead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from streamwarden.lifecycle.lease import Lease, Liveness, is_held

GRACE: Final = 10.0
"""Seconds in which the store answers and a lapsed lease is not renewed, until its holder counts as dead.

A driver tries every 2 s (`spark.store_link.RETRY_EVERY`), and an attempt that meets the end of the outage may take the
store's time limit of 2 s (`store.Database`), as may the next: 6 s, and room for a busy machine."""

_LOOK: Final = 2.0
"""Seconds before a look for which it can vouch that the store answered; whoever looks more rarely takes longer."""


@dataclass(frozen=True, slots=True)
class _Lapse:
    """A lease that was found lapsed: how long the store has answered since, and when it did last."""

    token: int
    expires_at: float
    answered: float
    looked_at: float


class Lapses:
    """One observer's memory of the lapses that it saw; shared by its threads.

    Args:
        clock: tells Unix seconds.
    """

    def __init__(self, alive: Liveness, clock: Callable[[], float]) -> None:
        self._alive = alive
        self._clock = clock
        self._seen: dict[str, _Lapse] = {}

    def is_held(self, lease: Lease | None) -> bool | None:
        """Whether `lease`, as it was just read from the store, excludes another writer; None: that is not known yet.

        It is not known of a lapsed lease whose process cannot be seen: ask again. A claim without a process, whose
        driver runs no query before it has bound it, ends when it lapses.
        """
        now = self._clock()
        if is_held(lease, now=now, alive=self._alive):
            return True
        if lease is None or lease.released_at is not None or lease.process is None:
            return False
        if self._alive(lease.process) is not None:
            return False
        before = self._seen.get(lease.holder)
        answered = 0.0
        if before is not None and (before.token, before.expires_at) == (lease.token, lease.expires_at):
            answered = before.answered + min(_LOOK, max(0.0, now - before.looked_at))
        self._seen[lease.holder] = _Lapse(lease.token, lease.expires_at, answered, now)
        return None if answered < GRACE else False
