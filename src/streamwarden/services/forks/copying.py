"""Carries the checkpoint and the output of a stream into a fork, as of one committed batch, and holds a checkpoint for
a reader.

The order of the steps makes the copy of a running query whole; see `lifecycle.forks.plan`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import (
    COMMITS,
    SINK_LOG,
    SOURCES,
    STATE,
    Damaged,
    batch_ids,
    compactible_ids,
    list_or_empty,
    read_log_file,
)
from streamwarden.checkpoint.formats.logs import all_offsets, offsets
from streamwarden.checkpoint.formats.state import is_scratch, state_stores
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks import plan as plans
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.plan import Link, Survey, Write
from streamwarden.services.forks.files import carry_out
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec

COMMIT_WITHIN: Final = 10.0
"""Seconds that a batch may take from the commit of its rows to `commits/N`; it takes a tenth of one."""


def survey_logs(checkpoint: Location) -> Survey:
    """List the logs alone, in the order that makes a copy of a running query whole."""
    return Survey(
        checkpoint=checkpoint.path,
        commits=frozenset(batch_ids(list_or_empty(checkpoint / COMMITS))),
        offsets=all_offsets(checkpoint),
        sources={
            int(name): tuple(compactible_ids(list_or_empty(checkpoint / SOURCES / name)))
            for name in list_or_empty(checkpoint / SOURCES)
            if name.isdigit()
        },
        stores=(),
    )


def _survey(checkpoint: Location, output: Location | None) -> Survey:
    """List the origin in the order that makes a copy of a running query whole. `output` None: no folder is written."""
    return replace(
        survey_logs(checkpoint),
        stores=state_stores(checkpoint),
        state_files=tuple(_operator_files(checkpoint)),
        manifest_ids=(tuple(compactible_ids(list_or_empty(output / SINK_LOG))) or None) if output is not None else None,
        no_manifest=output is None,
    )


def carry(
    spec: StreamSpec,
    forked: StreamSpec,
    checkpoint: Location,
    output: Location | None,
    source: Location | None,
    places: Places,
    rewind: int,
    query_id: str,
) -> int:
    """Steps 1 to 4 of a fork at a committed batch; returns the batch. A sink that knows the newest batch is copied
    first, and then the checkpoint as of its batch."""
    assert isinstance(spec.sink, Sink)  # no other can be forked
    store = forked.storage.connection
    newest = spec.sink.copy(spec, forked, rewind=rewind, query_id=query_id)
    if newest is not None:
        _await_commit(checkpoint, newest)
    found = _survey(checkpoint, output)
    if newest is None:
        batch = plans.choose_batch(found, rewind)
    else:
        batch = newest - rewind
        plans.require_batch(found, batch)
    _carry_checkpoint(found, checkpoint, source, places, store, batch)
    if output is not None:
        carry_out(spec.sink.history(spec, places, batch), output.fs, store)
    return batch


def hold(checkpoint: Location, into: Path) -> Location:
    """A checkpoint of hard links in `into`, for a reader: the logs and the state up to the newest committed batch, as
    Spark cannot purge them any more. What it purges meanwhile is left out.

    The query's id is left out, too: reading state starts no query that Spark could take for the stream's.

    Args:
        checkpoint: on this host; the query may be running. At least one batch is committed.

    Raises CheckpointError, OSError.
    """
    found, places = _survey(checkpoint, None), Places.under(str(into))
    batch = max(found.commits)
    if batch not in found.offsets:
        offsets(checkpoint, batch)  # raises, and says why it cannot be read
    logs = (
        Link(join(checkpoint.path, name), join(places.checkpoint, name)) for name in plans.source_logs(found, batch)
    )
    links = chain(plans.checkpoint_links(found, places, batch), logs)
    carry_out(links, checkpoint.fs, None, skip_purged=True)
    for name in plans.operator_logs(found, batch):
        with suppress(FileNotFoundError):
            carry_out([_operator_log(checkpoint, name, places)], checkpoint.fs, None)
    return open_path(places.checkpoint)


def _await_commit(checkpoint: Location, batch: int) -> None:
    """Wait for the commit of a batch that is in the table: in a running query it follows at once."""
    deadline = time.monotonic() + COMMIT_WITHIN
    while batch not in batch_ids(list_or_empty(checkpoint / COMMITS)):
        if time.monotonic() > deadline:
            raise CheckpointError(
                f"batch {batch} is in the table, and commits/{batch} did not come in {COMMIT_WITHIN:g} s",
                expected="a driver that runs, or one that ended between two batches",
                where=checkpoint.path,
                next_step="start the stream: it commits that batch without writing it again; or fork from the "
                "beginning (`rewind: all`)",
            )
        time.sleep(0.01)


def _carry_checkpoint(
    found: Survey, checkpoint: Location, source: Location | None, places: Places, store: str | None, batch: int
) -> None:
    """Steps 1 to 3 of a fork at a committed batch."""
    carry_out(plans.checkpoint_links(found, places, batch), checkpoint.fs, store)
    step = partial(plans.source_log_step, source=source.path if source is not None else "")
    logs = (
        rewritten(checkpoint, name, places, step, "a whole log of the file source")
        for name in plans.source_logs(found, batch)
    )
    operators = (_operator_log(checkpoint, name, places) for name in plans.operator_logs(found, batch))
    carry_out(chain(logs, operators), checkpoint.fs, store)


def _operator_log(checkpoint: Location, name: str, places: Places) -> Write:
    step = partial(plans.operator_step, checkpoint=checkpoint.path)
    return rewritten(checkpoint, name, places, step, "whole metadata of the operator")


def rewritten(checkpoint: Location, name: str, places: Places, step: Callable[..., Write], expected: str) -> Write:
    """A file of the checkpoint as `step` rewrites it for the fork."""
    try:
        return step(name, read_log_file(checkpoint / name), places=places)
    except Damaged as error:
        raise CheckpointError(
            str(error),
            expected=expected,
            where=(checkpoint / name).path,
            next_step="run `streamwarden inspect` on the checkpoint; or fork from the beginning (`rewind: all`)",
        ) from error


def _operator_files(checkpoint: Location) -> list[str]:
    """Files of `state/OPERATOR/_metadata/`, below the checkpoint."""
    found = []
    for operator in list_or_empty(checkpoint / STATE):
        for name in list_or_empty(checkpoint / STATE / operator):
            if name.startswith("_"):
                files = (checkpoint / STATE / operator / name).walk(skip=is_scratch)
                found += [join(STATE, operator, name, path) for path, _ in files]
    return sorted(found)
