"""When a driver of a group has ended as a whole: its Python process, and its queries in the group's JVM.

The supervisor process imports this module: it holds the standard library alone.
"""

import contextlib
import signal
from pathlib import Path
from typing import Final

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.waiting import wait_until

LEAVES_WITHIN: Final = 40.0
"""Seconds within which the queries of a driver that has ended must have ended, too; then the JVM is killed."""

_EVERY: Final = 0.02


def is_leaving(folder: Path) -> bool:
    """Whether a query of the driver may still run in the JVM of its group, on this host."""
    jvm = files.read_membership(folder)
    return jvm is not None and not (folder / files.LEFT).exists() and processes.is_alive(jvm) is True


def await_departure(folder: Path, within: float = LEAVES_WITHIN) -> bool:
    """Wait until no query of a driver that has ended runs any more; False if that cost the group its JVM.

    The group's host ends the queries, usually in some milliseconds. A query that nobody can end must not write beside
    the next driver: after `within` seconds the JVM is killed, and every stream of the group is restarted.
    """
    if wait_until(lambda: not is_leaving(folder), within=within, every=_EVERY):
        return True
    jvm = files.read_membership(folder)
    if jvm is not None:
        with contextlib.suppress(PermissionError):
            processes.signal_one(jvm, signal.SIGKILL)
    wait_until(lambda: not is_leaving(folder), within=within, every=_EVERY)
    return False


def await_departures(drivers: Path) -> None:
    """`await_departure` for each driver of a stream that was let into a group; `drivers` is the folder of theirs."""
    for membership in drivers.glob(f"*/{files.GROUP}"):
        await_departure(membership.parent)
