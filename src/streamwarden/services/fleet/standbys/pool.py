"""The pool of standbys of this host: which of them wait, which streams may use them, and how a launch takes one.

A standby of the pool has a folder of its own, `drivers/.pool/ID`, with its log and its temporary files. The launch that
takes one makes the folder of a driver as for any process, links the log into it, and tells the standby where it is.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from streamwarden import disk
from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.lease import Lease
from streamwarden.lifecycle.supervision.pool import UNUSED_AFTER, shown_differences
from streamwarden.lifecycle.supervision.standby import ORPHANED_AFTER, Fit
from streamwarden.services.fleet.standbys.waiting import Choice, WaitingStandby, dismiss, waiting, wake
from streamwarden.units import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStart:
    """The start of a driver as a standby of the pool sees it; `pool.json` of the driver's folder.

    Args:
        fit: what both must have in common; settings: those that the standby takes when it is promoted.
        size: how many standbys of this fit are to wait; command: see `Starter.start`.
    """

    fit: Fit
    settings: Mapping[str, str]
    size: int
    command: Sequence[str] | None

    def to_document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> PoolStart:
        return cls(**{**document, "fit": Fit(**document["fit"])})


def pool_folder(data: Path) -> Path:
    """The folder that holds the folders of the standbys of all pools."""
    return data / "drivers" / files.POOLED


def take_from_pool(data: Path, fit: Fit, now: float) -> Choice:
    """Take a ready standby of this fit, so that nobody else can. The others go on waiting."""
    standbys = waiting(pool_folder(data))
    for standby in standbys:
        fits = standby.record.fit == fit and standby.is_ready(now)
        if fits and files.settle_standby(standby.folder, files.PROMOTED):
            return Choice(folder=standby.folder, pooled=True)
    return Choice(because=_why_none(standbys, fit))


def _why_none(standbys: Sequence[WaitingStandby], fit: Fit) -> str:
    """Why no launch can take one of these. Pure."""
    if not standbys:
        return "no standby of the pool waits"
    differences = [shown_differences(standby.record.fit, fit) for standby in standbys]
    if not all(differences):
        return "the standby of the pool was not ready yet, or did not answer"
    return f"the standbys of the pool have another {min(differences, key=len)}"


def hand_over(standby: Path, folder: Path, lease: Lease, settings: Mapping[str, str]) -> None:
    """Make a standby that was taken the driver of `folder`, and wake it. Raises OSError."""
    os.link(standby / files.LOG, folder / files.LOG)
    for name in (files.PROCESS, files.SUPERVISOR):
        files.write_document(folder / name, files.read_document(standby / name) or {})
    files.write_lease(folder, lease)
    files.write_document(standby / files.DRIVER, {"folder": str(folder), "settings": dict(settings)})
    wake(standby)


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
    for standby in waiting(pool):
        with contextlib.suppress(FileNotFoundError):
            (standby.folder / files.USERS / stream).unlink()
            if not users(standby.folder, time.time(), ORPHANED_AFTER):
                dismiss(standby.folder)


def sweep_pool(pool: Path) -> None:
    """Remove the folders whose process has ended without its supervisor process, as on a host that was restarted."""
    for folder in pool.iterdir() if pool.is_dir() else ():
        supervisor = files.read_document(folder / files.SUPERVISOR)
        known = [ProcessIdentity(**supervisor) if supervisor else None, files.read_process(folder)]
        if any(known) and not any(process and processes.is_alive(process) for process in known):
            with contextlib.suppress(OSError):
                disk.remove_folder(folder, below=pool)
