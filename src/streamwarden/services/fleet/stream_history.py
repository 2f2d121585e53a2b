"""A stream's driver history, used to decide which of two streams owns a path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streamwarden.adapters import processes
from streamwarden.config.isolation import isolated
from streamwarden.config.ownership import Tenure
from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.errors import ConfigError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.lease import is_held
from streamwarden.services.fleet.exits.liveness import is_alive

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.stream.spec import StreamSpec


def tenure(store: Store, stream: str, now: float) -> Tenure | None:
    """Driver history of `stream`; None if no driver was ever launched. Raises StoreError."""
    records = store.drivers.history(stream, 0.0)
    if not records:
        return None
    alive = is_alive(
        records[-1],
        lease_on=store.leases.current,
        held=lambda lease: is_held(lease, now=now, alive=processes.is_alive),
        now=now,
    )
    return Tenure(since=records[0].launched_at, runs=alive is True, last=started_with(records[-1]))


def started_with(record: DriverRecord) -> StreamSpec | None:
    """The spec that the driver runs; None if its folder is gone, on another host, damaged or of another version."""
    document = files.read_document(Path(record.folder) / files.SPEC)
    try:
        with isolated(record.folder, "the spec of a driver was read"):
            return None if document is None else spec_from_dict(document)
    except ConfigError:
        return None
