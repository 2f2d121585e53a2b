"""The lease: the single-writer claim on a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from streamwarden.lifecycle.driver import ProcessIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who may write to a checkpoint. Times are Unix seconds.

    Args:
        checkpoint: absolute, normalized path or URL: the key.
        holder: the driver id.
        token: fencing token, larger for each new holder of this checkpoint, never reused.
        process: the driver's JVM; None between the claim and the launch.
        released_at: set by a holder that ended in good order.
    """

    checkpoint: str
    stream: str
    holder: str
    token: int
    process: ProcessIdentity | None
    acquired_at: float
    renewed_at: float
    expires_at: float
    released_at: float | None = None


class Liveness(Protocol):
    """Tells whether a process lives: True or False on this host, None where it cannot be seen (another host)."""

    def __call__(self, process: ProcessIdentity) -> bool | None: ...


class LeaseBook(Protocol):
    """Where leases are kept. Each call is one transaction."""

    def acquire(self, checkpoint: str, *, stream: str, holder: str, ttl: float, now: float) -> Lease:
        """Claim the checkpoint. Raises LeaseHeld (with the holder in its message) if it has a living holder."""

    def bind(self, lease: Lease, process: ProcessIdentity, *, ttl: float, now: float) -> Lease:
        """Name the process that holds the lease. Raises LeaseLost if `lease` is no longer the current one."""

    def renew(self, lease: Lease, *, ttl: float, now: float) -> Lease:
        """Push the expiry to `now + ttl`. Raises LeaseLost if replaced; StoreError if the store is down."""

    def release(self, lease: Lease, *, now: float) -> None:
        """Give the lease back; no effect if it is not the current one."""

    def current(self, checkpoint: str) -> Lease | None:
        """The newest lease, live or not."""


def is_held(lease: Lease | None, *, now: float, alive: Liveness) -> bool:
    """Whether `lease` still excludes another writer.

    A process that can be seen decides: alive holds even past the expiry (the store may have been down, and the holder
    goes on), dead does not hold even before it. Where it cannot be seen, the expiry decides; after an outage that would
    be too early, so whoever means to act on a lapse looks for longer (`adapters.lapses`).
    """
    if lease is None or lease.released_at is not None:
        return False
    seen = alive(lease.process) if lease.process is not None else None
    return now < lease.expires_at if seen is None else seen
