"""Makes forks: surveys the origin, plans with `lifecycle.fork_plan`, carries the plan out.

A fork is on local disk, unless a folder of its origin's object store is named for it. What the origin has on a disk is
linked; what it has in an object store is copied.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Final, Literal

from streamwarden.adapters.storage.files import LocalFiles, open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks import plan as plans
from streamwarden.lifecycle.forks.fork import Fork, input_digest
from streamwarden.lifecycle.forks.places import Places, places_of
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.forks.copying import carry
from streamwarden.services.forks.files import carry_out, remove_folder, remove_stored, require_empty, require_own
from streamwarden.services.forks.scripts import is_script, require_script_fork, script_input
from streamwarden.services.forks.spec import BATCHES, batches_left, forked_spec, in_batches
from streamwarden.sinks.base import Sink
from streamwarden.sources.base import Source
from streamwarden.stream.spec import OBJECT_STORE, StreamSpec

ATTEMPTS: Final = 5
"""Spark purges old logs and state versions while they are linked; a new attempt starts from what is there then."""


def fork(
    spec: StreamSpec,
    *,
    into: Path,
    at: str | None = None,
    rewind: int | Literal["all"] | None = 0,
    feed: Feed = Feed.ORIGIN,
    batches: int | None = None,
) -> Fork:
    """Fork `spec`, which may be running; nothing of the origin is changed.

    Args:
        into: folder of the fork, absent or empty: gets checkpoint/, output/, input/ (and quarantine/ when it runs).
        at: URL of a folder in the origin's object store, absent or empty: gets what of checkpoint/, output/ and
            quarantine/ the origin has in the store. None: `into` gets all.
        rewind: 0: at the newest committed batch; k: k batches before it; "all" or None: from the beginning, with an
            empty checkpoint and an empty output, so that the whole bounded input is processed again.
        feed: a topic of its own has other offsets than the origin's: such a fork begins with an empty checkpoint.
        batches: after how many batches the fork ends if its source has no end; None: `BATCHES`.

    The fork of a script gets nothing: its driver makes what it needs, and it reads the input where it is.

    Raises CheckpointError if the stream cannot be forked (remote paths other than s3a://, a job with its own source or
    sink, a database that does not allow it), the batch is not kept any more (with the rewinds that are possible), or
    `into` is not empty.
    """
    into = into.absolute()
    if is_script(spec):
        return _fork_script(spec, into, at, rewind, feed)
    places = places_of(spec, str(into), at)
    forked = forked_spec(spec, places, feed)
    rewind = rewind if feed is Feed.ORIGIN else "all"
    store = forked.storage.connection
    checkpoint = _origin(spec.checkpoint, spec)
    output = _origin(spec.sink.path, spec) if spec.sink.MANIFEST else None
    source = None if spec.source.path is None else _origin(spec.source.path, spec)
    assert isinstance(spec.source, Source)  # forked_spec refuses any other
    require_own(into, below=into.parent)
    for place in (str(into), *places.stored):
        require_empty(place, store)
    drop_scratch(forked)  # of an attempt whose folder is gone: the name is a digest of it
    for attempt in range(1, ATTEMPTS + 1):
        try:
            batch, query_id = None, None
            if rewind in ("all", None):
                empty_output(spec, forked)
            else:
                query_id = str(uuid.uuid4())
                batch = carry(spec, forked, checkpoint, output, source, places, int(rewind), query_id)
            if query_id is not None:
                carry_out([plans.metadata_step(places, query_id)], checkpoint.fs, store)
            carried = places.checkpoint if batch is not None else None
            forked = spec.source.bounded(forked, batch, batches or BATCHES)
            found = spec.source.take_input(spec, forked, carried, feed)
        except FileNotFoundError as error:
            clear(into, forked)
            if attempt == ATTEMPTS:
                raise _vanished(spec, error) from error
        except OSError as error:
            clear(into, forked)
            raise CheckpointError(
                f"the fork could not be made: {error}",
                expected="an origin that can be read, and room for its files",
                where=str(into),
                next_step="check the disk (df), or the object store and the connection to it; then try again",
            ) from error
        except BaseException:
            clear(into, forked)
            raise
        else:
            break
    forked = in_batches(spec, forked, found.unseen)
    return Fork(
        spec=forked,
        origin=spec.name,
        batch=batch,
        query_id=query_id,
        inputs=found.total,
        unseen=found.unseen,
        longest_queue=found.longest_queue,
        batches_left=batches_left(forked, found.longest_queue),
        input_digest=found.digest,
        what=found.what,
        copied=found.copied,
        ranges=found.ranges,
    )


def _fork_script(spec: StreamSpec, into: Path, at: str | None, rewind: int | Literal["all"] | None, feed: Feed) -> Fork:
    """The fork of a script. Nothing is made: its driver creates the folders of each query."""
    require_script_fork(spec, rewind, at)
    forked = forked_spec(spec, Places.under(str(into)), feed)
    require_own(into, below=into.parent)
    require_empty(str(into))
    files = script_input(spec)
    return Fork(
        spec=forked,
        origin=spec.name,
        batch=None,
        query_id=None,
        inputs=None if files is None else len(files),
        unseen=None if files is None else len(files),
        longest_queue=0,
        batches_left=None,
        input_digest="" if files is None else input_digest(files),
    )


def empty_output(spec: StreamSpec, forked: StreamSpec) -> None:
    """The fork's table or topic, empty; a folder is made by its first writer.

    Raises CheckpointError if the database or the broker does not allow it.
    """
    if isinstance(spec.sink, Sink):
        spec.sink.make_empty(spec, forked)


def _origin(url: str | None, spec: StreamSpec) -> Location:
    """A place of the stream."""
    origin = open_path(url, spec.storage.connection) if url else None
    known = origin is not None and (isinstance(origin.fs, LocalFiles) or origin.path.startswith("s3a://"))
    if origin is None or not known or set(origin.path) & set("*?[{"):
        raise CheckpointError(
            f"a fork cannot be made of {url!r}",
            expected="local folders or s3a:// URLs, without wildcards, as checkpoint, source.path and sink.path",
            where=spec.file or spec.name,
            next_step="name one folder each, on a disk of this host or as s3a://: no other stream can be drilled",
        )
    return origin


def clear(into: Path, forked: StreamSpec) -> None:
    """Remove the fork in `into`: its folders, table and topics. Raises what `drop_scratch` raises, and OSError."""
    drop_scratch(forked)
    for place in stored_places(forked):
        remove_stored(place, forked.storage.connection)
    require_own(into, below=into.parent)
    for each in into.iterdir() if into.is_dir() else ():
        remove_folder(each, below=into)


def stored_places(forked: StreamSpec) -> tuple[str, ...]:
    """Those folders of a fork that are in an object store."""
    places = (forked.checkpoint, forked.sink.path, forked.quarantine)
    return tuple(place for place in places if place is not None and OBJECT_STORE.match(place))


def drop_scratch(forked: StreamSpec) -> list[str]:
    """Remove what the fork has outside of its folders: its table or topic, and the topic that it reads if that is its
    own. Returns their names. Raises what `drop_output` raises."""
    found = [drop_output(forked)]
    if isinstance(forked.source, Source):
        found.append(forked.source.drop_scratch())
    return [each for each in found if each is not None]


def drop_output(forked: StreamSpec) -> str | None:
    """Remove the fork's table or topic; returns its name, None if there is none.

    Raises CheckpointError if the database or the broker does not allow it.
    """
    return forked.sink.drop(forked) if isinstance(forked.sink, Sink) else None


def _vanished(spec: StreamSpec, error: FileNotFoundError) -> CheckpointError:
    return CheckpointError(
        f"{error.filename} is not there, in each of {ATTEMPTS} attempts",
        expected="every file that the checkpoint and the sink's manifest name, and a folder of input",
        where=spec.file or spec.name,
        next_step="run `streamwarden inspect` on the checkpoint with its output; or fork from the beginning",
    )
