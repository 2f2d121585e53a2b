"""Looks for a fence beside the driver's checkpoints as long as the driver cannot renew its lease."""

import threading
import time
from collections.abc import Callable
from typing import Final

from streamwarden.adapters.processes import this_host
from streamwarden.errors import LeaseLost
from streamwarden.lifecycle.hosts.fence import LOOK_EVERY, SUSPECT_AFTER, Fence, fence_of, keeps_out
from streamwarden.lifecycle.hosts.report import host_name
from streamwarden.lifecycle.lease import Lease
from streamwarden.lifecycle.location import is_temporary
from streamwarden.services.fleet.hosts.fencing import look, withdraw
from streamwarden.spark.log import say

_SAID_EACH: Final = 60
"""Of the looks that fail, each sixtieth is in the driver's log."""


class FenceWatch:
    """A thread of its own: storage that hangs must keep neither the lease nor the stop requests from being seen.

    Args:
        lease: the driver's lease as it was renewed last.
        renewed_at: monotonic seconds of that renewal.
        lost: receives the loss of the lease, once.
        connection: of an object store.
    """

    def __init__(
        self,
        lease: Callable[[], Lease],
        renewed_at: Callable[[], float],
        lost: Callable[[LeaseLost], None],
        *,
        connection: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lease = lease
        self._renewed_at = renewed_at
        self._lost = lost
        self._connection = connection
        self._clock = clock
        self._closed = threading.Event()
        self._planted: set[str] = set()
        self._failures = 0

    def start(self) -> None:
        threading.Thread(target=self._run, name="streamwarden fence", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def turn(self) -> bool:
        """Look once, if there is reason to; whether the lease was lost. Raises what the storage raises."""
        if self._clock() - self._renewed_at() < SUSPECT_AFTER:
            planted, self._planted = self._planted, set()
            withdraw(planted, self._connection, self._own(""))
            return False
        for checkpoint in self._lease().checkpoints:
            if is_temporary(checkpoint):
                continue
            own = self._own(checkpoint)
            self._planted.add(checkpoint)
            found = look(checkpoint, self._connection, own)
            if found is not None and keeps_out(found, holder=own.holder, token=own.token):
                self._lost(_lost(checkpoint, found))
                return True
        return False

    def _own(self, checkpoint: str) -> Fence:
        lease = self._lease()
        token = lease.token_of(checkpoint) if checkpoint else lease.token
        return Fence(token=token, holder=lease.holder, host=host_name(this_host()), at=time.time())

    def _run(self) -> None:
        while not self._closed.wait(LOOK_EVERY):
            try:
                if self.turn():
                    return
            except Exception as error:  # the storage may be unavailable, too: then nothing is committed
                self._failures += 1
                if self._failures % _SAID_EACH == 1:
                    say(f"the store does not answer, and no fence can be looked for: {error}")


def _lost(checkpoint: str, found: Fence) -> LeaseLost:
    return LeaseLost(
        f"this driver could not renew its lease, and driver {found.holder} on {found.host} has taken it over",
        expected=f"a fence with token {found.token} beside the checkpoint means that another driver runs",
        where=fence_of(checkpoint),
        next_step="nothing to do here: the stream runs there",
    )
