"""Lists the audited batches' input and output in a stream's source and sink."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamwarden.checkpoint.filesystem import Location
from streamwarden.sinks.base import Sink
from streamwarden.sources import KINDS
from streamwarden.sources.base import Source
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedOutput:
    """The output as the audit's program reads it, and the problems already known.

    Args:
        request: see `spark.programs.audit`.
        problems: deviations that the sink's log shows by itself.
    """

    request: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def input_of(spec: StreamSpec, checkpoint: Location, audited: Range) -> dict[str, Any]:
    """Input of the audited batches for `request.json`, by the kind of source.

    Raises CheckpointError, OSError, Damaged.
    """
    return {name: kind.audited(spec, checkpoint, audited) for name, kind in KINDS.items() if issubclass(kind, Source)}


def notes_of(spec: StreamSpec, read: Mapping[str, Any]) -> tuple[str, ...]:
    """What `input_of` shows by itself; see `Source.audit_notes`."""
    kinds = [(kind, read[name]) for name, kind in KINDS.items() if issubclass(kind, Source)]
    return tuple(note for kind, files in kinds for note in kind.audit_notes(spec, files))


def output_of(spec: StreamSpec, audited: Range, commits: Mapping[int, float | None]) -> AuditedOutput:
    """Output of the audited batches. Raises CheckpointError, OSError."""
    began = commits.get(audited.after)
    written = spec.sink.written(spec, audited, began) if isinstance(spec.sink, Sink) else None
    if written is None:  # the rows are on a service: see `Sink.rows_of`
        return AuditedOutput(request={"began": began})
    form = written.format or spec.sink.spark_format
    return AuditedOutput(
        request={"format": form, "options": dict(written.options), "files": list(written.uris)},
        problems=written.problems,
    )
