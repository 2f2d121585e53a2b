"""What an audit reads of a stream's source and sink: which files its batches read and wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.sources import file_source_log
from streamwarden.sinks.base import Sink
from streamwarden.stream import StreamSpec
from streamwarden.verification.balance import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedOutput:
    """What the audit's program has to know of the output, and what is already wrong with it.

    Args:
        request: see `spark.audit_operators`.
        problems: deviations that the sink's log shows by itself.
    """

    request: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def input_of(spec: StreamSpec, checkpoint: Location, audited: Range) -> dict[str, list[tuple[str, int]]]:
    """Folder of a file source -> (URI of a file, batch that read it). Raises CheckpointError, OSError."""
    found = {}
    for place, folder in enumerate(spec.source.folders):
        log = file_source_log(checkpoint, place)
        found[folder.rstrip("/")] = [(uri, batch) for batch in audited.batches for uri in log.get(batch, ())]
    return found


def output_of(spec: StreamSpec, audited: Range, commits: Mapping[int, float | None]) -> AuditedOutput:
    """What the audited batches wrote. Raises CheckpointError, OSError."""
    written = None
    if isinstance(spec.sink, Sink):
        written = spec.sink.written(spec, audited, commits.get(audited.after))
    if written is None:
        return AuditedOutput(request={"impossible": f"the audit cannot read a sink of the kind {spec.sink.kind} yet"})
    return AuditedOutput(
        request={"format": spec.sink.spark_format, "options": dict(written.options), "files": list(written.uris)},
        problems=written.problems,
    )
