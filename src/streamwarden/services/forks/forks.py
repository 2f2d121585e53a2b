"""Makes forks: gathers the origin's data (`gathering`), plans (`spec`, `lifecycle.forks.plan`), carries the plan out
(`copying`).

A fork is on local disk, unless a folder of its origin's object store is named for it. The origin's files on a disk are
linked; those in an object store are copied.
"""

from pathlib import Path
from typing import Final, Literal

from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.fork import Fork, input_digest
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.forks.copying import copy_history
from streamwarden.services.forks.files import remove_folder, remove_stored, require_empty, require_own
from streamwarden.services.forks.gathering import Origin, SavedOrigin, origin_of, saved_origin_of
from streamwarden.services.forks.scripts import is_script, require_script_fork, script_input
from streamwarden.services.forks.spec import ForkRequest, batches_left, forked_spec, in_batches, request_of
from streamwarden.sinks.base import Sink
from streamwarden.sources.base import Source
from streamwarden.stream.spec import STORED, StreamSpec

ATTEMPTS: Final = 5
"""Spark purges old logs and state versions while they are linked; a new attempt starts from the remaining ones."""


def fork(
    spec: StreamSpec,
    *,
    into: Path,
    at: str | None = None,
    rewind: int | Literal["all"] | None = 0,
    feed: Feed = Feed.ORIGIN,
    batches: int | None = None,
    saved: SavedOrigin | None = None,
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
        saved: fork this savepoint of the stream, at its batch; None: fork the stream's own checkpoint.

    The fork of a script gets nothing: its driver creates its files, and it reads the input where it is.

    Raises CheckpointError if the stream cannot be forked (remote paths other than s3a:// and hdfs://, a job with its
    own source or sink, a database that does not allow it), the batch is not kept any more (with the rewinds that are
    possible), or `into` is not empty.
    """
    into = into.absolute()
    if is_script(spec):
        return _fork_script(spec, into, at, rewind, feed)
    request = request_of(spec, str(into), at, rewind, feed, batches)
    origin = origin_of(spec) if saved is None else saved_origin_of(spec, saved)
    require_own(into, below=into.parent)
    for place in (str(into), *request.places.stored):
        require_empty(place, request.forked.storage.connection)
    drop_scratch(request.forked)  # of an attempt whose folder is gone: the name is a digest of it
    return _made(origin, request, into)


def _made(origin: Origin, request: ForkRequest, into: Path) -> Fork:
    """The fork, after at most `ATTEMPTS` attempts. One that fails leaves nothing."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _attempt(origin, request)
        except BaseException as error:
            clear(into, request.forked)
            vanished = isinstance(error, FileNotFoundError)
            if not isinstance(error, OSError):
                raise
            if not vanished or attempt == ATTEMPTS:
                raise (_vanished(origin.spec, error) if vanished else _failed(into, error)) from error
    raise AssertionError("unreachable: the last attempt returns or raises")


def _attempt(origin: Origin, request: ForkRequest) -> Fork:
    """Copy the fork's initial data, give it its input, and describe it. Raises FileNotFoundError if a file of the
    origin vanished meanwhile."""
    spec, source = origin.spec, origin.spec.source
    assert isinstance(source, Source)  # forked_spec refuses any other
    batch, query_id = None, None
    if request.rewind is None:
        empty_output(spec, request.forked)
    else:
        batch, query_id = copy_history(origin, request, request.rewind)
    carried = None if batch is None else request.places.checkpoint
    bounded = source.bounded(request.forked, batch, request.batches)
    selection = source.take_input(spec, bounded, carried, request.feed)
    forked = in_batches(spec, bounded, selection.unseen)
    return Fork(
        spec=forked,
        origin=spec.name,
        batch=batch,
        query_id=query_id,
        inputs=selection.total,
        unseen=selection.unseen,
        longest_queue=selection.longest_queue,
        batches_left=batches_left(forked, selection.longest_queue),
        input_digest=selection.digest,
        what=selection.what,
        copied=selection.copied,
        ranges=selection.ranges,
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


def clear(into: Path, forked: StreamSpec) -> None:
    """Remove the fork in `into`: its folders, table and topics. Raises the errors of `drop_scratch`, and OSError."""
    drop_scratch(forked)
    for place in stored_places(forked):
        remove_stored(place, forked.storage.connection)
    require_own(into, below=into.parent)
    for entry in into.iterdir() if into.is_dir() else ():
        remove_folder(entry, below=into)


def stored_places(forked: StreamSpec) -> tuple[str, ...]:
    """The folders of a fork in an object store or in HDFS."""
    places = (forked.checkpoint, forked.sink.path, forked.quarantine)
    return tuple(place for place in places if place is not None and STORED.match(place))


def drop_scratch(forked: StreamSpec) -> list[str]:
    """Remove the fork's resources outside its folders: its table or topic, and the topic that it reads if that is its
    own. Returns their names. Raises as `drop_output` does."""
    names = [drop_output(forked)]
    if isinstance(forked.source, Source):
        names.append(forked.source.drop_scratch())
    return [name for name in names if name is not None]


def drop_output(forked: StreamSpec) -> str | None:
    """Remove the fork's table or topic; returns its name, None if there is none.

    Raises CheckpointError if the database or the broker does not allow it.
    """
    return forked.sink.drop(forked) if isinstance(forked.sink, Sink) else None


def _failed(into: Path, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"the fork could not be made: {error}",
        expected="an origin that can be read, and room for its files",
        where=str(into),
        next_step="check the disk (df), or the object store and the connection to it; then try again",
    )


def _vanished(spec: StreamSpec, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"{error.filename} is not there, in each of {ATTEMPTS} attempts",
        expected="every file that the checkpoint and the sink's manifest name, and a folder of input",
        where=spec.file or spec.name,
        next_step="run `streamwarden inspect` on the checkpoint with its output; or fork from the beginning",
    )
