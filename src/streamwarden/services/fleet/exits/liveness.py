"""Decides whether a driver is alive: one rule for all observers, which differ only on an expired lease."""

from collections.abc import Callable
from pathlib import Path

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ProcessIdentity
from streamwarden.lifecycle.lease import Lease, Liveness
from streamwarden.services.fleet.departures import is_leaving


def is_alive(
    record: DriverRecord,
    *,
    lease_on: Callable[[str], Lease | None],
    held: Callable[[Lease], bool | None],
    now: float,
    alive: Liveness = processes.is_alive,
) -> bool | None:
    """Alive by the recorded exit, the process on this host, or the lease on another host. None: not known yet.

    Args:
        lease_on: reads the newest lease on a checkpoint; it is called only if the process cannot be seen.
        held: whether a bound lease excludes another writer; None as long as an expired lease may still be renewed.
    """
    if record.exit is not None:
        return False
    by_process = process_alive(Path(record.folder), record.process, alive)
    if by_process is not None:
        return by_process
    lease = lease_on(record.checkpoint)
    if lease is None or lease.holder != record.driver_id or lease.released_at is not None:
        return False
    if lease.process is None:  # a launch that is under way, or that failed: then its launcher records the exit
        return now < lease.expires_at
    return held(lease)


def process_alive(
    folder: Path, process: ProcessIdentity | None = None, alive: Liveness = processes.is_alive
) -> bool | None:
    """Whether the process of the folder's driver lives; None if it cannot be seen, or was not started yet.

    A driver of a group lives as long as a query of it may run in the group's JVM.

    Args:
        process: as it was recorded; None: as the supervisor process wrote it into the folder.
    """
    if (folder / files.EXIT).exists():
        return False
    identity = process or files.read_process(folder)
    lives = None if identity is None else alive(identity)
    return is_leaving(folder) if lives is False else lives
