"""The manifest of a savepoint: what was saved, of which stream, when, by whom and why. Pure.

A savepoint is a folder. Its manifest is written last, so a folder without one is not a savepoint: it is what an
interrupted `create` or `delete` left.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from streamwarden.checkpoint.filesystem import join
from streamwarden.checkpoint.formats.schemas import StateSchema
from streamwarden.lifecycle.location import DataUrl
from streamwarden.stream.spec import StreamSpec

FORMAT: Final = 1
"""Of the manifest. A reader refuses a newer one."""

MANIFEST: Final = "savepoint.json"
CLAIM: Final = "creating.json"
"""Names the process that creates the savepoint, or deletes it, until it has ended."""

_USE: Final = "used-by-"
"""Begins the name of a file that names a process which reads the savepoint."""

_HALF: Final = re.compile(r"\.([^/]+)\.\d+\.\d+")
"""A file that was not written to its end; see `disk.replacing`."""

FOLDER: Final = "savepoints"
"""Of the data folder, or of its URL: where the savepoints of a stream are whose file does not say."""

_ID: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_ID_TIME: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFile:
    """A file of the savepoint."""

    path: str
    """below the savepoint's folder"""
    size: int
    """bytes"""
    sha256: str
    """digest of its content, hexadecimal"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedText:
    """A file of the project as it was."""

    path: str
    """where it was"""
    sha256: str
    """digest of the whole file"""
    text: str
    """its content, without secrets"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedOperator:
    """A stateful operator of the query."""

    operator: int
    """its number: Spark numbers the operators from the sink towards the sources"""
    name: str | None
    """Spark's name of it; null: the checkpoint does not tell"""
    partitions: int
    """of its state"""
    stores: tuple[str, ...]
    """names of its stores in each partition"""
    schemas: tuple[StateSchema, ...] = ()
    """of each store: its fields by column family, with the format and the path of the file that says so"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPosition:
    """Where the output stood when the savepoint was taken."""

    kind: str
    """of the sink"""
    place: str | None
    """its folder, table or topic; null: the stream's file does not declare it"""
    newest: int | None = None
    """newest batch in the output, which may be later than the savepoint's; null: none, or the sink does not say"""
    unread: str = ""
    """why the output could not be asked; empty: it could"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """The manifest."""

    format: int = FORMAT
    """of this document; it rises when a reader of the old format would misread the new one"""
    id: str
    """name of the savepoint's folder: when it was begun"""
    stream: str
    """the stream, or STREAM/QUERY"""
    query_id: str
    """Spark's id of the query"""
    batch: int
    """the committed batch whose end it holds"""
    taken_at: datetime
    """when the copy was complete"""
    by: str
    """who took it"""
    reason: str
    """why"""
    scheduled: bool = False
    """whether the schedule took it: only these are deleted by `savepoints.keep`"""
    streamwarden: str
    """version of the package that wrote it"""
    spark: str | None
    """version of PySpark that the stream's newest driver was launched with; null: not recorded"""
    checkpoint: str
    """the place that it was copied from"""
    formats: Mapping[str, str]
    """log or file of Spark -> version of its format"""
    conf: Mapping[str, str]
    """settings that the checkpoint has fixed"""
    provider: str | None
    """of the state store; null: the query keeps no state"""
    partitions: int | None
    """of the state; null: the query keeps none, or the checkpoint does not tell"""
    watermark_ms: int | None
    """for the next batch, Unix milliseconds; null before any event"""
    operators: tuple[SavedOperator, ...]
    """the stateful operators; see below"""
    sink: SinkPosition
    """where the output stood; see below"""
    job: SavedText | None
    """the job's file; null: it could not be read"""
    declaration: SavedText | None
    """the stream's file; null: it could not be read"""
    files: tuple[SavedFile, ...] = field(repr=False)
    """every file of the savepoint except this one"""

    @property
    def bytes(self) -> int:
        """Bytes of its files. Hard links share them with the checkpoint until Spark removes its own."""
        return sum(file.size for file in self.files)


def root_of(spec: StreamSpec) -> str:
    """Folder or URL that holds a folder for each savepoint of a stream, or of a query."""
    own = DataUrl(spec.data_url).place(FOLDER) if spec.data_url else join(spec.data, FOLDER)
    return join(spec.savepoints.folder or own, spec.name)


def savepoint_id(at: float) -> str:
    """`20261125T204502Z`: names sort by time. `at`: when it was begun, Unix seconds."""
    return f"{datetime.fromtimestamp(at, UTC):{_ID_TIME}}"


def is_own(path: str) -> bool:
    """Whether it is a file of a savepoint's folder that its manifest does not list, or what a killed writer of one
    left."""
    half = _HALF.fullmatch(path)
    name = path if half is None else half[1]
    return name in (MANIFEST, CLAIM) or is_use(name)


def use_name(reader: str) -> str:
    """The name of the file by which a reader keeps the savepoint from being deleted."""
    return f"{_USE}{reader}.json"


def is_use(name: str) -> bool:
    """Whether it is such a file."""
    return name.startswith(_USE)


def is_id(name: str) -> bool:
    """Whether it is the name of a savepoint's folder, and so safe in a path."""
    return _ID.fullmatch(name) is not None


def began_at(savepoint: str) -> float:
    """When the savepoint of this id was begun, Unix seconds; 0 for a name that is no time."""
    try:
        return datetime.strptime(savepoint, _ID_TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
