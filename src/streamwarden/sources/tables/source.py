"""Shared by the kinds of source that are tables: what varies is how a table's log names the data files of a batch.

A batch reads whole data files, in an order that the log of the table decides. The offset of the checkpoint is a
position in that order, so that the files of each batch, and those that no batch has planned, are known without Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.uris import file_name, is_pattern, to_uri
from streamwarden.errors import CheckpointError, TableInputGone, VerificationError
from streamwarden.health.window import WaitingInput
from streamwarden.lifecycle.failures.causes import TABLE_INPUT_GONE
from streamwarden.lifecycle.forks.fork import BoundedInput, InputFile, input_digest
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.problems import Problem, missing_reader, show
from streamwarden.sources.audited import AskedSource
from streamwarden.sources.base import FinishedRun, Reading, RowRequest, RunInput, StoredSource, positive, unknown_input
from streamwarden.stream.spec import HDFS, StreamSpec
from streamwarden.verification.comparing.balance import Range

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_NAMED: Final = 3
"""Commits or files that an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A data file of a table.

    Args:
        path: local, or a URL.
        size: bytes.
        at: when it was committed to the table, Unix seconds.
        partition: column -> the value that all of its rows have, as text, where the file itself has no such column.
    """

    path: str
    size: int
    at: float
    partition: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def as_input(self) -> InputFile:
        return InputFile(file_name(self.path), self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadFiles:
    """The data files that no batch has planned.

    Args:
        files: in the order in which they will be read.
        lost: what of the table's log is gone -> how many commits or files: no batch can read it any more.
        planned, planned_batches: files of the recent batches, and the number of those.
    """

    files: Sequence[TableFile] = ()
    lost: Mapping[str, int] = field(default_factory=dict)
    planned: int = 0
    planned_batches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource(StoredSource, ABC):
    """A table that is read as a stream of the data files that its writers add."""

    TABLE: ClassVar[bool] = True
    READER: ClassVar[str]
    """The package that reads the table without Spark."""
    DEFAULT_LIMIT: ClassVar[int | None]
    """Data files that Spark reads in a batch if no limit is set; None: all."""
    REFUSED: ClassVar[Mapping[str, str]]
    """Options, in lower case -> why the stream's file must not set them."""

    path: str = field()
    """the folder of the table"""
    max_files_per_trigger: int | None = None
    """most data files that a batch reads; null: Spark's default"""

    @property
    def folders(self) -> tuple[str, ...]:
        return (self.path,)

    @property
    def limit(self) -> int | None:
        return self.max_files_per_trigger

    def problems(self) -> Iterator[Problem]:
        yield from positive("max_files_per_trigger", self.max_files_per_trigger)
        if HDFS.match(self.path) or is_pattern(self.path):
            allowed = "the folder of one table, on a disk or at a URL with s3a://"
            yield Problem(key=("source", "path"), observed=show(self.path), allowed=allowed)
        for name, value in self.options.items():
            if why := self.REFUSED.get(name.lower()):
                yield Problem(key=("source", "options", name), observed=show(value), allowed=why)
        yield from missing_reader("source", self.kind, self.READER)

    def located(self, locate: Callable[[str], str]) -> Self:
        return replace(self, path=locate(self.path).rstrip("/"))

    def describe(self, shorten: Callable[[str], str]) -> str:
        return f"the {self.kind.capitalize()} table `{shorten(self.path)}`"

    def limited_to(self, most: int) -> Self:
        return replace(self, max_files_per_trigger=most)

    def option(self, name: str) -> str | None:
        """The value of an option in lower case, whatever the case of its name."""
        return next((value.lower() for key, value in self.options.items() if key.lower() == name), None)

    # Answered by each kind.

    @abstractmethod
    def files_read(self, spec: StreamSpec, checkpoint: Location, batches: range) -> Mapping[int, Sequence[TableFile]]:
        """Planned batch -> the data files that it reads, in their order, of those batches whose range is known.

        Raises CheckpointError if a log lacks what it needs, OSError.
        """

    @abstractmethod
    def unread(self, spec: StreamSpec, checkpoint: Location | None) -> UnreadFiles:
        """What no batch has planned. `checkpoint`: None: the query has none. Raises CheckpointError, OSError."""

    @abstractmethod
    def rows(self, spec: StreamSpec, files: Sequence[TableFile]) -> Iterable[pa.Table]:
        """The rows of each file, in the columns of the table. Raises VerificationError, OSError."""

    @abstractmethod
    def streaming(self, spark: SparkSession, spec: StreamSpec) -> DataFrame:
        """The table as a streaming frame, with all of its columns."""

    @abstractmethod
    def lay(self, spec: StreamSpec, forked: StreamSpec, read: Sequence[TableFile], unread: Sequence[TableFile]) -> None:
        """Make the fork's table, with these of its origin's data files: those that were read may be gone.

        Raises CheckpointError, OSError.
        """

    @abstractmethod
    def missing(self, spec: StreamSpec) -> Iterable[str]:
        """What the table no longer has of the batch that is planned and not committed, or of those that come next.

        The driver asks, in an environment without `READER`. Raises CheckpointError, OSError.
        """

    # What follows from that.

    def require_planned(self, spec: StreamSpec) -> None:
        """Say before the query starts what Spark would find out one by one. Raises TableInputGone."""
        with suppress(CheckpointError, OSError):  # Spark meets it, and its reader reports it
            if missing := list(islice(self.missing(spec), _NAMED)):
                raise TableInputGone(
                    f"the table {self.path} no longer has what the stream reads next: {', '.join(missing)}",
                    expected="the commits, snapshots and data files of a table until every stream that reads it has "
                    "read them",
                    where=f"stream {spec.name}",
                    next_step=TABLE_INPUT_GONE.next_step,
                )

    def read(self, spark: SparkSession, spec: StreamSpec, request: RowRequest) -> Reading:
        from streamwarden.sources.tables.reader import read

        return read(self.streaming(spark, spec), spec, request)

    def waiting(self, spec: StreamSpec, checkpoint: Location) -> WaitingInput:
        found = self.unread(spec, checkpoint)
        return WaitingInput(
            count=len(found.files),
            size=sum(file.size for file in found.files),
            since=min((file.at for file in found.files), default=None),
            planned=found.planned,
            planned_batches=found.planned_batches,
            lost=found.lost,
        )

    def forked(self, places: Places, feed: Feed) -> Self:
        """The fork reads a table of its own, which names its origin's data files as of now."""
        return replace(self, path=places.input)

    def batches(self, unseen: int) -> int | None:
        most = self.max_files_per_trigger or self.DEFAULT_LIMIT
        return ceil(unseen / most) if most else min(unseen, 1)

    def take_input(self, spec: StreamSpec, forked: StreamSpec, checkpoint: str | None, feed: Feed) -> BoundedInput:
        from streamwarden.adapters.storage.files import open_path

        own = None if checkpoint is None else open_path(checkpoint, forked.storage.connection)
        found = self.unread(spec, own)
        if found.lost:
            raise CheckpointError(
                f"the table no longer has what the fork has to read: {', '.join(found.lost)}",
                expected="a table that keeps what was added since the batch that is forked",
                where=self.path,
                next_step="fork at a later batch (a smaller `rewind`); keep the table's log and its old files longer",
            )
        read = [file for files in self._read_before(spec, own).values() for file in files]
        self.lay(spec, forked, read, found.files)
        files = [file.as_input for file in (*read, *found.files)]
        unseen = len(found.files)
        return BoundedInput(
            what="data file", total=len(files), unseen=unseen, longest_queue=unseen, digest=input_digest(files)
        )

    def _read_before(self, spec: StreamSpec, checkpoint: Location | None) -> Mapping[int, Sequence[TableFile]]:
        from streamwarden.checkpoint.formats.logs import log_position

        planned = None if checkpoint is None else log_position(checkpoint).planned
        if checkpoint is None or planned is None:
            return {}
        return self.files_read(spec, checkpoint, range(planned + 1))

    def unplanned(self, forked: StreamSpec) -> int:
        from streamwarden.adapters.storage.files import checkpoint_of

        return len(self.unread(forked, checkpoint_of(forked)).files)

    def read_back(self, spec: StreamSpec, run: FinishedRun) -> RunInput:
        """The rows of each batch as JSON, in files of lines. Those that no batch of a bounded run has read follow."""
        if run.into is None:
            return RunInput()
        try:
            read = self._committed(spec, run)
            left = () if run.bounded_from is None else self.unread(spec, run.checkpoint).files
            files = {batch: self._lines(spec, run, batch, named) for batch, named in read.items()}
            unread = self._lines(spec, run, None, left)
        except (CheckpointError, OSError) as error:
            raise gone(self.path, getattr(error, "observed", str(error))) from error
        return RunInput(inputs=[*(path for paths in files.values() for path in paths), *unread], files=files)

    def _committed(self, spec: StreamSpec, run: FinishedRun) -> Mapping[int, Sequence[TableFile]]:
        """Committed batch -> its files. Raises VerificationError for one that has to be compared and is not known."""
        batches = range(0 if run.committed is None else run.committed + 1)
        read = self.files_read(spec, run.checkpoint, batches)
        if missing := [batch for batch in batches if batch >= run.compared_from and batch not in read]:
            raise unknown_input(run.checkpoint.path, f"the files of batch {missing[0]} are not known any more")
        return read

    def _lines(self, spec: StreamSpec, run: FinishedRun, batch: int | None, files: Sequence[TableFile]) -> list[Path]:
        """The rows of the files of a batch, or of no batch. Of a batch that is not compared they may be gone."""
        from streamwarden.sources.tables.lines import write_lines

        assert run.into is not None, "the rows are wanted"
        try:
            return write_lines(self.rows(spec, files), run.into / ("unread" if batch is None else str(batch)))
        except OSError:
            if batch is not None and batch < run.compared_from:
                return []
            raise

    # Audited.

    @classmethod
    def audited(cls, spec: StreamSpec, checkpoint: Location, audited: Range) -> dict[str, Any] | None:
        source = spec.source
        if not isinstance(source, cls):
            return None
        read = source.files_read(spec, checkpoint, range(audited.after + 1, audited.upto + 1))
        try:
            schema = source.spark_schema(spec)
        except ValueError as error:
            return {"path": source.path, "refused": str(error)}
        files = [[to_uri(file.path), batch, dict(file.partition)] for batch, named in read.items() for file in named]
        return {"path": source.path, "schema": schema, "files": files}

    @classmethod
    def read_audited(cls, asked: AskedSource, read: Any) -> DataFrame:
        from streamwarden.sources.tables.audit import read_files

        return read_files(asked, read)

    @classmethod
    def audited_batches(cls, read: Any) -> Iterable[tuple[str, int]]:
        from streamwarden.sources.tables.audit import batches_of

        return batches_of(read)

    @abstractmethod
    def spark_schema(self, spec: StreamSpec) -> Mapping[str, Any]:
        """The table's columns as Spark writes a StructType as JSON, without Spark. Raises CheckpointError; ValueError
        says why the data files alone do not show the rows."""


def gone(where: str, observed: object) -> VerificationError:
    """What the run read of the table cannot be read any more."""
    return VerificationError(
        f"what was read of the table cannot be read again: {observed}",
        expected="a table that still has the commits and the data files of the batches in question",
        where=where,
        next_step="keep the table's log and its old files longer, and verify sooner; or drill a fork, which keeps them",
    )
