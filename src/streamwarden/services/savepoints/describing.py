"""Describes a copy of a checkpoint: writes down what its manifest says."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from streamwarden.adapters.storage.files import LocalFiles
from streamwarden.checkpoint.diagnosis.report import CheckpointReport
from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle.savepoints.savepoint import (
    OWN_FILES,
    SavedFile,
    SavedOperator,
    SavedText,
    Savepoint,
    SinkPosition,
)
from streamwarden.redaction import redacted_text
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec

_AT_ONCE: Final = 8
"""Files of an object store, or large ones of this host, that are read at a time."""
_PIECE: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who takes a savepoint, and why. `spark`: version that the stream's newest driver runs; None: not known."""

    by: str
    reason: str
    spark: str | None = None


def describe(
    spec: StreamSpec, place: Location, batch: int, report: CheckpointReport, author: Author, taken_at: float
) -> Savepoint:
    """The manifest of the copy in `place`. Reads every byte of it. Raises OSError."""
    query_id = report.position.query_id
    assert query_id is not None  # the inspector found nothing wrong
    return Savepoint(
        id=place.path.rpartition("/")[2],
        stream=spec.name,
        query_id=query_id,
        batch=batch,
        taken_at=datetime.fromtimestamp(taken_at, UTC),
        by=author.by,
        reason=author.reason,
        streamwarden=version("streamwarden"),
        spark=author.spark,
        checkpoint=spec.checkpoint,
        formats=report.formats,
        conf=report.conf,
        provider=report.provider if report.operators else None,
        partitions=report.shuffle_partitions if report.operators else None,
        watermark_ms=report.watermark_ms,
        operators=tuple(
            SavedOperator(
                operator=operator.operator,
                name=operator.name,
                partitions=operator.partitions,
                stores=operator.stores,
                schemas=operator.schemas,
            )
            for operator in report.operators
        ),
        sink=_position(spec, query_id),
        job=_text(spec.job),
        declaration=_text(spec.file),
        files=saved_files(place),
    )


def saved_files(place: Location) -> tuple[SavedFile, ...]:
    """Every file of the copy with its digest, by path. Raises OSError."""
    sizes = sizes_of(place)
    near = isinstance(place.fs, LocalFiles) and max(sizes.values(), default=0) <= _PIECE  # threads would only wait
    with ThreadPoolExecutor(_AT_ONCE) as readers:
        digests = (map if near else readers.map)(lambda path: digest(place / path), sizes)
        read = zip(sizes.items(), digests, strict=True)
        return tuple(SavedFile(path=path, size=size, sha256=sha) for (path, size), sha in read)


def sizes_of(place: Location) -> dict[str, int]:
    """Path below the folder -> bytes, of each file, by path. Raises OSError."""
    return {path: entry.size for path, entry in sorted(place.walk()) if path not in OWN_FILES}


def digest(file: Location) -> str:
    """SHA-256 of a file, hexadecimal. Raises OSError."""
    sha = hashlib.sha256()
    with file.open() as stream:
        while piece := stream.read(_PIECE):
            sha.update(piece)
    return sha.hexdigest()


def _position(spec: StreamSpec, query_id: str) -> SinkPosition:
    """Where the output stands. A savepoint can be taken while the output's service is down: then it says so."""
    sink = spec.sink
    try:
        end = sink.end(spec, [query_id], os.environ, 0.0) if isinstance(sink, Sink) else None
    except (StreamwardenError, OSError) as error:
        return SinkPosition(kind=sink.kind, place=sink.place, unread=redacted_text(str(error)))
    return SinkPosition(kind=sink.kind, place=sink.place, newest=None if end is None else end.batch)


def _text(file: str) -> SavedText | None:
    try:
        content = Path(file).read_bytes()
    except OSError:
        return None
    text = redacted_text(content.decode("utf-8", errors="replace"))
    return SavedText(path=file, sha256=hashlib.sha256(content).hexdigest(), text=text)
