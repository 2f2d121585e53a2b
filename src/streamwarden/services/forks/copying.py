"""Copies the checkpoint and the output of a stream into a fork, as of one committed batch, and holds a checkpoint for a
reader.

The order of the steps makes the copy of a running query whole; see `lifecycle.forks.plan`.
"""

import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import Damaged, read_whole_log
from streamwarden.checkpoint.formats.logs import offsets
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks import plan as plans
from streamwarden.lifecycle.forks.needed import to_read
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.plan import CopyStep, Link, Survey, Write
from streamwarden.services.forks.files import carry_out
from streamwarden.services.forks.gathering import Origin, await_commit, named_tables, survey
from streamwarden.services.forks.spec import ForkRequest
from streamwarden.sinks.base import Sink


def copy_history(origin: Origin, request: ForkRequest, rewind: int) -> tuple[int, str]:
    """Give the fork the batches of its origin up to the one that is `rewind` batches before the newest; returns that
    batch and the fork's query id. A sink that knows the newest batch is copied first, and then the checkpoint as of its
    batch."""
    sink, places, store = origin.spec.sink, request.places, request.forked.storage.connection
    assert isinstance(sink, Sink)  # no other can be forked
    query_id = str(uuid.uuid4())
    newest = sink.copy(origin.spec, request.forked, rewind=rewind, upto=origin.batch, query_id=query_id)
    if newest is not None:
        await_commit(origin.checkpoint, newest)
    history = survey(origin.checkpoint, origin.manifest)
    batch = plans.choose_batch(history, rewind, newest)
    carry_out(_checkpoint_steps(history, origin, places, batch), origin.checkpoint.fs, store)
    if origin.output is not None:
        carry_out(sink.history(origin.spec, places, batch, origin.manifest), origin.output.fs, store)
    carry_out([plans.metadata_step(places, query_id)], origin.checkpoint.fs, store)
    return batch, query_id


def _checkpoint_steps(history: Survey, origin: Origin, places: Places, batch: int) -> Iterator[CopyStep]:
    """Steps 1 to 3 of a fork at a committed batch. A file that is rewritten is read when its turn comes."""
    checkpoint = origin.checkpoint
    yield from plans.checkpoint_links(history, places, batch)
    step = partial(plans.source_log_step, source=origin.source.path if origin.source is not None else "")
    for name in plans.source_logs(history, batch):
        yield rewritten(checkpoint, name, places, step, "a whole log of the file source")
    for name in plans.operator_logs(history, batch):
        yield _operator_log(checkpoint, name, places, origin.written_as)


def hold(checkpoint: Location, into: Path, batches: Collection[int] | None = None) -> Location:
    """A checkpoint of hard links in `into`, for a reader: the logs and the state up to the newest committed batch, as
    Spark cannot purge them any more. What it purges meanwhile is left out.

    The query's id is left out, too: reading state starts no query that Spark could take for the stream's.

    Args:
        checkpoint: the query may be running. At least one batch is committed. What cannot be linked is copied.
        batches: only what a reader of the state after these batches needs; None: everything.

    Raises CheckpointError, Damaged, OSError.
    """
    history, places = survey(checkpoint, None), Places.under(str(into))
    if batches is not None:
        history = to_read(history, batches, named_tables(history, checkpoint, batches))
    batch = max(history.commits)
    if batch not in history.offsets:
        offsets(checkpoint, batch)  # raises, and says why it cannot be read
    logs = (
        Link(join(checkpoint.path, name), join(places.checkpoint, name)) for name in plans.source_logs(history, batch)
    )
    links = chain(plans.checkpoint_links(history, places, batch), logs)
    carry_out(links, checkpoint.fs, None, skip_purged=True)
    for name in plans.operator_logs(history, batch):
        with suppress(FileNotFoundError):
            carry_out([_operator_log(checkpoint, name, places, checkpoint.path)], checkpoint.fs, None)
    return open_path(places.checkpoint)


def _operator_log(checkpoint: Location, name: str, places: Places, written_as: str) -> Write:
    step = partial(plans.operator_step, checkpoint=written_as)
    return rewritten(checkpoint, name, places, step, "whole metadata of the operator")


def rewritten(checkpoint: Location, name: str, places: Places, step: Callable[..., Write], expected: str) -> Write:
    """A file of the checkpoint as `step` rewrites it for the fork."""
    try:
        return step(name, read_whole_log(checkpoint / name), places=places)
    except Damaged as error:
        raise CheckpointError(
            str(error),
            expected=expected,
            where=(checkpoint / name).path,
            next_step="run `streamwarden inspect` on the checkpoint; or fork from the beginning (`rewind: all`)",
        ) from error
