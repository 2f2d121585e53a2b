"""Gathers what decides whether this host may start a stream, and keeps the id of its storage."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden import disk
from streamwarden.adapters.processes import this_host
from streamwarden.errors import HostUnfit
from streamwarden.lifecycle.forks.places import is_fork
from streamwarden.lifecycle.hosts.elsewhere import STORAGE_SILENT
from streamwarden.lifecycle.hosts.placement import HostFacts, unfit
from streamwarden.lifecycle.hosts.report import host_name
from streamwarden.lifecycle.location import URL, is_temporary, plain_path

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.lifecycle.driver import DriverRecord
    from streamwarden.lifecycle.queries import QueryRecord
    from streamwarden.stream.spec import StreamSpec

STORAGE_ID: Final = ".storage-id"
"""File in the data folder with a random text: hosts that read the same text share the folder. An empty mount point has
none, and gets another one."""


def require_fit_host(store: Store, spec: StreamSpec, data: Path) -> None:
    """Raises HostUnfit if another host has to start this stream; StoreError. The fork of a drill runs where its drill
    does."""
    if is_fork(spec.name):
        return
    reason = unfit(_facts(store, spec, data))
    if reason is not None:
        raise HostUnfit(reason.observed, expected=reason.expected, where=reason.where, next_step=reason.next_step)


def storage_id(data: Path, *, make: bool = False) -> str | None:
    """The id of the storage that holds the data folder; None: it has none yet. Raises OSError.

    Args:
        make: give it one if it has none. Of many hosts that do it at once, one wins.
    """
    path = data / STORAGE_ID
    if make:
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, disk.SHARED)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(8))
    try:
        return path.read_text().strip() or None
    except FileNotFoundError:
        return None


def _facts(store: Store, spec: StreamSpec, data: Path) -> HostFacts:
    host = host_name(this_host())
    drain = store.hosts.drained().get(host)
    silent_ago = _silent_ago(store.drivers.latest(spec.name), host)
    query = next((query for query in store.queries.of(spec.name) if _is_missing(query)), None)
    if query is None:
        return HostFacts(host=host, drain=drain, silent_ago=silent_ago)
    driver = store.drivers.get(query.driver_id)
    last = host_name(driver.process.host) if driver is not None and driver.process is not None else None
    report = store.hosts.get(last) if last is not None else None
    return HostFacts(
        host=host,
        drain=drain,
        lacks=query.checkpoint,
        last_host=last,
        last_storage=None if report is None else report.storage,
        storage=storage_id(data),
        silent_ago=silent_ago,
    )


def _silent_ago(driver: DriverRecord | None, host: str) -> float | None:
    """See `HostFacts`. Both times are of this host's clock."""
    if driver is None or driver.exit is None or driver.process is None or host_name(driver.process.host) != host:
        return None
    return time.time() - driver.exit.ended_at if driver.exit.error_class == STORAGE_SILENT else None


def _is_missing(query: QueryRecord) -> bool:
    """Whether the checkpoint of a query that has run should be on a disk, and is not on one of this host."""
    place = plain_path(query.checkpoint)
    return not URL.match(place) and not is_temporary(place) and not (Path(place) / "metadata").exists()
