"""Makes the fork that a drill breaks, below `DATA/drills/RUN_ID/fork`, and removes it.

With `fork.at` the fork keeps below `AT/RUN_ID/fork` the stream's folders in an object store. Nothing stays there: when
the drill is over, the evidence is moved to the fork's folder on this host.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.filesystem import join
from streamwarden.checkpoint.formats.layout import OFFSETS, STATE, batch_ids, list_or_empty
from streamwarden.checkpoint.formats.uris import file_name
from streamwarden.drills.records.outside import Outside, Trace
from streamwarden.drills.records.sections import ForkSpec, OracleKind
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import CheckpointError, ConfigError, DrillAborted, SourceError, VerificationError
from streamwarden.lifecycle.driver_folder import OUTSIDE, read_document, read_lines, write_document
from streamwarden.lifecycle.forks.fork import Fork
from streamwarden.lifecycle.forks.places import Places, places_of
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.lifecycle.settings import RETAIN
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.drillable import require_fork, require_verdict
from streamwarden.services.drilling.listing import LISTING, Around
from streamwarden.services.drilling.ports.checkpoint_files import COPY
from streamwarden.services.drilling.ports.inputs import TAKEN_OUT
from streamwarden.services.forks.files import bring_home, remove_empty, remove_folder, remove_stored, require_own
from streamwarden.services.forks.forks import drop_output, drop_scratch, empty_output, fork, stored_places
from streamwarden.services.forks.scripts import is_script, without_places
from streamwarden.services.forks.spec import batches_left, forked_spec, renewed_spec, run_name
from streamwarden.services.forks.spec_storage import StoredSpecs
from streamwarden.services.forks.working_folder import WORK, in_working_folder
from streamwarden.services.savepoints.forking import fork_from
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.twins import making as twins
from streamwarden.sources.base import StoredSource
from streamwarden.stream.spec import StreamSpec

FORK: Final = "fork"

RENEWED: Final = "anew"
"""The folder for checkpoint and output of a fork that needed new ones."""

_SCRATCH: Final = ("input", TAKEN_OUT, "checkpoint/state", "checkpoint/*/state", COPY)
"""The parts of a fork that are not evidence: links to the input, the state of its queries, and the copy of a checkpoint
that a fault has damaged. Logs and output stay."""

_PLANNED: Final = "fork.json"
"""The fork's spec, written next to its folder before anything is made. It names the table, or the topics, of a fork
that was never finished."""

_RETAINED: Final = "100000"
"""A fork's logs are evidence, and the oracle reads every entry of its offset log: none may be purged."""


class DrillForks:
    """Implements `drills.ports.Forks`.

    Args:
        stream: the production stream's spec by name; raises ConfigError if it does not exist.
        around: finds what changes around a drill; None: nothing looks for it.
    """

    def __init__(
        self, archive: DrillArchive, stream: Callable[[str], StreamSpec], around: Around | None = None
    ) -> None:
        self._archive = archive
        self._stream = stream
        self._around = around
        self._specs = StoredSpecs(stream)

    def declared(self, stream: str, feed: Feed) -> StreamSpec:
        with _as_abortion():
            origin = self._stream(stream)
            require_fork(origin, feed)
        return without_places(origin) if is_script(origin) else origin

    def oracles(self, stream: str, feed: Feed, asked: OracleKind) -> tuple[OracleKind, ...]:
        with _as_abortion():
            return require_verdict(self._stream(stream), feed, asked)

    def make(
        self, run_id: str, stream: str, spec: ForkSpec, feed: Feed, oracles: tuple[OracleKind, ...] = (OracleKind.JOB,)
    ) -> ForkView:
        """Raises DrillAborted if the stream cannot be forked there, has no input, or no oracle could judge the fork.
        Nothing is broken then."""
        origin = self._stream(stream)
        into = self._archive.folder(run_id) / FORK
        at = None if spec.at is None else join(spec.at, run_id, FORK)
        with _as_abortion():
            remove_folder(into, below=into.parents[1])  # half a fork that a killed try left: it had no driver
            planned = forked_spec(origin, places_of(origin, str(into.absolute()), at), feed)
            write_document(into.parent / _PLANNED, self._specs.write(planned))
            _remove_stored(run_id, planned)
            made = fork(origin, into=into, at=at, rewind=spec.rewind, feed=feed, batches=spec.batches)
        if made.inputs == 0:
            raise DrillAborted(
                "the stream has no input yet",
                expected=f"{made.what}s in its source",
                where=str(origin.source.path or origin.source.topic),
                next_step="wait for input, or make some (`streamwarden replay`)",
            )
        _require_every_batch(made)
        bounded = _bounded(made, run_id, spec)
        with _as_abortion():
            bounded = in_working_folder(bounded, origin, into.parent)
        if OracleKind.TWIN in oracles and made.batch is not None:
            with _as_abortion():
                twins.keep_start(bounded, into.parent / twins.TWIN)
        if self._around is not None:
            self._around.keep(origin, into.parent, time.time())
        return _view(made, bounded, feed, oracles)

    def restored(self, run_id: str, stream: str, savepoint: str) -> ForkView:
        origin = self._stream(stream)
        into = self._archive.folder(run_id) / FORK
        with _as_abortion():
            remove_folder(into, below=into.parents[1])
            planned = forked_spec(origin, places_of(origin, str(into.absolute()), None))
            write_document(into.parent / _PLANNED, self._specs.write(planned))
            made = fork_from(origin, Savepoints.of(origin).get(savepoint), into.parent)
        if self._around is not None:
            self._around.keep(origin, into.parent, time.time())
        return _view(made, made.spec, Feed.ORIGIN, (OracleKind.TWIN,))

    def renew(self, run_id: str, fork: ForkView) -> ForkView:
        """The fork with an empty checkpoint and an empty output in a separate folder; its input stays the same.

        Raises CheckpointError if the database or the broker refuses, ConfigError.
        """
        folder = self._archive.folder(run_id) / RENEWED
        remove_folder(folder, below=folder.parents[1])  # of a killed attempt: no driver was started on it
        folder.mkdir()
        fresh = _renewed(fork.spec, folder)
        drop_output(fresh)
        empty_output(self._stream(fork.origin), fresh)
        return replace(
            fork,
            checkpoint=fresh.checkpoint,
            output=fresh.sink.place,
            spec=fresh,
        )

    def outside(self, run_id: str, stream: str) -> Outside:
        run, found = self._archive.folder(run_id), defaultdict[str, dict[str, None]](dict)
        for trace in read_lines(run / OUTSIDE):
            found[trace["kind"]][trace["what"]] = None
        recorded = Outside(
            files=tuple(found[Trace.FILE]),
            servers=tuple(found[Trace.SERVER]),
            programs=tuple(found[Trace.PROGRAM]),
            recorded=Trace.WATCHED in found and Trace.MISSED not in found,
        )
        if self._around is None:
            return recorded
        return self._around.compared(self._stream(stream), run, recorded, time.time())

    def clear(self, run_id: str, fork: ForkView | None) -> Sequence[str]:
        """Remove input links, state, scratch tables and topics, and everything in an object store, from where logs and
        output are moved to this host first. Of a fork that was never finished everything is removed. The same of its
        twins.

        Raises CheckpointError if the database, the broker or the object store refuses, or a folder of the fork is a
        symbolic link: its target does not belong to the drill; also for a live stream, of which nothing is ever
        removed.
        """
        _require_copy(fork)
        home = self._archive.folder(run_id)
        for part in (FORK, RENEWED):
            require_own(home / part, below=home.parent)
        targets = (
            [home / FORK]
            if fork is None
            else [path for part in (FORK, RENEWED) for name in _SCRATCH for path in sorted((home / part).glob(name))]
        )
        removed: list[str] = []
        document = read_document(home / _PLANNED)
        planned = self._specs.read(document) if document else None
        spec = fork.spec if fork is not None else planned
        removed += twins.clear(spec, home / twins.TWIN, whole=fork is None)
        if spec is not None:
            removed += drop_scratch(spec)
            if (home / RENEWED).is_dir() and (output := drop_output(_renewed(spec, home / RENEWED))) is not None:
                removed.append(output)
            if planned is not None and not stored_places(spec):  # a renewed fork is on this host
                spec = planned
            for place in stored_places(spec) if fork is not None else ():  # logs, output and quarantine are evidence
                scratch = (STATE,) if place == spec.checkpoint else ()
                bring_home(place, home / FORK / file_name(place), spec.storage.connection, skip=scratch)
            removed += _remove_stored(run_id, spec)
        (home / LISTING).unlink(missing_ok=True)
        for target in (*targets, home / WORK):
            if remove_folder(target, below=home.parent):
                removed.append(str(target.relative_to(home)))
        return removed


def _view(made: Fork, spec: StreamSpec, feed: Feed, oracles: tuple[OracleKind, ...]) -> ForkView:
    return ForkView(
        stream=spec.name,
        origin=made.origin,
        checkpoint=spec.checkpoint,
        output=spec.fork.output if spec.fork is not None else spec.sink.place,
        batch=made.batch,
        unseen=made.unseen,
        what=made.what,
        batches_left=batches_left(spec, made.longest_queue),
        input_digest=made.input_digest,
        spec=spec,
        bounded=feed is Feed.ORIGIN,
        copied=made.copied,
        ranges=made.ranges,
        oracles=oracles,
    )


@contextmanager
def _as_abortion() -> Iterator[None]:
    try:
        yield
    except (CheckpointError, ConfigError, SourceError, VerificationError) as error:
        raise DrillAborted.of(error) from error


def _require_copy(fork: ForkView | None) -> None:
    """Raises CheckpointError for a live stream."""
    if fork is not None and (fork.live or fork.spec.name == fork.origin):
        raise CheckpointError(
            f"{fork.stream} is a live stream, and nothing of it is removed",
            expected="a fork that the drill made",
            where=fork.checkpoint,
            next_step="report this: it is a defect",
        )


def _require_every_batch(made: Fork) -> None:
    """Raises DrillAborted if the fork begins after batches whose offsets are gone. Each of them decides what was read
    and which rows were late, so that no oracle could judge a run of the fork."""
    if made.batch is None:
        return
    checkpoint = checkpoint_of(made.spec)
    kept = batch_ids(list_or_empty(checkpoint / OFFSETS))
    missing = sorted(set(range(made.batch + 1)) - set(kept))
    if missing:
        raise DrillAborted(
            f"the offset log no longer has batch {missing[0]} ({len(missing)} batches in all), and the fork would "
            f"begin after batch {made.batch}",
            expected="the offsets of each batch that the fork takes over; Spark removes those of old batches",
            where=f"{OFFSETS}/ of {made.origin}'s checkpoint",
            next_step="drill the stream with `rewind: all`, which begins with an empty checkpoint",
        )


def _renewed(spec: StreamSpec, folder: Path) -> StreamSpec:
    return renewed_spec(spec, Places.under(str(folder.absolute())))


def _remove_stored(run_id: str, spec: StreamSpec) -> list[str]:
    """Remove those of the fork's folders that are in an object store. Raises CheckpointError for one that does not
    belong to this run, even if the spec has it."""
    removed = []
    for place in stored_places(spec):
        if f"/{run_id}/{FORK}/" not in place:
            raise CheckpointError(
                f"{place} is not removed: it is not a folder of the drill run {run_id}",
                expected=f"…/{run_id}/{FORK}/…",
                where=spec.name,
                next_step="check what is there: a drill removes only what it made",
            )
        if remove_stored(place, spec.storage.connection):
            removed.append(place)
    if removed:
        root = removed[0].rpartition("/")[0]
        for folder in (root, root.removesuffix(f"/{FORK}")):
            remove_empty(folder, spec.storage.connection)
    return removed


def _bounded(made: Fork, run_id: str, wanted: ForkSpec) -> StreamSpec:
    """The fork's spec with a name that only this run uses, with logs that are kept, and with the requested number of
    batches."""
    spec, batches = made.spec, wanted.batches
    source = spec.source
    if batches is not None and isinstance(source, StoredSource):
        source = source.limited_to(max(1, math.ceil(made.longest_queue / batches)))
    spark = replace(spec.spark, conf={**spec.spark.conf, RETAIN: _RETAINED})
    script = spec.fork and replace(spec.fork, batches=batches, foreach_batch=wanted.foreach_batch)
    return replace(spec, name=run_name(made.origin, run_id), source=source, spark=spark, fork=script)
