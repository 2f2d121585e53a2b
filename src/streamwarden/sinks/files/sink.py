"""A folder of files that Spark's own file sink writes, under its manifest."""

from __future__ import annotations

import errno
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.batch_progress import entry_written_at
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.checkpoint.formats.sink import newest_entry, read_sink_manifest
from streamwarden.checkpoint.formats.uris import to_hadoop, to_path
from streamwarden.lifecycle.exchanges.exchange import Exchange, OutputPlan
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.plan import CopyStep, manifest_steps
from streamwarden.lifecycle.launch_check import OutputEnd
from streamwarden.problems import Problem
from streamwarden.sinks.base import Sink, refused_mode
from streamwarden.sinks.files.data import DataFormat, read_files
from streamwarden.sinks.files.empty_entries import add_empty, whole_manifest
from streamwarden.sinks.files.output import read_output
from streamwarden.sinks.files.returning import copy_manifest, plan_return, return_output
from streamwarden.sinks.files.set_aside import set_aside
from streamwarden.sinks.files.written import written_files
from streamwarden.sinks.output import Output, WrittenFiles
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.verification.comparing.balance import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSink(Sink):
    """The output folder `path`; exactly once for readers that honour its `_spark_metadata` manifest."""

    PLACE: ClassVar[str | None] = "path"
    MANIFEST: ClassVar[bool] = True
    LOG: ClassVar[str | None] = SINK_LOG

    path: str = field()
    """the output folder"""

    @property
    def can_be_set_back(self) -> bool:
        return True

    @property
    def spark_format(self) -> str:
        """Spark's name of the format."""
        return self.kind

    @abstractmethod
    def data_format(self, like: Mapping[str, object]) -> DataFormat:
        """How the data files are read. A format that has no types of its own takes those of the values in `like`."""

    def writer_options(self) -> dict[str, str]:
        """Options of Spark's writer: those of the declaration and those of the format."""
        return self.options

    def problems(self) -> Iterable[Problem]:
        if self.mode is not OutputMode.APPEND:
            yield refused_mode(self.mode, "append: a sink of files knows no other mode")

    def located(self, locate: Callable[[str], str]) -> Self:
        return replace(self, path=locate(self.path))

    def attached(self, frame: DataFrame, spec: StreamSpec) -> DataStreamWriter:
        writer = frame.writeStream.format(self.spark_format).options(**self.writer_options())
        return writer.option("path", to_hadoop(self.path))

    def end(
        self, spec: StreamSpec, queries: Sequence[str], environ: Mapping[str, str], since: float
    ) -> OutputEnd | None:
        batch = newest_entry(open_path(self.path, spec.storage.connection))
        if batch is None:
            return None
        return OutputEnd(
            batch=batch,
            where=f"the manifest {self.path}/{SINK_LOG}",
            consequence="Spark would skip every batch up to it, and their rows would be lost",
        )

    def clear_after(self, spec: StreamSpec, batch: int, at: float) -> str:
        return set_aside(open_path(self.path, spec.storage.connection), batch, at)

    def listed_at(self, spec: StreamSpec, batch: int) -> float | None:
        return entry_written_at(open_path(self.path, spec.storage.connection), batch)

    def newest_listed(self, spec: StreamSpec) -> int | None:
        return newest_entry(open_path(self.path, spec.storage.connection))

    def forked(self, places: Places) -> Self:
        return replace(self, path=places.output)

    def history(
        self, origin: StreamSpec, places: Places, batch: int, manifest: Location | None = None
    ) -> Sequence[CopyStep]:
        output = open_path(self.path, origin.storage.connection)
        listed = read_sink_manifest(manifest or output, batch)
        if listed is None:
            raise FileNotFoundError(errno.ENOENT, "the manifest vanished", ((manifest or output) / SINK_LOG).path)
        return manifest_steps(listed, output.path, places)

    def plan_restore(self, spec: StreamSpec, restore: Exchange, manifest: Location) -> OutputPlan:
        return plan_return(open_path(self.path, spec.storage.connection), restore, manifest)

    def prepare_restore(self, spec: StreamSpec, restore: Exchange, manifest: Location) -> None:
        copy_manifest(open_path(self.path, spec.storage.connection), restore, manifest)

    def restore_output(self, spec: StreamSpec, restore: Exchange, plan: bytes) -> str:
        return return_output(open_path(self.path, spec.storage.connection), restore)

    def require_passable(self, spec: StreamSpec, rewrite: Exchange) -> None:
        whole_manifest(open_path(self.path, spec.storage.connection))

    def pass_over(self, spec: StreamSpec, rewrite: Exchange, plan: bytes) -> str:
        return add_empty(open_path(self.path, spec.storage.connection), rewrite.batch)

    def read(
        self, spec: StreamSpec, like: Mapping[str, object], *, committed: int | None, first: int, deduplicated: bool
    ) -> Output:
        return read_output(
            self.path,
            connection=spec.storage.connection,
            committed=committed,
            first=first,
            data_format=self.data_format(like),
        )

    def written(self, spec: StreamSpec, audited: Range, began: float | None) -> WrittenFiles | None:
        root = open_path(self.path, spec.storage.connection)
        return written_files(root, audited, began, self.writer_options())

    def rows_of_batches(self, spec: StreamSpec, batches: Range, began: float) -> Output | None:
        root = open_path(self.path, spec.storage.connection)
        found = written_files(root, batches, began, {})
        data = read_files(root, [to_path(uri) for uri in found.uris], self.data_format({}))
        if found.problems or data.unreadable:
            return None
        return Output(columns=data.columns, parts=data.parts, types=data.types)
