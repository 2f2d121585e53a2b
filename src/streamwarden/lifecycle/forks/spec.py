"""The spec of a fork: the stream with its own checkpoint, input and output. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from math import ceil
from typing import Final

from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.lifecycle.settings import real_time_format
from streamwarden.stream import (
    NAME_PATTERN,
    DeployMode,
    SinkKind,
    SinkSpec,
    SourceKind,
    SourceSpec,
    StorageSpec,
    StreamSpec,
    TriggerSpec,
)

SUFFIX: Final = "__fork"

BATCHES: Final = 20
"""Number of batches in which the fork of a stream in real-time mode reads its unread input."""

_LONGEST: Final = 63
_SEEN_BY_NAME: Final = {"fileNameOnly": "true"}
_TOUCHES_THE_ORIGINAL: Final = frozenset({"cleansource", "sourcearchivedir"})
"""Options (lower case) with which a source would move or delete files, also in the origin's archive."""


def forked_spec(spec: StreamSpec, places: Places, feed: Feed = Feed.ORIGIN) -> StreamSpec:
    """The spec of the fork. Raises CheckpointError for a stream whose input or output cannot be redirected."""
    if feed is not Feed.ORIGIN and spec.source.kind is not SourceKind.KAFKA:
        raise CheckpointError(
            f"the stream's source is of the kind {spec.source.kind.value}, not a topic that can be copied",
            expected="source.kind kafka",
            where=spec.file or spec.name,
            next_step="drill this stream with a fault that needs no topic, such as `kill_driver`",
        )
    for what, given, possible in (
        ("source", spec.source.kind, (SourceKind.FILES, SourceKind.KAFKA)),
        ("sink", spec.sink.kind, (SinkKind.PARQUET, SinkKind.POSTGRESQL, SinkKind.KAFKA)),
    ):
        if given not in possible:
            raise CheckpointError(
                f"the stream's {what} is of the kind {given.value}, which a fork cannot redirect",
                expected=f"{what}.kind {' or '.join(possible)}",
                where=spec.file or spec.name,
                next_step=f"drill a stream with such a {what}; a script becomes one when its job is a module with "
                "build()",
            )
    return replace(
        spec,
        name=fork_name(spec.name),
        checkpoint=places.checkpoint,
        source=_own_input(spec.source, places, feed),
        sink=_redirected(spec.sink, places),
        quarantine=places.quarantine if spec.quarantine is not None else None,
        storage=spec.storage if places.stored else StorageSpec(),
        trigger=TriggerSpec(processing_time=None, available_now=feed is Feed.ORIGIN),
        # A drill starts the driver itself, where it can see and kill it.
        spark=replace(spec.spark, deploy_mode=DeployMode.CLIENT, conf=real_time_format(spec) | spec.spark.conf),
    )


def renewed_spec(forked: StreamSpec, places: Places) -> StreamSpec:
    """The forked stream with its checkpoint and its output elsewhere."""
    return replace(
        forked,
        checkpoint=places.checkpoint,
        sink=_redirected(forked.sink, places),
        quarantine=places.quarantine if forked.quarantine is not None else None,
    )


def in_batches(origin: StreamSpec, forked: StreamSpec, unseen: int) -> StreamSpec:
    """The fork of a stream in real-time mode, which has no limit per batch, with a limit that cuts `unseen` records
    into BATCHES batches: a fault needs commits before and after it. Any other fork is returned as it is."""
    if origin.trigger.real_time is None:
        return forked
    most = max(1, ceil(unseen / BATCHES))
    return replace(forked, source=replace(forked.source, max_offsets_per_trigger=most))


def _own_input(source: SourceSpec, places: Places, feed: Feed) -> SourceSpec:
    """A topic is read where it is, or as a copy. Reading changes nothing: Spark commits no offsets there.

    The fork begins with the oldest record that the topic keeps, wherever the origin began.
    """
    if source.kind is SourceKind.KAFKA:
        options = {key: value for key, value in source.options.items() if not key.lower().startswith("starting")}
        topic = source.topic if feed is Feed.ORIGIN else places.source
        return replace(source, topic=topic, options=options)
    options = {key: value for key, value in source.options.items() if key.lower() not in _TOUCHES_THE_ORIGINAL}
    options = {key: value for key, value in options.items() if key.lower() != "filenameonly"}
    return replace(source, path=places.input, options=options | _SEEN_BY_NAME)


def _redirected(sink: SinkSpec, places: Places) -> SinkSpec:
    if sink.topic is not None:
        return replace(sink, topic=places.schema)
    if sink.table is None:
        return replace(sink, path=places.output)
    return replace(sink, table=f"{places.schema}.{sink.table.rpartition('.')[2]}")


def fork_name(name: str) -> str:
    """`NAME__fork`. A name that is too long for that is cut and gets six characters of its digest."""
    forked = f"{name}{SUFFIX}"
    if len(forked) > _LONGEST:
        digest = hashlib.sha256(name.encode()).hexdigest()[:6]
        forked = f"{name[: _LONGEST - len(SUFFIX) - 7]}_{digest}{SUFFIX}"
    if NAME_PATTERN.fullmatch(forked) is None:
        raise CheckpointError(
            f"{name!r} cannot be made the name of a fork", expected=NAME_PATTERN.pattern, next_step="rename the stream"
        )
    return forked


def batches_left(spec: StreamSpec, unseen: int) -> int | None:
    """Batches that `unseen` files or records make, without no-data batches; None if a limit in bytes decides it."""
    if spec.source.kind is SourceKind.KAFKA:
        most = spec.source.max_offsets_per_trigger
        return ceil(unseen / most) if most else min(unseen, 1)
    options = {key.lower(): value for key, value in spec.source.options.items()}
    if "maxbytespertrigger" in options:
        return None
    limit = spec.source.max_files_per_trigger
    if limit is None and options.get("maxfilespertrigger", "").isdigit():
        limit = int(options["maxfilespertrigger"])
    return ceil(unseen / limit) if limit else min(unseen, 1)
