"""What the launch of a driver leaves in the store and in the data folder, without a driver."""

from __future__ import annotations

import os
import time
from pathlib import Path

from streamwarden.adapters.processes import identity
from streamwarden.adapters.store import Store
from streamwarden.config.stored_spec import spec_to_dict
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.services.fleet.claims import claim
from streamwarden.stream.spec import StreamSpec


def launch(store: Store, data: Path, spec: StreamSpec, *, ended: bool = False) -> DriverRecord:
    """Record a driver of `spec`, which the test's own process stands in for.

    Args:
        ended: whether the driver was stopped in good order since.
    """
    record, lease = claim(store, data, spec, launched_by="a test", ttl=30.0, now=time.time())
    Path(record.folder).mkdir(parents=True)
    files.write_document(Path(record.folder) / files.SPEC, spec_to_dict(spec))
    store.drivers.launched(record)
    me = identity(os.getpid())
    assert me is not None
    store.leases.bind(lease, me, ttl=30.0, now=time.time())
    store.drivers.bound(record.driver_id, me)
    if ended:
        store.drivers.exited(record.driver_id, ExitRecord(kind=ExitKind.STOPPED, ended_at=time.time()))
        store.leases.release(lease, now=time.time())
    return record
