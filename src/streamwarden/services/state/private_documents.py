"""Documents that say what a person asked of a state: private, few, and kept for a limited time.

A run of a DAG carries out what was asked for. It is given the id of a document, which says nothing of what it contains:
Airflow keeps the configuration of a run for months, and shows it to others. State is data, so a document is a file of
its owner alone below a folder of the data folder, and nowhere else.
"""

import json
import re
import secrets
import shutil
import time
from abc import ABC
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from streamwarden.config.schema import load
from streamwarden.disk import PRIVATE, private_folder, replace
from streamwarden.errors import ConfigError, StreamwardenError
from streamwarden.lifecycle.time_travel.answers import Refused
from streamwarden.lifecycle.time_travel.bounds import cut

ID: Final = re.compile(r"[0-9]{8}T[0-9]{12}Z-[0-9a-f]{8}")


class Document(Protocol):
    """A frozen dataclass with an id."""

    @property
    def id(self) -> str:
        """Matches `ID`."""


_Kind = TypeVar("_Kind", bound=Document)


@dataclass(frozen=True, slots=True)
class Documents(ABC, Generic[_Kind]):
    """The documents of one kind of one stream or query.

    Args:
        data: the data folder.
        stream: a stream, or STREAM/QUERY.
    """

    folder: ClassVar[str]
    """Of the data folder."""
    keep: ClassVar[float]
    """Seconds for which a document is kept after it was last written."""
    most: ClassVar[int]
    """Of a stream; a further one replaces the oldest."""
    kind: ClassVar[type[Any]]

    data: Path
    stream: str

    def add(self, document: _Kind) -> _Kind:
        """Keep a new one. Raises OSError."""
        private_folder(self._folder, below=self.data)
        self.put(document)
        for file in [*self._files()][self.most :]:
            file.unlink(missing_ok=True)
        return document

    def put(self, document: _Kind) -> None:
        """Write one that was added. Raises OSError."""
        text = json.dumps(asdict(document), ensure_ascii=False)  # type: ignore[call-overload]  # it is a dataclass
        replace(self._file(document.id), text, mode=PRIVATE, durable=False)

    def get(self, document_id: str) -> _Kind | None:
        """The one of this id; None: there is none, or its time is over. Raises OSError."""
        return self._read(self._file(document_id)) if ID.fullmatch(document_id) else None

    def newest(self) -> list[_Kind]:
        """All that are kept, newest first. Raises OSError."""
        return [document for document in map(self._read, self._files()) if document is not None]

    def forget(self, document_id: str) -> None:
        """Remove one. Raises OSError."""
        if ID.fullmatch(document_id):
            self._file(document_id).unlink(missing_ok=True)

    @classmethod
    def remove_expired(cls, data: Path, now: float) -> int:
        """Remove those of all streams whose time is over; returns how many. Raises OSError."""
        root = data / cls.folder
        gone = [file for file in root.rglob("*") if file.is_file() and cls._is_over(file, now)]
        for file in gone:
            file.unlink(missing_ok=True)
        for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
            if not any(folder.iterdir()):
                shutil.rmtree(folder, ignore_errors=True)
        return len(gone)

    def _read(self, file: Path) -> _Kind | None:
        """None if it is not there, its time is over, or another version wrote it."""
        try:
            if self._is_over(file, time.time()):
                return None
            found: _Kind = load(self.kind, json.loads(file.read_text(encoding="utf-8")))
            return found
        except (FileNotFoundError, ValueError):
            return None

    @classmethod
    def _is_over(cls, file: Path, now: float) -> bool:
        return file.stat().st_mtime < now - cls.keep

    def _files(self) -> Iterator[Path]:
        return iter(sorted(self._folder.glob("*.json"), reverse=True))

    def _file(self, document_id: str) -> Path:
        return self._folder / f"{document_id}.json"

    @property
    def _folder(self) -> Path:
        return self.data / self.folder / self.stream


def new_id(now: float) -> str:
    """The id of a document that is made at this time, Unix seconds."""
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S%fZ}-{secrets.token_hex(4)}"


def refusal(error: StreamwardenError) -> Refused:
    """The error for a document. It may name keys, and is said nowhere else."""
    observed, expected, where, next_step = map(cut, (error.observed, error.expected, error.where, error.next_step))
    usage = isinstance(error, ConfigError)
    return Refused(observed=observed, expected=expected, where=where, next_step=next_step, usage=usage)
