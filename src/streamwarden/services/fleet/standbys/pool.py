"""The pool of standbys of this host: which of them wait, which streams may use them, and how a launch takes one.

A standby of the pool has a folder of its own, `drivers/.pool/ID`, with its log and its temporary files. The launch that
takes one makes the folder of a driver as for any process, links the log into it, and tells the standby where it is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamwarden import disk
from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.lease import Lease
from streamwarden.lifecycle.supervision.pool import UNUSED_AFTER, shown_differences
from streamwarden.lifecycle.supervision.standby import ORPHANED_AFTER, Fit
from streamwarden.services.fleet.standbys.waiting import Choice, WaitingStandby, dismiss, waiting, wake
from streamwarden.units import Seconds

_BEGUN_WITHIN: Final[Seconds] = 600.0
"""Seconds within which a standby whose folder was made has a process, or none comes any more."""

WORK: Final = "work"
"""The folder, in that of a standby for forks, in which its processes work. Another has none, and works in the data
folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStart:
    """The start of a driver as a standby of the pool sees it.

    Args:
        fit: what both must have in common; settings: those that the standby takes when it is promoted.
        work: the working folder of a fork, which the standby takes over; None: of a stream.
        size: how many standbys of this fit are to wait; only_first: they are for the first driver of a fork alone.
    """

    fit: Fit
    settings: Mapping[str, str]
    work: Path | None
    size: int
    only_first: bool


def pool_folder(data: Path) -> Path:
    """The folder that holds the folders of the standbys of all pools."""
    return data / "drivers" / files.POOLED


def take_from_pool(data: Path, start: PoolStart, now: float) -> Choice:
    """Take a ready standby that fits, so that nobody else can. The others go on waiting."""
    standbys = [standby for standby in waiting(pool_folder(data)) if is_for_forks(standby.folder) == bool(start.work)]
    for standby in standbys:
        fits = standby.record.fit == start.fit and standby.is_ready(now)
        if fits and files.settle_standby(standby.folder, files.PROMOTED):
            return Choice(folder=standby.folder, pooled=True)
    return Choice(because=_why_none(standbys, start.fit))


def _why_none(standbys: Sequence[WaitingStandby], fit: Fit) -> str:
    """Why no launch can take one of these. Pure."""
    if not standbys:
        return "no standby of the pool waits"
    differences = [shown_differences(standby.record.fit, fit) for standby in standbys]
    if not all(differences):
        return "the standby of the pool was not ready yet, or did not answer"
    return f"the standbys of the pool have another {min(differences, key=len)}"


def has_living(drivers: Path) -> bool:
    """Whether a driver of these folders lives, if only paused: it works in the folder that a fork's standby moves."""
    known = (files.read_process(folder) for folder in drivers.glob("*") if folder.is_dir())
    return any(process is not None and processes.is_alive(process) for process in known)


def is_for_forks(standby: Path) -> bool:
    """Whether a standby that waits can be the driver of a fork, or else of a stream."""
    return (standby / WORK).is_dir()


def hand_over(standby: Path, folder: Path, lease: Lease, start: PoolStart) -> None:
    """Make a standby that was taken the driver of `folder`, and wake it. Raises OSError."""
    if start.work is not None:
        _take_over(start.work, standby / WORK)
    os.link(standby / files.LOG, folder / files.LOG)
    for name in (files.PROCESS, files.SUPERVISOR):
        files.write_document(folder / name, files.read_document(standby / name) or {})
    files.write_lease(folder, lease)
    work = None if start.work is None else str(start.work)
    document = {"folder": str(folder), "settings": dict(start.settings), "work": work}
    files.write_document(standby / files.DRIVER, document)
    wake(standby)


def _take_over(work: Path, mine: Path) -> None:
    """Make the folder in which the processes of a standby work that of a fork, with everything in it.

    A process cannot be moved to another folder, but its folder can: the system's calls follow it, and for the JVM,
    which keeps the path of its first moment, a link stays there.
    """
    for entry in mine.iterdir():  # of the rehearsal
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    for entry in work.iterdir():
        entry.rename(mine / entry.name)
    mine.rename(work)  # which is empty: it never is not there
    mine.symlink_to(work, target_is_directory=True)


def of_stream(pool: Path, stream: str) -> list[WaitingStandby]:
    """The standbys that were found to fit the stream."""
    return [standby for standby in waiting(pool) if (standby.folder / files.USERS / stream).exists()]


def forget(pool: Path, stream: str) -> None:
    """The stream is started anew: which standbys fit it is to be found out again."""
    for standby in of_stream(pool, stream):
        (standby.folder / files.USERS / stream).unlink(missing_ok=True)


def use(standby: Path, stream: str) -> None:
    """Say that a living driver of the stream may be followed by this standby."""
    with contextlib.suppress(FileNotFoundError):  # it was taken, or it ended
        (standby / files.USERS / stream).touch(disk.PRIVATE)


def users(standby: Path, now: float, within: Seconds = UNUSED_AFTER) -> list[str]:
    """The streams whose drivers said so in the last `within` seconds."""
    found = []
    with contextlib.suppress(OSError):
        for path in (standby / files.USERS).iterdir():
            with contextlib.suppress(OSError):
                if now - path.stat().st_mtime < within:
                    found.append(path.name)
    return sorted(found)


def leave_pool(pool: Path, stream: str) -> None:
    """The stream is not to run any more: end the standbys that no other stream may use, or may be restarted with."""
    for standby in of_stream(pool, stream):
        with contextlib.suppress(FileNotFoundError):
            (standby.folder / files.USERS / stream).unlink()
            if not users(standby.folder, time.time(), ORPHANED_AFTER):
                dismiss(standby.folder)


def sweep_pool(pool: Path) -> None:
    """Remove the folders whose process has ended without its supervisor process, as on a host that was restarted."""
    for folder in pool.iterdir() if pool.is_dir() else ():
        supervisor = files.read_document(folder / files.SUPERVISOR)
        known = [ProcessIdentity(**supervisor) if supervisor else None, files.read_process(folder)]
        begun = any(known) or time.time() - folder.lstat().st_mtime > _BEGUN_WITHIN
        if folder.is_dir() and begun and not any(process and processes.is_alive(process) for process in known):
            with contextlib.suppress(OSError):
                disk.remove_folder(folder, below=pool)
