"""Describes a copy of a checkpoint: writes down what its manifest says."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.storage.files import LocalFiles
from streamwarden.checkpoint.diagnosis.report import CheckpointReport
from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import StoreError, StreamwardenError
from streamwarden.lifecycle import driver_folder
from streamwarden.lifecycle.savepoints.savepoint import (
    SavedFile,
    SavedOperator,
    SavedText,
    Savepoint,
    SinkPosition,
    is_own,
)
from streamwarden.redaction import redacted_text
from streamwarden.services.savepoints.telling import Tell, counted, silent
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

_AT_ONCE: Final = 8
"""Files of an object store, or large ones of this host, that are read at a time."""
_PIECE: Final = 4 << 20
BYTES_READ: Final = "bytes read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who takes a savepoint, and why. `spark`: version that the stream's newest driver runs; None: not known.
    `scheduled`: nobody asked for it."""

    by: str
    reason: str
    spark: str | None = None
    scheduled: bool = False


def recorded_spark(store: "Store", stream: str) -> str | None:
    """Version of PySpark that the stream's newest driver was launched with; None if that is not recorded."""
    with suppress(StoreError):
        driver = store.drivers.latest(stream)
        code = None if driver is None else driver_folder.read_document(Path(driver.folder) / driver_folder.CODE)
        return ((code or {}).get("packages") or {}).get("pyspark")
    return None


def describe(
    spec: StreamSpec,
    place: Location,
    batch: int,
    report: CheckpointReport,
    author: Author,
    taken_at: float,
    tell: Tell = silent,
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
        scheduled=author.scheduled,
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
        files=saved_files(place, tell),
    )


def saved_files(place: Location, tell: Tell) -> tuple[SavedFile, ...]:
    """Every file of the copy with its digest, by path. Raises OSError."""
    sizes = sizes_of(place)
    near = isinstance(place.fs, LocalFiles) and max(sizes.values(), default=0) <= _PIECE  # threads would only wait
    with ThreadPoolExecutor(_AT_ONCE) as readers:
        digests = (map if near else readers.map)(lambda path: digest(place / path), sizes)
        files = zip(sizes.items(), digests, strict=True)
        read = counted(files, BYTES_READ, sum(sizes.values()), tell, lambda file: file[0][1])
        return tuple(SavedFile(path=path, size=size, sha256=sha) for (path, size), sha in read)


def sizes_of(place: Location) -> dict[str, int]:
    """Path below the folder -> bytes, of each file, by path. Raises OSError."""
    return {path: entry.size for path, entry in sorted(place.walk()) if not is_own(path)}


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
