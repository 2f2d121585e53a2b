"""The queries of a stream: usually one, which has the stream's name; if a script starts several, each has its own name.

A query among several is called `STREAM/QUERY`. Under that name its batches, measurements, verdicts and incidents are
kept, so that checks and commands treat a query like a stream. What concerns the driver as a whole (its memory,
its restarts) is kept under the stream's name.
"""

import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from streamwarden.stream.spec import NAME_PATTERN, SinkSpec, SourceSpec, StreamSpec, TriggerSpec

SEPARATOR: Final = "/"
"""Between stream and query. No stream, folder, DAG or task id can have it in its name."""

STARTS_WITHIN: Final = 300.0
"""Seconds after a driver's launch in which a query that its predecessor ran may still be missing."""

_GENERIC: Final = frozenset({"checkpoint", "checkpoints", "checkpointlocation", "cp", "ckpt", "chk"})
"""Names of folders that do not identify a query; the folder above them does."""

_LONGEST: Final = 63
"""Characters of a name, as `NAME_PATTERN` has it."""


class Part(StrEnum):
    """The part of a stream that is judged."""

    WHOLE = "whole"  # a stream with one query: the stream is its query
    DRIVER = "driver"  # what the several queries of a stream share
    QUERY = "query"  # one query among several


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRecord:
    """A query of a stream and its newest run. Times are Unix seconds.

    Args:
        name: within its stream; empty for the only query.
        checkpoint: where Spark keeps it; a plain path if it is local.
        trigger: as the query itself has it, whatever the stream's file says.
        driver_id: the driver of the newest run.
        first_at: when the query was first seen; started_at: when the newest run started.
        ended_at: when that run ended, as its driver reported it; a killed driver reports nothing.
        error: why it ended; None if it was stopped or came to its end.
    """

    stream: str
    name: str
    checkpoint: str
    trigger: TriggerSpec
    driver_id: str
    query_id: str
    run_id: str
    first_at: float
    started_at: float
    ended_at: float | None = None
    error: str | None = None

    @property
    def identity(self) -> str:
        """The name under which the store keeps the query's batches and verdicts."""
        return identity(self.stream, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPart:
    """A unit that is judged and listed: a stream, or a query among several.

    Args:
        spec: the stream's; of a query with its own name, checkpoint and trigger.
        query: its record; None if it has not been seen, and for `Part.DRIVER`.
    """

    spec: StreamSpec
    part: Part = Part.WHOLE
    query: QueryRecord | None = None


def identity(stream: str, name: str) -> str:
    """`stream/name`; the stream itself for its only query."""
    return f"{stream}{SEPARATOR}{name}" if name else stream


def owner(name: str) -> str:
    """The stream that `name`, a stream or one of its queries, belongs to."""
    return name.partition(SEPARATOR)[0]


def is_name(text: str) -> bool:
    """Whether `text` can be the name of a stream or of a query among several."""
    parts = text.split(SEPARATOR)
    return len(parts) <= 2 and all(NAME_PATTERN.fullmatch(part) for part in parts)


def name_of(given: str | None, checkpoint: str, taken: Mapping[str, str]) -> str:
    """A query's name, from the name that the script gave it or the last folder of its checkpoint. `taken`: name ->
    checkpoint of the queries that are known: a name is given to one checkpoint only."""
    name = _slug(given or "") or _slug(_telling_folder(checkpoint)) or "query"
    if taken.get(name, checkpoint) == checkpoint:
        return name
    digest = hashlib.sha256(checkpoint.encode(errors="surrogatepass")).hexdigest()[:6]
    return f"{name[: _LONGEST - 7]}_{digest}"


def _telling_folder(checkpoint: str) -> str:
    folders = [part for part in checkpoint.split("/") if part]
    telling = [part for part in folders if part.lower().strip("_-.") not in _GENERIC]
    # Spark's own folder for a query without a checkpoint has another number in each run
    return re.sub(r"^temporary-.*", "temporary", telling[-1]) if telling else ""


def _slug(text: str) -> str:
    """`text` as a name that `NAME_PATTERN` allows; empty if nothing of it can be used."""
    plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    plain = plain if not plain[:1].isdigit() else f"q{plain}"
    return plain[:_LONGEST].rstrip("_")


def stream_parts(spec: StreamSpec, records: Iterable[QueryRecord], now: float) -> tuple[StreamPart, ...]:
    """The parts of a stream to judge: the stream itself, or its driver and each of its queries, by name.

    Its queries are those that its file declares; if it declares none, those that its newest driver started, and until
    that one has had the time to start them all those of the driver before it.
    """
    by_name = {record.name: record for record in records}
    named = {name: record for name, record in by_name.items() if name}
    driver = StreamPart(spec=spec, part=Part.DRIVER)
    if spec.queries:
        return (driver, *(_declared(spec, name, named.get(name)) for name in spec.queries))
    alone = by_name.get("")
    several = max((record.started_at for record in named.values()), default=0.0)
    if named and (alone is None or alone.started_at <= several):  # else the script starts one again, as it once did
        return (driver, *(_query(spec, named[name]) for name in sorted(_current(named, now))))
    if alone is None:
        return (StreamPart(spec=spec),)
    return (StreamPart(spec=replace(spec, trigger=alone.trigger), query=alone),)


def _current(named: Mapping[str, QueryRecord], now: float) -> Iterable[str]:
    newest = max(named.values(), key=lambda record: record.started_at).driver_id
    began = min(record.started_at for record in named.values() if record.driver_id == newest)
    for name, record in named.items():
        if record.driver_id == newest or now - began < STARTS_WITHIN:
            yield name


def _declared(spec: StreamSpec, name: str, record: QueryRecord | None) -> StreamPart:
    if record is not None:
        return _query(spec, record)
    place = spec.queries[name] or posixpath.join(spec.checkpoint, name)
    return StreamPart(spec=_of_query(spec, name, place), part=Part.QUERY)


def _query(spec: StreamSpec, record: QueryRecord) -> StreamPart:
    own = replace(_of_query(spec, record.name, record.checkpoint), trigger=record.trigger)
    return StreamPart(spec=own, part=Part.QUERY, query=record)


def _of_query(spec: StreamSpec, name: str, checkpoint: str) -> StreamSpec:
    """The spec of one of several queries. Source and sink of the stream's file do not apply: the script has them."""
    return replace(
        spec,
        name=identity(spec.name, name),
        checkpoint=checkpoint,
        queries={},
        source=SourceSpec(),
        sink=SinkSpec(),
    )
