"""The spec of a fork: the stream with its own checkpoint, input and output."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final, Literal

from streamwarden import sinks, sources
from streamwarden.adapters.jvm.connectors import needed
from streamwarden.clusters import manager_of
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.places import SUFFIX, Places, places_of
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.lifecycle.settings import real_time_format
from streamwarden.services.forks.scripts import is_script, require_script_fork, without_places
from streamwarden.sinks.base import Sink
from streamwarden.sources.base import CopyableSource, GeneratedSource, Source, StoredSource
from streamwarden.stream.spark import DeployMode, SparkSpec
from streamwarden.stream.spec import (
    NAME_PATTERN,
    ForeachBatch,
    ScriptFork,
    Standby,
    StorageSpec,
    StreamSpec,
    TriggerSpec,
)

BATCHES: Final = 20
"""Number of batches in which the fork of a stream in real-time mode reads its unread input, and after which the fork
of a source without an end ends, if nothing else is asked for."""

_LONGEST: Final = 63

SOURCES: Final = tuple(name for name, kind in sources.KINDS.items() if issubclass(kind, Source))
COPYABLE: Final = tuple(name for name, kind in sources.KINDS.items() if issubclass(kind, CopyableSource))
SINKS: Final = tuple(name for name, kind in sinks.KINDS.items() if issubclass(kind, Sink))
"""The kinds of source, of source with a copy, and of sink that a fork can redirect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """The fork that is to be made.

    Args:
        forked: the stream as the fork begins with it.
        rewind: 0: at the newest committed batch; k: k batches before it; None: from the beginning.
        batches: after how many batches the fork ends if its source has no end.
    """

    places: Places
    forked: StreamSpec
    rewind: int | None
    feed: Feed
    batches: int


def request_of(
    spec: StreamSpec, into: str, at: str | None, rewind: int | Literal["all"] | None, feed: Feed, batches: int | None
) -> ForkRequest:
    """The arguments of `forks.fork` as a request. Raises CheckpointError for a stream that cannot be forked so."""
    places = places_of(spec, into, at)
    from_nothing = feed is not Feed.ORIGIN or rewind in ("all", None)
    return ForkRequest(
        places=places,
        forked=forked_spec(spec, places, feed),
        rewind=None if from_nothing else int(rewind or 0),
        feed=feed,
        batches=batches or BATCHES,
    )


def forked_spec(spec: StreamSpec, places: Places, feed: Feed = Feed.ORIGIN) -> StreamSpec:
    """The spec of the fork. Raises CheckpointError for a stream whose input or output cannot be redirected."""
    if is_script(spec):
        return _forked_script(spec, places, feed)
    source, sink = spec.source, spec.sink
    if feed is not Feed.ORIGIN and not isinstance(source, CopyableSource):
        raise CheckpointError(
            f"the stream's source is of the kind {source.kind}, not a topic that can be copied",
            expected=f"source.kind {' or '.join(COPYABLE)}",
            where=spec.file or spec.name,
            next_step="drill this stream with a fault that needs no topic, such as `kill_driver`",
        )
    if not isinstance(source, Source):
        raise _cannot_redirect(spec, "source", source.kind, SOURCES)
    if not isinstance(sink, Sink):
        raise _cannot_redirect(spec, "sink", sink.kind, SINKS)
    return replace(
        spec,
        name=fork_name(spec.name),
        checkpoint=places.checkpoint,
        source=source.forked(places, feed),
        sink=sink.forked(places),
        quarantine=places.quarantine if spec.quarantine is not None else None,
        storage=spec.storage if places.stored else StorageSpec(),
        trigger=_trigger(spec, feed),
        spark=_forked_spark(spec),
        standby=Standby.NONE,
        group=None,  # a drill must not hit the neighbours
    )


def _forked_spark(spec: StreamSpec) -> SparkSpec:
    """A drill starts the driver itself: in its cluster if it can find and kill it there, else on its own host."""
    mode = spec.spark.deploy_mode if manager_of(spec.spark.master).drills_in_cluster else DeployMode.CLIENT
    return replace(spec.spark, deploy_mode=mode, conf=real_time_format(spec) | spec.spark.conf)


def _trigger(spec: StreamSpec, feed: Feed) -> TriggerSpec:
    """A fork reads its input as fast as it can. Rows that are made by the clock cannot be read faster: their fork keeps
    the stream's interval, so that its batches are as large as the stream's."""
    if isinstance(spec.source, GeneratedSource):
        return TriggerSpec(processing_time=spec.trigger.processing_time)
    return TriggerSpec(processing_time=None, available_now=feed is Feed.ORIGIN)


def _forked_script(spec: StreamSpec, places: Places, feed: Feed) -> StreamSpec:
    """The fork of a script, whose driver redirects each query below these places."""
    if feed is not Feed.ORIGIN:
        raise CheckpointError(
            "a script reads the stream's own input, which no drill changes",
            expected="a job with build(spark, spec), whose topic a fork can copy",
            where=spec.file or spec.name,
            next_step="drill this stream with a fault that needs no topic, such as `kill_driver`",
        )
    require_script_fork(spec)
    return replace(
        without_places(spec),
        name=fork_name(spec.name),
        checkpoint=places.checkpoint,
        queries={},
        trigger=TriggerSpec(processing_time=None, available_now=True),
        spark=_forked_spark(spec),
        standby=Standby.NONE,
        group=None,  # a drill must not hit the neighbours
        fork=ScriptFork(
            output=places.output,
            queries=dict(spec.fork.queries if spec.fork else spec.queries),
            foreach_batch=spec.fork.foreach_batch if spec.fork else ForeachBatch.CAPTURE,
            connectors=needed(spec),
            data=spec.fork.data if spec.fork else "",
        ),
    )


def renewed_spec(forked: StreamSpec, places: Places) -> StreamSpec:
    """The forked stream with its checkpoint and its output elsewhere."""
    sink = forked.sink
    return replace(
        forked,
        checkpoint=places.checkpoint,
        sink=sink.forked(places) if isinstance(sink, Sink) else sink,
        quarantine=places.quarantine if forked.quarantine is not None else None,
    )


def in_batches(origin: StreamSpec, forked: StreamSpec, unseen: int) -> StreamSpec:
    """The fork of a stream in real-time mode, which has no limit per batch, with a limit that cuts `unseen` records
    into BATCHES batches: a fault needs commits before and after it. Any other fork is returned as it is."""
    source = forked.source
    if origin.trigger.real_time is None or not isinstance(source, StoredSource):
        return forked
    return replace(forked, source=source.limited_to(max(1, ceil(unseen / BATCHES))))


def _cannot_redirect(spec: StreamSpec, what: str, given: str, possible: Sequence[str]) -> CheckpointError:
    return CheckpointError(
        f"the stream's {what} is of the kind {given}, which a fork cannot redirect",
        expected=f"{what}.kind {' or '.join(possible)}",
        where=spec.file or spec.name,
        next_step=f"drill a stream with such a {what}, or declare one",
    )


def fork_name(name: str) -> str:
    """`NAME__fork`. A name that is too long for that is cut and gets six characters of its digest.

    The fork of a fork, which a twin is, has the same name: its job must not see which of the two it runs in.
    """
    if SUFFIX in name:
        return name
    forked = f"{name}{SUFFIX}"
    if len(forked) > _LONGEST:
        digest = hashlib.sha256(name.encode()).hexdigest()[:6]
        forked = f"{name[: _LONGEST - len(SUFFIX) - 7]}_{digest}{SUFFIX}"
    if NAME_PATTERN.fullmatch(forked) is None:
        raise CheckpointError(
            f"{name!r} cannot be made the name of a fork", expected=NAME_PATTERN.pattern, next_step="rename the stream"
        )
    return forked


def run_name(origin: str, run: str) -> str:
    """A fork's name that only one run has, so that neither its drivers nor its health are mixed with those of another.
    `run`: what distinguishes the run."""
    return f"{origin[:40]}{SUFFIX}_{hashlib.sha256(run.encode()).hexdigest()[:10]}"


def batches_left(spec: StreamSpec, unseen: int) -> int | None:
    """Batches that `unseen` files or records make, without no-data batches; None if a limit in bytes decides it."""
    return spec.source.batches(unseen) if isinstance(spec.source, Source) else None
