"""Takes a savepoint of a query, which may be running: gathers, plans (`lifecycle.savepoints.plan`), copies, inspects
the copy, and writes the manifest last.

A purge by Spark in the middle removes a file that the plan names: then the copy is made again from what is there now.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.adapters.storage.files import checkpoint_of, open_path, output_of
from streamwarden.checkpoint.diagnosis.report import CheckpointReport
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import SINK_LOG, Damaged
from streamwarden.checkpoint.formats.sink import read_sink_manifest
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.needed import to_continue
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.plan import Link, Survey
from streamwarden.lifecycle.savepoints import plan as plans
from streamwarden.lifecycle.savepoints.savepoint import Savepoint, savepoint_id
from streamwarden.services.exchanges.refusals import damaged_copy, require_continuable
from streamwarden.services.forks.files import carry_out
from streamwarden.services.forks.gathering import named_tables, survey
from streamwarden.services.savepoints.describing import Author, describe
from streamwarden.services.savepoints.documents import write_manifest
from streamwarden.services.savepoints.folders import claim_new, empty, release, remove, unusable
from streamwarden.services.savepoints.removing import remove_abandoned
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.telling import Tell, counted, silent
from streamwarden.stream.spec import StreamSpec

ATTEMPTS: Final = 5
"""Spark purges old logs and state versions while they are copied; a new attempt starts from the remaining ones."""

_COPIED: Final = "files copied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What a savepoint copies: the survey of a checkpoint with only what `batch` needs."""

    batch: int
    survey: Survey
    output: Location | None

    @property
    def files(self) -> list[str]:
        """The files that are copied."""
        places = Places.under("")
        return [link.source for link in (*self.checkpoint_links(places), *self.output_links(places))]

    def checkpoint_links(self, places: Places) -> Iterator[Link]:
        return plans.links(self.survey, places, self.batch)

    def output_links(self, places: Places) -> Iterator[Link]:
        return iter(()) if self.output is None else plans.manifest_links(self.survey, places, self.output.path)


def gather(spec: StreamSpec, batch: int | None) -> Gathered:
    """What a savepoint of `batch` (None: the newest committed one) would copy now; writes nothing.

    Raises CheckpointError if none can be taken there.
    """
    try:
        return _gather(spec, batch)
    except OSError as error:
        raise _unreadable(spec, error) from error


def create(
    spec: StreamSpec,
    batch: int | None,
    author: Author,
    *,
    now: Callable[[], float] = time.time,
    tell: Tell = silent,
) -> Savepoint:
    """Copy the checkpoint as of `batch` (None: the newest committed one), with what says where the output stood.

    First removes what interrupted processes left. One that fails leaves nothing.

    Raises CheckpointError if no savepoint can be taken there, Spark would not start on the copy, or there is no room.
    """
    savepoints, found = Savepoints.of(spec), gather(spec, batch)
    try:
        remove_abandoned(savepoints)
        place = _claimed(savepoints, now)
    except OSError as error:
        raise unusable(savepoints.root, error) from error
    try:
        at = _copied(spec, place, batch, found, tell)
        taken_at, report = now(), _inspected(spec, place, at)
        savepoint = describe(spec, place, at, report, author, taken_at, tell)
        write_manifest(place, savepoint)
        release(place)
    except BaseException as error:
        with suppress(OSError):  # then the next `create` removes it
            remove(place)
        if isinstance(error, OSError):
            raise unusable(place.path, error) from error
        raise
    return savepoint


def _claimed(savepoints: Savepoints, now: Callable[[], float]) -> Location:
    """A folder of its own; of several processes that begin in one second, each takes another second."""
    at = now()
    while not claim_new(place := savepoints.place(savepoint_id(at))):
        at += 1
    return place


def _copied(spec: StreamSpec, place: Location, batch: int | None, found: Gathered, tell: Tell) -> int:
    """Copy what was found, or what there is after a purge; returns the batch. Raises CheckpointError, OSError."""
    places = Places.under(place.path)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            found = found if attempt == 1 else _gather(spec, batch)
            files, later = len(found.files), len(list(found.output_links(places)))
            links = counted(found.checkpoint_links(places), _COPIED, files, tell)
            carry_out(links, checkpoint_of(spec).fs, spec.storage.connection)
            if found.output is not None:  # after the checkpoint, which it may not be ahead of
                links = counted(found.output_links(places), _COPIED, files, tell, done=files - later)
                carry_out(links, found.output.fs, spec.storage.connection)
            return found.batch
        except FileNotFoundError as error:
            if attempt == ATTEMPTS:
                raise _purged(spec, error) from error
            empty(place)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _gather(spec: StreamSpec, batch: int | None) -> Gathered:
    checkpoint, output = checkpoint_of(spec), output_of(spec)
    history = survey(checkpoint, output)
    at = plans.batch_to_save(history, batch)
    try:
        part = to_continue(history, at, named_tables(history, checkpoint, [at]))
    except Damaged as error:
        raise CheckpointError(
            f"the state cannot be copied: {error}",
            expected="whole snapshots",
            where=checkpoint.path,
            next_step="run `streamwarden inspect` on the stream: it says what Spark will do about it",
        ) from error
    return Gathered(batch=at, survey=part, output=output)


def _inspected(spec: StreamSpec, place: Location, batch: int) -> CheckpointReport:
    """The report on the copy. Raises CheckpointError if it is not whole. The data of the output are not looked at:
    they are not a part of it."""
    places = Places.under(place.path)
    report = require_continuable(spec, open_path(places.checkpoint, spec.storage.connection))
    if not spec.sink.MANIFEST:
        return report
    manifest = read_sink_manifest(open_path(places.output, spec.storage.connection), batch)
    if manifest is None or manifest.missing or manifest.damaged:
        what = "no entry" if manifest is None else str(manifest.damaged or manifest.missing)
        raise damaged_copy(str(spec.sink.path), f"the manifest of the output: {what}", "run `streamwarden inspect`")
    return replace(report, formats={**report.formats, SINK_LOG: f"v{manifest.entries[-1].version}"})


def _purged(spec: StreamSpec, error: FileNotFoundError) -> CheckpointError:
    return CheckpointError(
        f"Spark purged {error.filename} while it was copied, {ATTEMPTS} times in a row",
        expected="a copy that is faster than the batches that Spark keeps",
        where=spec.checkpoint,
        next_step="raise spark.sql.streaming.minBatchesToRetain, or name a folder on the checkpoint's disk with "
        "`savepoints.folder`, where files are linked instead of copied; a file that stays missing is a damage: run "
        "`streamwarden inspect`",
    )


def _unreadable(spec: StreamSpec, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint cannot be read: {error.strerror or error}",
        expected="a folder that this user may list and read",
        where=str(error.filename or spec.checkpoint),
        next_step="check the path, its permissions and, for an object store, the credentials",
    )
