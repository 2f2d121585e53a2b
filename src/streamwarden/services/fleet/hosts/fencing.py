"""Writes and reads the fence beside a checkpoint: on a disk or a mounted file system, or in an object store."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from streamwarden import disk
from streamwarden.adapters.processes import this_host
from streamwarden.adapters.storage.files import LocalFiles, open_path
from streamwarden.adapters.storage.moving import remove
from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import CheckpointError, StreamwardenError
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord
from streamwarden.lifecycle.hosts.fence import SETTLES, Fence, fence_of, keeps_out, must_fence
from streamwarden.lifecycle.hosts.report import host_name
from streamwarden.lifecycle.lease import Lease
from streamwarden.lifecycle.location import is_temporary

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.stream.spec import StreamSpec

FENCED_OFF = "fenced_off"
"""Kind of the event of a driver that was launched behind a fence; `driver` and `host` of the old one, and what became
of each checkpoint."""


def fence_off(
    store: Store,
    spec: StreamSpec,
    record: DriverRecord,
    lease: Lease,
    *,
    at: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """End the driver before this one if it may still run on a host that is cut off, and wait until it has ended.

    Storage that this host cannot open, although Spark may, is left out: there Spark's own check of the commit log is
    the fence.

    A store that is a file needs no fence: a host that does not reach it does not reach the checkpoint either.

    Raises OSError if a fence cannot be written: then nothing may be started.
    """
    if not store.is_server:
        return
    known = {*spec.checkpoints, *(query.checkpoint for query in store.queries.of(spec.name))}
    checkpoints = sorted(place for place in known if not is_temporary(place))
    fence = Fence(token=lease.token, holder=record.driver_id, host=host_name(this_host()), at=at)
    previous = store.drivers.before(record)
    if previous is None or previous.process is None or not must_fence(previous, this_host()):
        for checkpoint in checkpoints:
            _correct(checkpoint, spec.storage.connection, fence)
        return
    detail = {"driver": previous.driver_id, "host": host_name(previous.process.host)}
    for checkpoint in checkpoints:
        detail[checkpoint] = "written" if _write(checkpoint, spec.storage.connection, fence) else "cannot be opened"
    store.drivers.event(DriverEvent(driver_id=record.driver_id, at=at, kind=FENCED_OFF, detail=detail))
    sleep(SETTLES)


def look(checkpoint: str, connection: str | None, own: Fence) -> Fence | None:
    """The fence beside a checkpoint; of a driver that was taken over it is another one's. Raises OSError,
    CheckpointError, ConfigError if the storage cannot be read.

    On a mounted file system this puts the driver's own one there first, if there is none. A client of NFS may remember
    for a minute that a file does not exist, but it asks the server each time that it opens one that does.
    """
    place = open_path(fence_of(checkpoint), connection)
    if isinstance(place.fs, LocalFiles):
        with contextlib.suppress(FileExistsError):
            _create(Path(place.path), own)
    return _read(place)


def withdraw(checkpoints: Iterable[str], connection: str | None, own: Fence) -> None:
    """Remove the driver's own fences: it has renewed its lease, so no other driver was started meanwhile."""
    for checkpoint in checkpoints:
        with contextlib.suppress(OSError, CheckpointError):
            place = open_path(fence_of(checkpoint), connection)
            found = _read(place)
            if found is not None and found.holder == own.holder:
                remove(place)


def _write(checkpoint: str, connection: str | None, fence: Fence) -> bool:
    """Put the fence beside the checkpoint; False if this host cannot open its storage. Raises OSError."""
    try:
        place = open_path(fence_of(checkpoint), connection)
    except CheckpointError:
        return False
    if isinstance(place.fs, LocalFiles):
        disk.replace(Path(place.path), json.dumps(asdict(fence)))
    else:
        place.write(json.dumps(asdict(fence)).encode())
    return True


def _correct(checkpoint: str, connection: str | None, fence: Fence) -> None:
    """Replace a fence of an earlier store, whose tokens were higher: it would keep the new driver out."""
    with contextlib.suppress(OSError, StreamwardenError):
        found = _read(open_path(fence_of(checkpoint), connection))
        if keeps_out(found, holder=fence.holder, token=fence.token):
            _write(checkpoint, connection, fence)


def _create(path: Path, fence: Fence) -> None:
    """A new file. Raises FileExistsError if there is one, also one that only the server knows."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, disk.SHARED)
    with os.fdopen(descriptor, "w") as file:
        file.write(json.dumps(asdict(fence)))


def _read(place: Location) -> Fence | None:
    """None: there is none, or it is being written."""
    try:
        return Fence.from_document(json.loads(place.read()))
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return None
