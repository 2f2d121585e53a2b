"""The declaration of the kind of source `files`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, ClassVar, Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.changed_input import ChangedFile
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.uris import is_pattern
from streamwarden.checkpoint.pattern_names import by_batch, read_again
from streamwarden.health.window import WaitingInput
from streamwarden.lifecycle.forks.fork import BoundedInput
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.script_sources import is_recursive
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.problems import Problem, show
from streamwarden.sources.audited import AskedSource
from streamwarden.sources.base import FinishedRun, Reading, RowRequest, RunInput, StoredSource, positive
from streamwarden.sources.files.audited import Folders, batches_of, files_of, read_files
from streamwarden.stream.spec import NAME_PATTERN, StreamSpec
from streamwarden.units import format_list
from streamwarden.verification.comparing.balance import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TOUCHES_THE_ORIGINAL: Final = frozenset({"cleansource", "sourcearchivedir"})
"""Options (lower case) under which a source would move or delete files, in the origin's archive too."""

_SEEN_BY_NAME: Final = {"fileNameOnly": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSource(StoredSource):
    """Folders of files, each published whole (by rename)."""

    FORMATS: ClassVar[tuple[str, ...]] = ("avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml")
    LIMIT: ClassVar[str] = "maxFilesPerTrigger"

    kind: str = "files"
    path: str = field()
    """folder of files; it may be a pattern"""
    parts: tuple[str, ...] = ()
    """subfolders of `path`, each a separate file source, in the query's order (in a join, left first)"""
    format: str = "json"
    """Spark's name for the format of the files"""
    max_files_per_trigger: int | None = None
    """most files that a batch reads; null: all that are there"""

    @property
    def folders(self) -> tuple[str, ...]:
        """The folder of each file source, in the query's order."""
        return tuple(f"{self.path.rstrip('/')}/{part}" for part in self.parts) or (self.path,)

    @property
    def limit(self) -> int | None:
        return self.max_files_per_trigger

    def problems(self) -> Iterator[Problem]:
        yield from positive("max_files_per_trigger", self.max_files_per_trigger)
        for index, part in enumerate(self.parts):
            allowed = None
            if not NAME_PATTERN.fullmatch(part):
                allowed = f"a folder's name that matches {NAME_PATTERN.pattern}"
            elif part in self.parts[:index]:
                allowed = "each folder once"
            if allowed is not None:
                yield Problem(key=("source", "parts", index), observed=show(part), allowed=allowed)

    def changed(self, spec: StreamSpec, checkpoint: Location, batches: Collection[int]) -> Sequence[ChangedFile]:
        from streamwarden.sources.changed_input import changed_since_read

        return changed_since_read(checkpoint, range(len(self.folders)), spec.storage.connection, batches)

    @classmethod
    def audited(cls, spec: StreamSpec, checkpoint: Location, audited: Range) -> Folders:
        return files_of(spec.source.folders, checkpoint, audited)

    @classmethod
    def read_audited(cls, asked: AskedSource, read: Folders) -> DataFrame:
        return read_files(asked, read)

    @classmethod
    def audited_batches(cls, read: Folders) -> Iterable[tuple[str, int]]:
        return batches_of(read)

    def pattern_names(self, spec: StreamSpec) -> Sequence[str]:
        if is_recursive(self.options):
            return ()
        folders = [open_path(folder, spec.storage.connection) for folder in self.folders if not is_pattern(folder)]
        return sorted(entry.name for folder in folders for entry in folder.entries() if is_pattern(entry.name))

    @classmethod
    def audit_notes(cls, spec: StreamSpec, read: Folders) -> Iterable[str]:
        recursive = is_recursive(spec.source.options)
        found = (read_again(by_batch(files), folder=at, recursive=recursive) for at, files in read.items())
        return (str(again) for of_folder in found for again in of_folder)

    @classmethod
    def fork_options(cls, options: Mapping[str, str | None]) -> dict[str, str]:
        return {"cleanSource": "off"} if _TOUCHES_THE_ORIGINAL & set(options) else {}

    @classmethod
    def count(cls, spark: SparkSession, options: Mapping[str, str | None]) -> int | None:
        """0 if they cannot be listed: reading them raises the same error. None if a limit in bytes decides."""
        from pyspark.errors import AnalysisException

        path = options.get("path")
        if path is None or "maxbytespertrigger" in options:
            return None
        reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        try:
            return len(reader.load(path).inputFiles())
        except AnalysisException:
            return 0

    def located(self, locate: Callable[[str], str]) -> FilesSource:
        return replace(self, path=locate(self.path))

    def forked(self, places: Places, feed: Feed) -> FilesSource:
        """The fork reads links to the origin's files: it knows those that were read by their names."""
        kept = {
            key: value
            for key, value in self.options.items()
            if key.lower() not in _TOUCHES_THE_ORIGINAL and key.lower() != "filenameonly"
        }
        return replace(self, path=places.input, options=kept | _SEEN_BY_NAME)

    def limited_to(self, most: int) -> FilesSource:
        return replace(self, max_files_per_trigger=most)

    def batches(self, unseen: int) -> int | None:
        """None if a limit in bytes decides it."""
        options = {key.lower(): value for key, value in self.options.items()}
        if "maxbytespertrigger" in options:
            return None
        limit = self.max_files_per_trigger
        if limit is None and options.get("maxfilespertrigger", "").isdigit():
            limit = int(options["maxfilespertrigger"])
        return ceil(unseen / limit) if limit else min(unseen, 1)

    def describe(self, shorten: Callable[[str], str]) -> str:
        return f"{self.format} files in {format_list(f'`{shorten(folder)}`' for folder in self.folders)}"

    def read(self, spark: SparkSession, spec: StreamSpec, request: RowRequest) -> Reading:
        from streamwarden.sources.files.reader import read

        return read(spark, spec, request, self.format)

    def waiting(self, spec: StreamSpec, checkpoint: Location) -> WaitingInput | None:
        """None for a pattern or subfolders in the path, and for an age limit that cannot be parsed."""
        from streamwarden.sources.files.waiting import waiting_files

        return waiting_files(spec, checkpoint)

    def take_input(self, spec: StreamSpec, forked: StreamSpec, checkpoint: str | None, feed: Feed) -> BoundedInput:
        from streamwarden.sources.files.forking import link_input

        return link_input(spec, forked, checkpoint)

    def unplanned(self, forked: StreamSpec) -> int:
        from streamwarden.sources.files.waiting import unplanned_files

        return unplanned_files(forked)

    def require_planned(self, spec: StreamSpec) -> None:
        from streamwarden.sources.files.planned_input import require_planned_input

        require_planned_input(spec)

    def read_back(self, spec: StreamSpec, run: FinishedRun) -> RunInput:
        from streamwarden.sources.files.reading_back import read_back

        return read_back(spec, run)
