"""Finds the driver that runs a stream or holds its checkpoint."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.errors import LeaseHeld, ProcessError
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.lease import Lease, stream_resource, whereabouts
from streamwarden.services.fleet.claims import LEASE_TTL
from streamwarden.services.fleet.exits.exit_recorder import ExitRecorder
from streamwarden.services.fleet.exits.lease_grace import ahead, clocks_differ
from streamwarden.services.fleet.launching.launch import SPAWN_TIMEOUT
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

Announce = Callable[[str], None]
"""Receives, as sentences, the reason of a wait and a difference between two hosts' clocks."""

_ASK_AGAIN: Final = 0.5
"""Seconds between two readings of an expired lease."""


class Finder:
    """Finds living drivers; it records the exit of each dead one that it meets."""

    def __init__(self, store: Store, exits: ExitRecorder, clock: Callable[[], float]) -> None:
        self._store = store
        self._exits = exits
        self._clock = clock

    def living(self, spec: StreamSpec, announce: Announce = lambda text: None) -> DriverRecord | None:
        """The driver that runs this stream or holds its checkpoint; None if there is none.

        Waits up to `lease_grace.GRACE` seconds if the lease has expired and the driver runs on another host.

        Raises:
            LeaseHeld: the driver is another stream's, or writes to another checkpoint.
            StoreError: the store is down.
        """
        for resource in _resources(spec):
            lease, held = self._judged(resource, announce)
            if lease is not None and lease.process is not None:  # without one a launch is under way: acquire() decides
                if held:
                    return self._record_of(lease, spec)
                with contextlib.suppress(ProcessError):
                    self._exits.observe(lease.holder)
        latest = self._store.drivers.latest(spec.name)
        if latest is not None and latest.exit is None:
            self._exits.observe_record(latest)
        return None

    def await_winner(self, spec: StreamSpec) -> DriverRecord:
        """The driver of the launcher that was faster. Raises LeaseHeld if it does not appear within `SPAWN_TIMEOUT`."""
        deadline = time.monotonic() + SPAWN_TIMEOUT
        while True:
            lease = self._first_lease(spec)
            record = self._record_of(lease, spec) if lease is not None else None
            if record is not None and lease is not None and (lease.process is not None or record.exit is not None):
                return record
            if time.monotonic() > deadline:
                if record is not None:
                    return record
                holder = f"driver {lease.holder}" if lease else "another launch"
                raise LeaseHeld(
                    f"{holder} claimed the checkpoint, and no driver appeared within {SPAWN_TIMEOUT:.0f} s",
                    where=spec.checkpoint,
                    next_step=f"start the stream again in {LEASE_TTL:.0f} s: by then the claim has expired",
                )
            time.sleep(0.1)

    def _judged(self, resource: str, announce: Announce) -> tuple[Lease | None, bool]:
        """The newest lease on `resource` and whether it is held, once that is known."""
        waited = False
        while True:
            lease = self._store.leases.current(resource)
            held = self._exits.is_held(lease)
            if held is not None:
                break
            if lease is not None and not waited:
                announce(_doubt(lease, self._clock()))
            waited = True
            time.sleep(_ASK_AGAIN)
        skew = self._exits.skew(lease) if lease is not None and held else None
        if lease is not None and skew is not None:
            announce(f"driver {lease.holder} is alive; {clocks_differ(lease, skew)}")
        return lease, held

    def _record_of(self, lease: Lease, spec: StreamSpec) -> DriverRecord | None:
        """The driver of a lease on this stream. Raises LeaseHeld if `spec` is not what that driver runs."""
        if lease.stream != spec.name:
            renamed = spec.file and not Path(spec.file).with_stem(lease.stream).exists()
            raise LeaseHeld(
                f"the checkpoint is held by driver {lease.holder} of the stream {lease.stream}",
                expected="one stream for each checkpoint",
                where=spec.checkpoint,
                next_step=taking_over(lease.stream, spec.name) if renamed else f"give {spec.name} another checkpoint",
            )
        if not lease.covers(spec.checkpoint):
            raise LeaseHeld(
                f"driver {lease.holder} runs this stream {whereabouts(lease)}",
                expected=f"the checkpoint {spec.checkpoint}, as it is declared here: a stream has exactly one driver",
                where=f"stream {spec.name}",
                next_step="if the two declarations should be one, let every host share the data folder; if the "
                f"checkpoint was changed, run `streamwarden restart {spec.name}`",
            )
        return self._store.drivers.get(lease.holder)

    def _first_lease(self, spec: StreamSpec) -> Lease | None:
        """The lease that keeps a driver of `spec` from being launched."""
        leases = [self._store.leases.current(resource) for resource in _resources(spec)]
        return next((lease for lease in leases if lease is not None and lease.released_at is None), leases[0])


def taking_over(old: str, new: str) -> str:
    """How a stream goes on under another name, after its file was renamed."""
    return (
        f"{new} declares the same checkpoint, so it is the same stream under a new name: run "
        f"`streamwarden stop {old}`, then `streamwarden start {new}`, which goes on after the last batch; the history "
        f"stays under {old}"
    )


def _resources(spec: StreamSpec) -> tuple[str, ...]:
    """The resources that a driver of `spec` claims: the stream's name, and its checkpoints. Pure."""
    return stream_resource(spec.name), *spec.checkpoints


def _doubt(lease: Lease, now: float) -> str:
    """Why it is not known yet whether the holder of `lease` is alive, as a sentence. Pure."""
    late, early = now - lease.expires_at, ahead(lease, now)
    when = f"was renewed {early:.0f} s in the future" if early else f"expired {late:.0f} s ago"
    return f"the lease of driver {lease.holder} {whereabouts(lease)} {when}: waiting to see whether it is renewed"
