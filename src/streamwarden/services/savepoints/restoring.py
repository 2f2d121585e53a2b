"""Puts a stream back to a savepoint: its checkpoint, and its output with it.

1. Under the lease of the stream, so that no driver starts meanwhile, everything is checked and copied: the savepoint is
   verified, its checkpoint is copied beside the stream's and inspected, and the sink prepares its part.
2. The journal is written. From here on a launch is refused until the restore is complete.
3. The sink takes out what was written after the batch, then the checkpoints are exchanged by two renames, and later
   rows leave the quarantine. All of it is kept, except rows of a table.
4. The store learns that the stream was put back, and the journal is moved into the previous checkpoint.

Killed in step 1 it has changed nothing, and what it left is removed by the next one. Killed later it goes on from the
journal when it is run again.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden import disk
from streamwarden.adapters import processes
from streamwarden.adapters.storage.files import LocalFiles, checkpoint_of, link_or_copy, open_path
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import OFFSETS
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.errors import CheckpointError, LeaseHeld
from streamwarden.lifecycle.driver import DriverEvent
from streamwarden.lifecycle.driver_folder import read_document
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.savepoints.restore import RESTORED, Restore, journal_of
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.services.fleet.claims import LEASE_TTL
from streamwarden.services.savepoints.creating import require_continuable
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.quarantine import take_back
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.verifying import require_whole
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

_JOURNAL: Final = "restore.json"
"""The name of the journal in the previous checkpoint, when the restore is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a restore did. `aside`: the previous checkpoint; None: there was none. `resumed`: an earlier one was
    completed."""

    restore: Restore
    output: str
    aside: str | None
    resumed: bool


def restore(
    store: "Store", spec: StreamSpec, savepoint: str | None, author: Author, *, now: Callable[[], float] = time.time
) -> Restored:
    """Put a stopped stream back to a savepoint (None: the newest one), or complete a restore that was killed.

    Raises:
        CheckpointError: the savepoint is not whole or of another query, the output cannot be taken back, or a restore
            of another savepoint was interrupted.
        LeaseHeld: the stream runs.
        StoreError: the store is down.
    """
    _require_on_disk(spec)
    at = now()
    with _alone(store, spec, at):
        begun = _journal(spec)
        if begun is None:
            begun, resumed = _begun(spec, Savepoints.of(spec).get(savepoint), author, at), False
        else:
            _require_same(begun, savepoint)
            resumed = True
        return _carried_out(store, spec, begun, resumed, now)


def _begun(spec: StreamSpec, savepoint: Savepoint, author: Author, at: float) -> Restore:
    """Step 1 and 2. Raises CheckpointError; nothing is changed then."""
    savepoints = Savepoints.of(spec)
    _require_own(spec, savepoint)
    require_whole(savepoints, savepoint)
    saved = Places.under(savepoints.place(savepoint.id).path)
    wanted = Restore(
        savepoint=savepoint.id,
        stream=spec.name,
        query_id=savepoint.query_id,
        batch=savepoint.batch,
        stamp=f"{datetime.fromtimestamp(at, UTC):%Y%m%dT%H%M%S.%fZ}",
        by=author.by,
        reason=author.reason,
        checkpoint=Path(checkpoint_of(spec).path).as_posix(),
    )
    assert isinstance(spec.sink, Sink)  # checked with the savepoint
    try:
        _prepare_checkpoint(open_path(saved.checkpoint, savepoints.connection), wanted)
        require_continuable(spec, open_path(wanted.prepared))
        planned = spec.sink.plan_restore(spec, wanted, open_path(saved.output, savepoints.connection))
        wanted = replace(wanted, output=planned)
        disk.replace(Path(journal_of(wanted.checkpoint)), json.dumps(asdict(wanted), indent=1))
    except OSError as error:
        raise _failed(wanted, error) from error
    return wanted


def _carried_out(store: "Store", spec: StreamSpec, begun: Restore, resumed: bool, now: Callable[[], float]) -> Restored:
    """Steps 3 and 4. Each part does nothing if it was done before."""
    assert isinstance(spec.sink, Sink)  # or it would not have begun
    checkpoint, prepared, aside = Path(begun.checkpoint), Path(begun.prepared), Path(begun.aside)
    try:
        plans = prepared if prepared.exists() else checkpoint
        output = spec.sink.restore_output(spec, begun, (plans / OFFSETS / str(begun.batch)).read_bytes())
        if prepared.exists():
            if checkpoint.exists():
                checkpoint.rename(aside)
            prepared.rename(checkpoint)
        if spec.quarantine is not None:
            take_back(Path(spec.quarantine), begun)
        _record(store, begun, output, now())
        journal = Path(journal_of(begun.checkpoint))
        if aside.exists():
            journal.rename(aside / _JOURNAL)
        else:
            journal.unlink()
    except OSError as error:
        raise _interrupted(begun, error) from error
    return Restored(restore=begun, output=output, aside=str(aside) if aside.exists() else None, resumed=resumed)


def _prepare_checkpoint(saved: Location, wanted: Restore) -> None:
    """Copy the savepoint's checkpoint beside that of the stream, which Spark then writes on in."""
    checkpoint = Path(wanted.checkpoint)
    for left in checkpoint.parent.glob(f"{checkpoint.name}.restored-*"):  # by one that was killed before it began
        shutil.rmtree(left)
    for name, _ in saved.walk():
        target = Path(wanted.prepared) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(saved / name, target)


def _record(store: "Store", begun: Restore, output: str, at: float) -> None:
    """Later batches that the store knows of the query do not count any more at a launch."""
    latest = store.drivers.latest(begun.stream)
    if latest is not None:
        observed = f"savepoint {begun.savepoint}, batch {begun.batch}; {output}"
        detail = {"by": begun.by, "reason": begun.reason or "no reason was given", "observed": observed}
        store.drivers.event(DriverEvent(driver_id=latest.driver_id, at=at, kind=RESTORED, detail=detail))


@contextmanager
def _alone(store: "Store", spec: StreamSpec, at: float) -> Iterator[None]:
    """Hold the lease of the stream as long as this process lives. Raises LeaseHeld, StoreError."""
    process = processes.identity(os.getpid())
    assert process is not None  # it is this process
    holder = f"{spec.name}-restore-{process.pid}-{process.started_at}"
    try:
        lease = store.leases.acquire(*spec.checkpoints, stream=spec.name, holder=holder, ttl=LEASE_TTL, now=at)
    except LeaseHeld as error:
        raise LeaseHeld(
            f"{spec.name} runs, or is being restored: {error.observed}",
            expected="a stream that is stopped",
            where=error.where,
            next_step=f"run `streamwarden stop {spec.name}`, then restore it",
        ) from error
    try:
        store.leases.bind(lease, process, ttl=LEASE_TTL, now=at)
        yield
    finally:
        store.leases.release(lease, now=time.time())


def _journal(spec: StreamSpec) -> Restore | None:
    """The restore that was interrupted; None: none was. Raises CheckpointError if its journal is damaged."""
    journal = Path(journal_of(checkpoint_of(spec).path))
    if not journal.exists():
        return None
    document = read_document(journal)
    try:
        return Restore(**(document or {}))
    except TypeError as error:
        raise CheckpointError(
            "the journal of an interrupted restore cannot be read",
            expected="the document that `streamwarden savepoint restore` wrote",
            where=str(journal),
            next_step="restore this file from a backup; its checkpoint and its output may be of different batches",
        ) from error


def _require_same(begun: Restore, savepoint: str | None) -> None:
    if savepoint not in (None, begun.savepoint):
        raise CheckpointError(
            f"a restore of the savepoint {begun.savepoint} was interrupted",
            expected="that restore to be completed first",
            where=journal_of(begun.checkpoint),
            next_step=f"run `streamwarden savepoint restore {begun.stream} {begun.savepoint}`",
        )


def _require_own(spec: StreamSpec, savepoint: Savepoint) -> None:
    """Raises CheckpointError for a savepoint of another stream, query or checkpoint, or an undeclared output."""
    live = log_position(checkpoint_of(spec)).query_id
    wrong = None
    if savepoint.stream != spec.name:
        wrong = f"it is of the stream {savepoint.stream}"
    elif savepoint.checkpoint != spec.checkpoint:
        wrong = f"it is of the checkpoint {savepoint.checkpoint}, and files in it name that place"
    elif live is not None and live != savepoint.query_id:
        wrong = f"it is of query {savepoint.query_id}, and the stream began anew since, as query {live}"
    elif not isinstance(spec.sink, Sink):
        wrong = "the stream's output is not declared, so it is not known what came after the batch"
    if wrong is not None:
        raise CheckpointError(
            f"{spec.name} cannot be put back to the savepoint {savepoint.id}: {wrong}",
            expected=f"a savepoint of {spec.name} and of the query that its checkpoint has",
            where=spec.checkpoint,
            next_step=f"choose another one: run `streamwarden savepoint list {spec.name}`",
        )


def _require_on_disk(spec: StreamSpec) -> None:
    places = (spec.checkpoint, *([spec.quarantine] if spec.quarantine is not None else []))
    for place in places:
        if isinstance(open_path(place, spec.storage.connection).fs, LocalFiles):
            continue
        raise CheckpointError(
            f"{place} is in an object store, where nothing is exchanged in one step",
            expected="a checkpoint and a quarantine on a disk of this host",
            where=spec.file or spec.name,
            next_step="fork the savepoint (`streamwarden savepoint fork`), or give the stream a new checkpoint path "
            "and a new output, in one change",
        )


def _failed(wanted: Restore, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"the restore could not begin, and nothing was changed: {error}",
        expected="room beside the checkpoint and in the output, and the right to write there",
        where=join(wanted.checkpoint, ".."),
        next_step="make room or correct the permissions, then restore again",
    )


def _interrupted(begun: Restore, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"the restore is not complete: {error}",
        expected="checkpoint and output of the same batch",
        where=journal_of(begun.checkpoint),
        next_step=f"correct that, then complete it: run `streamwarden savepoint restore {begun.stream}`; until then no "
        "driver is started",
    )
