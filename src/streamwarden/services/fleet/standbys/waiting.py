"""The standbys of a stream that wait on this host, and how one is taken or dismissed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.lease import Lease
from streamwarden.lifecycle.supervision.standby import ANSWERED_WITHIN, Fit, StandbyRecord
from streamwarden.units import format_list


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingStandby:
    """A standby that lives on this host. `answered_at`: when its JVM answered last (Unix seconds); None: it starts."""

    folder: Path
    record: StandbyRecord
    process: ProcessIdentity
    answered_at: float | None

    def is_ready(self, now: float) -> bool:
        """Whether it can be taken: it waits, and its JVM answers."""
        answers = self.answered_at is not None and now - self.answered_at < ANSWERED_WITHIN
        return answers and not processes.is_stopped(self.process)


def waiting(drivers: Path, leader: str | None = None) -> list[WaitingStandby]:
    """The living standbys in the folder of a stream's drivers, the newest first; those of one `leader`, or all."""
    found = (_standby(path.parent) for path in sorted(drivers.glob(f"*/{files.STANDBY}"), reverse=True))
    return [standby for standby in found if standby is not None and leader in (None, standby.record.leader)]


def _standby(folder: Path) -> WaitingStandby | None:
    document, process = files.read_document(folder / files.STANDBY), files.read_process(folder)
    if document is None or process is None or not processes.is_alive(process) or (folder / files.EXIT).exists():
        return None
    with contextlib.suppress(KeyError, TypeError):  # an earlier version wrote it
        record = StandbyRecord.from_document(document)
        return WaitingStandby(folder=folder, record=record, process=process, answered_at=_answered_at(folder))
    return None


def _answered_at(folder: Path) -> float | None:
    try:
        return (folder / files.READY).stat().st_mtime
    except OSError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The standby that a launch took; None, and then `because` says why those that waited were not. `pooled`: it is of
    a pool, and not yet in the folder of a driver."""

    folder: Path | None = None
    because: str = ""
    pooled: bool = False


def take(drivers: Path, fit: Fit, now: float) -> Choice:
    """Take a standby that fits, so that nobody else can; the others are dismissed."""
    because, taken = "", None
    for standby in waiting(drivers):
        reason = _unfit(standby, fit, now)
        if not reason and taken is None and files.settle_standby(standby.folder, files.PROMOTED):
            taken = standby.folder
            continue
        because = because or reason
        dismiss(standby.folder)
    return Choice(folder=taken, because="" if taken is not None else because)


def _unfit(standby: WaitingStandby, fit: Fit, now: float) -> str:
    """Why the standby is not used; empty: it can be."""
    different = standby.record.fit.differences(fit)
    if different:
        return f"{format_list(different)} changed since it was prepared"
    return "" if standby.is_ready(now) else "it was not ready yet, or did not answer"


def promote(folder: Path, lease: Lease) -> None:
    """Give the lease to a standby that was taken, and wake it."""
    files.write_lease(folder, lease)
    wake(folder)


def wake(folder: Path) -> None:
    """Have a standby look at once whether it was promoted."""
    with contextlib.suppress(OSError):  # it looks for the lease by itself, too, once a second
        handle = os.open(folder / files.GO, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(handle, b"!")
        finally:
            os.close(handle)


def dismiss(folder: Path) -> bool:
    """End a standby: its supervisor process kills it and removes its folder. False if it does not wait any more."""
    return files.settle_standby(folder, files.DISMISSED)


def give_back(folder: Path) -> None:
    """End a standby that was taken for a launch that did not come about."""
    with contextlib.suppress(OSError):
        (folder / files.PROMOTED).rename(folder / files.DISMISSED)


def dismiss_all(drivers: Path, leader: str | None = None) -> int:
    """End every standby of a stream on this host, or those of one `leader`; returns how many there were."""
    return sum(dismiss(standby.folder) for standby in waiting(drivers, leader))


def changed(watched: Mapping[str, object]) -> bool:
    """Whether one of the files that a standby was prepared from is another one now."""
    return any(signature(Path(path)) != tuple(was) for path, was in _signatures(watched))


def _signatures(watched: Mapping[str, object]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for path, was in watched.items():
        yield path, tuple(was) if isinstance(was, list | tuple) else ()


def signature(path: Path) -> tuple[int, ...]:
    """Modification time (ns) and size of a file; empty if it cannot be read."""
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_mtime_ns, stat.st_size
