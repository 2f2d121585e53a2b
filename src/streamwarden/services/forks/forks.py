"""Makes forks: surveys the origin, plans with `lifecycle.fork_plan`, carries the plan out.

A fork is on local disk, unless a folder of its origin's object store is named for it. What the origin has on a disk is
linked; what it has in an object store is copied.
"""

from __future__ import annotations

import errno
import shutil
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Literal

from streamwarden.adapters.storage.files import LocalFiles, open_path
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.layout import (
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
from streamwarden.checkpoint.logs import all_offsets
from streamwarden.checkpoint.sink import read_sink_manifest
from streamwarden.checkpoint.state import is_scratch, state_stores
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks import plan as plans
from streamwarden.lifecycle.forks.fork import Fork
from streamwarden.lifecycle.forks.places import Places, places_of
from streamwarden.lifecycle.forks.plan import Survey, Write
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.forks.files import carry_out, remove_stored, require_empty
from streamwarden.services.forks.spec import batches_left, forked_spec, in_batches
from streamwarden.sinks.kafka import topic as topics
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.postgresql import forks as tables
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.sources.base import StoredSource
from streamwarden.stream import OBJECT_STORE, StreamSpec

ATTEMPTS: Final = 5
"""Spark purges old logs and state versions while they are linked; a new attempt starts from what is there then."""

COMMIT_WITHIN: Final = 10.0
"""Seconds that a batch may take from the commit of its rows to `commits/N`; it takes a tenth of one."""


def fork(
    spec: StreamSpec,
    *,
    into: Path,
    at: str | None = None,
    rewind: int | Literal["all"] | None = 0,
    feed: Feed = Feed.ORIGIN,
) -> Fork:
    """Fork `spec`, which may be running; nothing of the origin is changed.

    Args:
        into: folder of the fork, absent or empty: gets checkpoint/, output/, input/ (and quarantine/ when it runs).
        at: URL of a folder in the origin's object store, absent or empty: gets what of checkpoint/, output/ and
            quarantine/ the origin has in the store. None: `into` gets all.
        rewind: 0: at the newest committed batch; k: k batches before it; "all" or None: from the beginning, with an
            empty checkpoint and an empty output, so that the whole bounded input is processed again.
        feed: a topic of its own has other offsets than the origin's: such a fork begins with an empty checkpoint.

    Raises CheckpointError if the stream cannot be forked (remote paths other than s3a://, a job with its own source or
    sink, a database that does not let it), the batch is not kept any more (with the rewinds that are possible), or
    `into` is not empty.
    """
    into = into.absolute()
    places = places_of(spec, str(into), at)
    forked = forked_spec(spec, places, feed)
    rewind = rewind if feed is Feed.ORIGIN else "all"
    store = forked.storage.connection
    checkpoint = _origin(spec.checkpoint, spec)
    output = _origin(spec.sink.path, spec) if spec.sink.MANIFEST else None
    source = None if spec.source.path is None else _origin(spec.source.path, spec)
    assert isinstance(spec.source, StoredSource)  # forked_spec refuses any other
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
                if isinstance(spec.sink, PostgresqlSink):
                    batch = _carry_table(spec, forked, checkpoint, source, places, int(rewind), query_id)
                else:
                    batch = _carry(checkpoint, output, source, places, store, int(rewind))
                if isinstance(spec.sink, KafkaSink):
                    topics.make(spec, forked)
            if query_id is not None:
                carry_out([plans.metadata_step(places, query_id)], checkpoint.fs, store)
            carried = places.checkpoint if batch is not None else None
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
                next_step="look at the disk (df), or at the object store and the connection to it; then try again",
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


def empty_output(spec: StreamSpec, forked: StreamSpec) -> None:
    """The fork's table or topic, empty; a folder is made by whoever writes into it.

    Raises CheckpointError if the database or the broker does not let it.
    """
    if isinstance(spec.sink, PostgresqlSink):
        tables.make_empty(spec, forked)
    elif isinstance(spec.sink, KafkaSink):
        topics.make(spec, forked)


def survey(checkpoint: Location, output: Location | None) -> Survey:
    """List the origin in the order that makes a copy of a running query whole. `output` None: its sink is no folder."""
    return Survey(
        checkpoint=checkpoint.path,
        commits=frozenset(batch_ids(list_or_empty(checkpoint / COMMITS))),
        offsets=all_offsets(checkpoint),
        sources={
            int(name): tuple(compactible_ids(list_or_empty(checkpoint / SOURCES / name)))
            for name in list_or_empty(checkpoint / SOURCES)
            if name.isdigit()
        },
        stores=state_stores(checkpoint),
        state_files=tuple(_operator_files(checkpoint)),
        manifest_ids=(tuple(compactible_ids(list_or_empty(output / SINK_LOG))) or None) if output is not None else None,
        no_manifest=output is None,
    )


def _carry(
    checkpoint: Location,
    output: Location | None,
    source: Location | None,
    places: Places,
    store: str | None,
    rewind: int,
) -> int:
    """Steps 1 to 4 of a fork at a committed batch; returns the batch. `output` None: a topic, of which none is kept."""
    found = survey(checkpoint, output)
    batch = plans.choose_batch(found, rewind)
    _carry_checkpoint(found, checkpoint, source, places, store, batch)
    if output is None:
        return batch
    manifest = read_sink_manifest(output, batch)
    if manifest is None:
        raise FileNotFoundError(errno.ENOENT, "the manifest vanished", (output / SINK_LOG).path)
    carry_out(plans.manifest_steps(manifest, output.path, places), output.fs, store)
    return batch


def _carry_table(
    spec: StreamSpec,
    forked: StreamSpec,
    checkpoint: Location,
    source: Location | None,
    places: Places,
    rewind: int,
    query_id: str,
) -> int:
    """The same for a sink that is a table: the table first, then the checkpoint as of its batch."""
    newest = tables.copy(spec, forked, rewind=rewind, query_id=query_id)
    _await_commit(checkpoint, newest)
    found = survey(checkpoint, None)
    batch = newest - rewind
    plans.require_batch(found, batch)
    _carry_checkpoint(found, checkpoint, source, places, forked.storage.connection, batch)
    return batch


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
    for names, step, expected in (
        (
            plans.source_logs(found, batch),
            partial(plans.source_log_step, source=source.path if source is not None else ""),
            "a whole log of the file source",
        ),
        (
            plans.operator_logs(found, batch),
            partial(plans.operator_step, checkpoint=checkpoint.path),
            "whole metadata of the operator",
        ),
    ):
        carry_out((_rewritten(checkpoint, name, places, step, expected) for name in names), checkpoint.fs, store)


def _rewritten(checkpoint: Location, name: str, places: Places, step: Callable[..., Write], expected: str) -> Write:
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
    for each in into.iterdir() if into.is_dir() else ():
        shutil.rmtree(each)


def stored_places(forked: StreamSpec) -> tuple[str, ...]:
    """Those folders of a fork that are in an object store."""
    places = (forked.checkpoint, forked.sink.path, forked.quarantine)
    return tuple(place for place in places if place is not None and OBJECT_STORE.match(place))


def drop_scratch(forked: StreamSpec) -> list[str]:
    """Remove what the fork has outside of its folders: its table or topic, and the topic that it reads if that is its
    own. Returns their names. Raises what `drop_output` raises."""
    found = [drop_output(forked)]
    if isinstance(forked.source, StoredSource):
        found.append(forked.source.drop_scratch())
    return [each for each in found if each is not None]


def drop_output(forked: StreamSpec) -> str | None:
    """Remove the fork's table or topic; returns its name, None if there is none.

    Raises CheckpointError if the database or the broker does not let it.
    """
    if isinstance(forked.sink, PostgresqlSink):
        schema = tables.drop(forked)
        return None if schema is None else f"the schema {schema}"
    if isinstance(forked.sink, KafkaSink):
        topic = topics.drop(forked)
        return None if topic is None else f"the topic {topic}"
    return None


def _vanished(spec: StreamSpec, error: FileNotFoundError) -> CheckpointError:
    return CheckpointError(
        f"{error.filename} is not there, in each of {ATTEMPTS} attempts",
        expected="every file that the checkpoint and the sink's manifest name, and a folder of input",
        where=spec.file or spec.name,
        next_step="run `streamwarden inspect` on the checkpoint with its output; or fork from the beginning",
    )
