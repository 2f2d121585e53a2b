"""Makes the fork that a drill breaks, below `DATA/drills/RUN_ID/fork`, and clears it away.

With `fork.at` what the stream has in an object store is below `AT/RUN_ID/fork`. Nothing stays there: when the drill is
over, what is evidence is brought to the fork's folder on this host.
"""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.filesystem import join
from streamwarden.checkpoint.layout import OFFSETS, STATE, batch_ids, list_or_empty
from streamwarden.checkpoint.uris import file_name
from streamwarden.config.loading import spec_from_dict, spec_to_dict
from streamwarden.drills.ports import ForkView
from streamwarden.drills.spec import ForkSpec
from streamwarden.errors import CheckpointError, ConfigError, DrillAborted, SourceError, VerificationError
from streamwarden.lifecycle.folder import read_document, write_document
from streamwarden.lifecycle.forks.fork import Fork
from streamwarden.lifecycle.forks.places import Places, places_of
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.lifecycle.settings import RETAIN
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.drillable import require_fork, require_verdict
from streamwarden.services.forks.files import bring_home, remove_empty, remove_stored
from streamwarden.services.forks.forks import drop_output, drop_scratch, empty_output, fork, stored_places
from streamwarden.services.forks.spec import SUFFIX, batches_left, forked_spec, renewed_spec
from streamwarden.sources.base import Source
from streamwarden.stream import StreamSpec

FORK: Final = "fork"

ANEW: Final = "anew"
"""Checkpoint and output of a fork that had to begin anew."""

_SCRATCH: Final = ("input", "checkpoint/state")
"""What of a fork is no evidence: links to the input, and the state. Logs and output stay."""

_PLANNED: Final = "fork.json"
"""The fork's spec, beside its folder, before anything is made: names the table, or the topics, of a fork that was never
finished."""

_RETAINED: Final = "100000"
"""A fork's logs are evidence, and the oracle reads every one of its offset entries: none may be purged."""


class DrillForks:
    """Implements `drills.ports.Forks`.

    Args:
        stream: the production stream's spec by name; raises ConfigError for one that is not there.
    """

    def __init__(self, archive: DrillArchive, stream: Callable[[str], StreamSpec]) -> None:
        self._archive = archive
        self._stream = stream

    def declared(self, stream: str, feed: Feed) -> Mapping[str, Any]:
        """Raises DrillAborted for a stream that cannot be forked or whose output no oracle judges."""
        try:
            origin = self._stream(stream)
            require_fork(origin, feed)
            require_verdict(origin)
        except (CheckpointError, ConfigError, VerificationError) as error:
            raise DrillAborted(
                error.observed, expected=error.expected, where=error.where, next_step=error.next_step
            ) from error
        return spec_to_dict(origin)

    def make(self, run_id: str, stream: str, spec: ForkSpec, feed: Feed) -> ForkView:
        """Raises DrillAborted if the stream cannot be forked there, or has no input, or no oracle could judge the fork:
        nothing was broken yet."""
        origin = self._stream(stream)
        into = self._archive.folder(run_id) / FORK
        at = None if spec.at is None else join(spec.at, run_id, FORK)
        shutil.rmtree(into, ignore_errors=True)  # half a fork that a killed try left; no driver was started on it
        try:
            planned = forked_spec(origin, places_of(origin, str(into.absolute()), at), feed)
            write_document(into.parent / _PLANNED, spec_to_dict(planned))
            _remove_stored(run_id, planned)
            made = fork(origin, into=into, at=at, rewind=spec.rewind, feed=feed)
        except (CheckpointError, ConfigError, SourceError) as error:
            raise DrillAborted(
                error.observed, expected=error.expected, where=error.where, next_step=error.next_step
            ) from error
        if made.inputs == 0:
            raise DrillAborted(
                "the stream has no input yet",
                expected=f"{made.what}s in its source",
                where=str(origin.source.path or origin.source.topic),
                next_step="wait for input, or make some (`streamwarden replay`)",
            )
        _require_every_batch(made)
        bounded = _bounded(made, run_id, spec.batches)
        return ForkView(
            stream=bounded.name,
            origin=made.origin,
            checkpoint=bounded.checkpoint,
            output=bounded.sink.place,
            batch=made.batch,
            unseen=made.unseen,
            what=made.what,
            batches_left=batches_left(bounded, made.longest_queue),
            input_digest=made.input_digest,
            spec=spec_to_dict(bounded),
            bounded=feed is Feed.ORIGIN,
            copied=made.copied,
            ranges=made.ranges,
        )

    def renew(self, run_id: str, fork: ForkView) -> ForkView:
        """The fork with an empty checkpoint and an empty output, in a folder of their own; it reads what it read.

        Raises CheckpointError if the database or the broker does not let it, ConfigError.
        """
        folder = self._archive.folder(run_id) / ANEW
        shutil.rmtree(folder, ignore_errors=True)  # half of it that a killed try left; no driver was started on it
        folder.mkdir()
        fresh = _anew(spec_from_dict(dict(fork.spec)), folder)
        drop_output(fresh)
        empty_output(self._stream(fork.origin), fresh)
        return replace(
            fork,
            checkpoint=fresh.checkpoint,
            output=fresh.sink.place,
            spec=spec_to_dict(fresh),
        )

    def clear(self, run_id: str, fork: ForkView | None) -> Sequence[str]:
        """Remove input links, state, scratch tables and topics, and what is in an object store, whose logs and output
        are brought here first; all of a fork that was never finished.

        Raises CheckpointError if the database, the broker or the object store does not let it.
        """
        home = self._archive.folder(run_id)
        targets = [home / FORK] if fork is None else [home / part / each for part in (FORK, ANEW) for each in _SCRATCH]
        removed = []
        planned = read_document(home / _PLANNED)
        document = fork.spec if fork is not None else planned
        if document:
            spec = spec_from_dict(dict(document))
            removed += drop_scratch(spec)
            if (home / ANEW).is_dir() and (output := drop_output(_anew(spec, home / ANEW))) is not None:
                removed.append(output)
            if planned and not stored_places(spec):  # one that began anew did so on this host
                spec = spec_from_dict(dict(planned))
            if fork is not None:
                _bring_home(spec, home / FORK)
            removed += _remove_stored(run_id, spec)
        for target in targets:
            if target.exists():
                shutil.rmtree(target)
                removed.append(str(target.relative_to(home)))
        return removed


def _require_every_batch(made: Fork) -> None:
    """Raises DrillAborted if the fork begins behind batches whose offsets are gone: any of them decides what was read
    and which rows were late, so that an oracle could judge no run of it."""
    if made.batch is None:
        return
    checkpoint = open_path(made.spec.checkpoint, made.spec.storage.connection)
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


def _anew(spec: StreamSpec, folder: Path) -> StreamSpec:
    return renewed_spec(spec, Places.under(str(folder.absolute())))


def _bring_home(spec: StreamSpec, into: Path) -> None:
    """Logs, output and quarantine of a fork in an object store. Its state is no evidence."""
    for place in stored_places(spec):
        scratch = (STATE,) if place == spec.checkpoint else ()
        bring_home(place, into / file_name(place), spec.storage.connection, skip=scratch)


def _remove_stored(run_id: str, spec: StreamSpec) -> list[str]:
    """Those of the fork's folders that are in an object store. Raises CheckpointError for one that is not this run's,
    whatever the spec says."""
    removed = []
    for place in stored_places(spec):
        if f"/{run_id}/{FORK}/" not in place:
            raise CheckpointError(
                f"{place} is not removed: it is no folder of the drill run {run_id}",
                expected=f"…/{run_id}/{FORK}/…",
                where=spec.name,
                next_step="look at what is there; what a drill made it may remove, nothing else",
            )
        if remove_stored(place, spec.storage.connection):
            removed.append(place)
    if removed:
        root = removed[0].rpartition("/")[0]
        for folder in (root, root.removesuffix(f"/{FORK}")):
            remove_empty(folder, spec.storage.connection)
    return removed


def _bounded(made: Fork, run_id: str, batches: int | None) -> StreamSpec:
    """The fork's spec with a name that is this run's alone (so that neither its drivers nor its health are mixed with
    those of another drill), logs that are kept, and the batches that were asked for."""
    spec = made.spec
    name = f"{made.origin[:40]}{SUFFIX}_{hashlib.sha256(run_id.encode()).hexdigest()[:10]}"
    source = spec.source
    if batches is not None and isinstance(source, Source):
        source = source.limited_to(max(1, math.ceil(made.longest_queue / batches)))
    spark = replace(spec.spark, conf={**spec.spark.conf, RETAIN: _RETAINED})
    return replace(spec, name=name, source=source, spark=spark)
