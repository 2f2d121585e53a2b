"""Shared by the faults that change the files which a fork reads: its own links to them, which no other stream reads."""

from __future__ import annotations

from streamwarden.drills.records.sections import FaultKind
from streamwarden.errors import DrillAborted
from streamwarden.stream.spec import StreamSpec


def require_files(kind: FaultKind, stream: str, declared: StreamSpec) -> None:
    """Raises DrillAborted for a stream that reads no files. The records of a topic are lost otherwise."""
    if declared.source.path is None:
        raise DrillAborted(
            f"{kind} is not applicable: the source of {stream} is of the kind {declared.source.kind}, which reads no "
            "files",
            expected="source.kind files",
            where=f"the drill of {stream}",
            next_step="drill a stream that reads a topic with `retention_passed`",
        )
