"""What refuses an exchange: a driver that runs, a storage in which nothing is exchanged, a copy from which Spark would
not continue."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamwarden.adapters import processes
from streamwarden.adapters.storage.files import LocalFiles, checkpoint_of, open_path
from streamwarden.checkpoint.diagnosis.damage import Consequence
from streamwarden.checkpoint.diagnosis.report import CheckpointReport, read_checkpoint
from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import CheckpointError, LeaseHeld
from streamwarden.lifecycle.queries import owner
from streamwarden.services.fleet.claims import LEASE_TTL
from streamwarden.stream.spec import STORED, StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


@contextmanager
def alone(store: "Store", spec: StreamSpec, at: float) -> Iterator[None]:
    """Hold the lease of the stream as long as this process lives. Raises LeaseHeld, StoreError."""
    process = processes.identity(os.getpid())
    assert process is not None  # it is this process
    holder = f"{spec.name}-exchange-{process.pid}-{process.started_at}"
    try:
        lease = store.leases.acquire(*spec.checkpoints, stream=owner(spec.name), holder=holder, ttl=LEASE_TTL, now=at)
    except LeaseHeld as error:
        raise LeaseHeld(
            f"{spec.name} runs, or its checkpoint is being exchanged: {error.observed}",
            expected="a stream that is stopped",
            where=error.where,
            next_step=f"run `streamwarden stop {owner(spec.name)}`, then the same command again",
        ) from error
    try:
        store.leases.bind(lease, process, ttl=LEASE_TTL, now=at)
        yield
    finally:
        store.leases.release(lease, now=time.time())


def require_exchangeable(spec: StreamSpec, *places: str) -> None:
    """Raises CheckpointError if one of the places is neither on a disk of this host nor in an object store or HDFS."""
    for place in places:
        if not (STORED.match(place) or isinstance(open_path(place).fs, LocalFiles)):
            raise _elsewhere(
                spec, f"{place} is in a storage in which nothing is exchanged", "or an s3a:// or hdfs:// URL"
            )


def require_on_disk(spec: StreamSpec) -> None:
    """Raises CheckpointError if the checkpoint is not on a disk of this host, where Spark writes a copy of it."""
    if not isinstance(checkpoint_of(spec).fs, LocalFiles):
        raise _elsewhere(spec, f"{spec.checkpoint} is not on a disk of this host, where Spark would write its copy")


def _elsewhere(spec: StreamSpec, observed: str, more: str = "") -> CheckpointError:
    return CheckpointError(
        observed,
        expected=f"a folder on a disk of this host {more}".rstrip(),
        where=spec.file or spec.name,
        next_step="give the stream a new checkpoint path and a new output, in one change",
    )


def require_continuable(spec: StreamSpec, copy: Location) -> CheckpointReport:
    """The report on a copy of the stream's checkpoint. Raises CheckpointError if Spark would not continue from it
    rightly."""
    report = read_checkpoint(copy)
    for finding in report.findings:
        if finding.consequence is not Consequence.HARMLESS:  # nor RECOVERS: the copy lacks what Spark repairs from
            raise damaged_copy(spec.checkpoint, f"{finding.path}: {finding.what}", finding.next_step)
    return report


def damaged_copy(where: str, what: str, next_step: str) -> CheckpointError:
    """The error for a copy that is no whole checkpoint."""
    return CheckpointError(
        f"the copy is damaged, as its original is: {what}",
        expected="a checkpoint from which Spark continues with the right output",
        where=where,
        next_step=next_step,
    )
