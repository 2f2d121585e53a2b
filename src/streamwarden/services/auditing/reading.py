"""Lists the audited batches' input and output in a stream's source and sink."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import is_number
from streamwarden.checkpoint.formats.logs import offsets
from streamwarden.checkpoint.formats.sources import file_source_log, rate_began, rate_ends
from streamwarden.checkpoint.topics import topic_offsets, topic_ranges
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.balance import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedOutput:
    """The output as the audit's program reads it, and the problems already known.

    Args:
        request: see `spark.audit_operators`.
        problems: deviations that the sink's log shows by itself.
    """

    request: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def input_of(spec: StreamSpec, checkpoint: Location, audited: Range) -> dict[str, Any]:
    """Input of the audited batches, for `request.json`: see `spark.audit_input.AuditedInput`.

    Raises CheckpointError, OSError, Damaged.
    """
    return {
        "files": _files(spec, checkpoint, audited),
        "topics": _topics(checkpoint, audited),
        "rate": _rate(checkpoint, audited),
    }


def _files(spec: StreamSpec, checkpoint: Location, audited: Range) -> dict[str, list[tuple[str, int]]]:
    files = {}
    for place, folder in enumerate(spec.source.folders):
        log = file_source_log(checkpoint, place)
        files[folder.rstrip("/")] = [(uri, batch) for batch in audited.batches for uri in log.get(batch, ())]
    return files


def _topics(checkpoint: Location, audited: Range) -> dict[str, list[tuple[int, int, int, int]]]:
    """Topic -> (partition, start, end, batch). A topic that is two sources of the query is left out: each could have
    read other records of it in a batch."""
    topics: dict[str, list[tuple[int, int, int, int]]] = {}
    twice = set()
    for place, offset in enumerate(offsets(checkpoint, audited.upto).sources):
        named = {topic for topic, _ in topic_offsets(offset) or {}}
        twice |= named & topics.keys()
        topics |= {topic: [] for topic in named}
        ranges = topic_ranges(checkpoint, place) if named else {}
        for batch in audited.batches:
            for span in ranges.get(batch, ()):
                topics[span.topic].append((span.partition, span.start, span.end, batch))
    return {topic: read for topic, read in topics.items() if topic not in twice}


def _rate(checkpoint: Location, audited: Range) -> tuple[int, list[tuple[int, int, int]]] | None:
    """Start of the rate source, and the seconds of each batch; None unless the query has exactly one."""
    sources = offsets(checkpoint, audited.upto).sources
    places = [place for place, offset in enumerate(sources) if is_number(offset)]
    if len(places) != 1:
        return None
    ends = rate_ends(checkpoint, places[0])
    seconds = [(ends.get(batch - 1, 0), ends[batch], batch) for batch in audited.batches if batch in ends]
    return rate_began(checkpoint, places[0]), seconds


def output_of(spec: StreamSpec, audited: Range, commits: Mapping[int, float | None]) -> AuditedOutput:
    """Output of the audited batches. Raises CheckpointError, OSError."""
    began = commits.get(audited.after)
    written = spec.sink.written(spec, audited, began) if isinstance(spec.sink, Sink) else None
    if written is None:  # the rows are on a service: see `Sink.rows_of`
        return AuditedOutput(request={"began": began})
    return AuditedOutput(
        request={"format": spec.sink.spark_format, "options": dict(written.options), "files": list(written.uris)},
        problems=written.problems,
    )
