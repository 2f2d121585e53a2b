"""A fork: a committed batch of a stream opened under a new checkpoint, with input and output of its own. Pure.

Here: its name, its spec and its bounded input. Where it lies: `lifecycle.fork_places`. What is copied from the origin:
`lifecycle.fork_plan`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.fork_places import Places
from streamwarden.lifecycle.settings import real_time_format
from streamwarden.stream import (
    NAME_PATTERN,
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
"""Batches in which the fork of a stream in real-time mode reads what it has not read."""

_LONGEST: Final = 63
_SEEN_BY_NAME: Final = {"fileNameOnly": "true"}
_TOUCHES_THE_ORIGINAL: Final = frozenset({"cleansource", "sourcearchivedir"})
"""Options (lower case) under which a source would move or delete files, in the origin's archive too."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A whole input file: path below the source's folder, and bytes."""

    name: str
    size: int

    @property
    def seen_as(self) -> str:
        """What Spark knows it by under `fileNameOnly`."""
        return self.name.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedInput:
    """What a fork reads until it ends. See `Fork` for the fields."""

    what: str
    total: int
    unseen: int
    longest_queue: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A finished fork.

    Args:
        spec: the forked stream: reads the linked input, ends when it has read it (`availableNow`).
        origin: name of the stream that it was made from.
        batch: committed batch of the origin that it starts after; None: it starts from nothing.
        query_id: its own; None for a fork from nothing (Spark makes one when it starts).
        inputs: files, or records of a topic, in its bounded input; unseen: those that it has yet to read.
        what: what is counted, as one of them is called.
        longest_queue: how many of these the source has that has the most: each source has its own limit.
        batches_left: batches that these make; None if the source's limits do not say.
        input_digest: SHA-256 over the sorted list of names and sizes of the whole input, or of a topic's ranges.
    """

    spec: StreamSpec
    origin: str
    batch: int | None
    query_id: str | None
    inputs: int
    unseen: int
    longest_queue: int
    batches_left: int | None
    input_digest: str
    what: str = "file"


def forked_spec(spec: StreamSpec, places: Places) -> StreamSpec:
    """The spec of the fork. Raises CheckpointError for a stream whose input or output cannot be redirected."""
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
        source=_own_input(spec.source, places),
        sink=_redirected(spec.sink, places),
        quarantine=places.quarantine if spec.quarantine is not None else None,
        storage=spec.storage if places.stored else StorageSpec(),
        trigger=TriggerSpec(processing_time=None, available_now=True),
        spark=replace(spec.spark, conf=real_time_format(spec) | spec.spark.conf),
    )


def in_batches(origin: StreamSpec, forked: StreamSpec, unseen: int) -> StreamSpec:
    """The fork of a stream in real-time mode, which has no limit of its own, with one by which `unseen` records make
    BATCHES batches: a fault needs commits before and after it. Any other fork as it is."""
    if origin.trigger.real_time is None:
        return forked
    most = max(1, ceil(unseen / BATCHES))
    return replace(forked, source=replace(forked.source, max_offsets_per_trigger=most))


def _own_input(source: SourceSpec, places: Places) -> SourceSpec:
    """A topic is read where it is: to read it changes nothing, and Spark commits no offsets there.

    The beginning is that of what the topic keeps, wherever the origin began.
    """
    if source.kind is SourceKind.KAFKA:
        options = {key: value for key, value in source.options.items() if not key.lower().startswith("starting")}
        return replace(source, options=options)
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
    """`NAME__fork`; a name too long for that is cut and gets six characters of its digest."""
    forked = f"{name}{SUFFIX}"
    if len(forked) > _LONGEST:
        digest = hashlib.sha256(name.encode()).hexdigest()[:6]
        forked = f"{name[: _LONGEST - len(SUFFIX) - 7]}_{digest}{SUFFIX}"
    if NAME_PATTERN.fullmatch(forked) is None:
        raise CheckpointError(
            f"{name!r} makes no name of a fork", expected=NAME_PATTERN.pattern, next_step="rename the stream"
        )
    return forked


def require_distinct_names(files: Iterable[InputFile], source: str) -> None:
    """Raises CheckpointError if two files share a name: a fork tells seen from unseen by names alone."""
    by_name: dict[str, InputFile] = {}
    for file in files:
        other = by_name.setdefault(file.seen_as, file)
        if other is not file:
            raise CheckpointError(
                f"two input files are called {file.seen_as}: {other.name} and {file.name}",
                expected="distinct file names, by which a fork tells seen files from unseen ones",
                where=source,
                next_step="name input files uniquely",
            )


def input_digest(files: Iterable[InputFile]) -> str:
    """SHA-256 over the sorted list of names and sizes."""
    text = "".join(f"{file.name}\t{file.size}\n" for file in sorted(files, key=lambda file: file.name))
    return hashlib.sha256(text.encode()).hexdigest()


def batches_left(spec: StreamSpec, unseen: int) -> int | None:
    """Batches that `unseen` files or records make, no-data batches apart; None if a limit in bytes decides it."""
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
