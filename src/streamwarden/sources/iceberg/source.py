"""The declaration of the kind of source `iceberg`: a table in the folder of a Hadoop catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.checkpoint.table_offsets import iceberg_offset, table_offsets, table_spans
from streamwarden.problems import Problem
from streamwarden.sources.base import positive
from streamwarden.sources.tables.source import TableFile, TableSource, UnreadFiles
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from streamwarden.sources.iceberg.files import IcebergFiles

_OWN_KEY: Final = "nothing: it has a key of its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSource(TableSource):
    """An Iceberg table, read as a stream of the data files that its snapshots append.

    It needs a Spark that Iceberg supports (see [Iceberg tables](../how-to/iceberg.md)).
    """

    CONNECTOR: ClassVar[str | None] = "iceberg"
    FORMATS: ClassVar[tuple[str, ...]] = ("iceberg",)
    LIMIT: ClassVar[str] = "streaming-max-files-per-micro-batch"
    READER: ClassVar[str] = "pyiceberg"
    DEFAULT_LIMIT: ClassVar[int | None] = None
    REFUSED: ClassVar[Mapping[str, str]] = {
        "path": _OWN_KEY,
        "streaming-max-files-per-micro-batch": _OWN_KEY,
        "streaming-max-rows-per-micro-batch": _OWN_KEY,
        "stream-from-timestamp": _OWN_KEY,
    }

    kind: str = "iceberg"
    max_rows_per_trigger: int | None = None
    """most rows that a batch reads, in whole data files; null: no limit"""
    starting_timestamp: int | None = None
    """a new query begins with the first snapshot of this time or later, Unix milliseconds; null: with the oldest"""

    def problems(self) -> Iterator[Problem]:
        yield from TableSource.problems(self)
        yield from positive("max_rows_per_trigger", self.max_rows_per_trigger)

    def batches(self, unseen: int) -> int | None:
        """None if a limit in rows decides it."""
        return None if self.max_rows_per_trigger is not None else TableSource.batches(self, unseen)

    def streaming(self, spark: SparkSession, spec: StreamSpec) -> DataFrame:
        given = {
            self.LIMIT: self.max_files_per_trigger,
            "streaming-max-rows-per-micro-batch": self.max_rows_per_trigger,
            "stream-from-timestamp": self.starting_timestamp,
        }
        own = {name: str(value) for name, value in given.items() if value is not None}
        return spark.readStream.format("iceberg").options(**self.options, **own).load(to_hadoop(self.path))

    def table(self, spec: StreamSpec) -> IcebergFiles | None:
        """The files of the table; None: there is none yet. Raises CheckpointError, OSError."""
        from streamwarden.adapters.iceberg.table import table_in
        from streamwarden.sources.iceberg.files import IcebergFiles

        known = table_in(self.path, spec.storage.connection)
        if known is None:
            return None
        return IcebergFiles(
            path=self.path,
            connection=spec.storage.connection,
            known=known,
            since=self.starting_timestamp,
        )

    def files_read(self, spec: StreamSpec, checkpoint: Location, batches: range) -> Mapping[int, Sequence[TableFile]]:
        from streamwarden.sources.iceberg.files import files_of_batches

        spans = table_spans(table_offsets(checkpoint, iceberg_offset))
        wanted = {batch: span for batch, span in spans.items() if batch in batches}
        return files_of_batches(self._there(spec), wanted) if wanted else {}

    def unread(self, spec: StreamSpec, checkpoint: Location | None) -> UnreadFiles:
        from streamwarden.sources.iceberg.unread import unread_files

        ends = {} if checkpoint is None else table_offsets(checkpoint, iceberg_offset)
        table = self.table(spec)
        return UnreadFiles() if table is None else unread_files(table, ends)

    def rows(self, spec: StreamSpec, files: Sequence[TableFile]) -> Iterable[pa.Table]:
        from streamwarden.sources.iceberg.rows import rows_of

        return rows_of(self._there(spec), spec, files) if files else ()

    def lay(self, spec: StreamSpec, forked: StreamSpec, read: Sequence[TableFile], unread: Sequence[TableFile]) -> None:
        from streamwarden.sources.iceberg.forking import clone_table

        table = self.table(spec)
        if table is not None:
            clone_table(table.known, self.path, str(forked.source.path))

    def spark_schema(self, spec: StreamSpec) -> Mapping[str, Any]:
        from streamwarden.sources.iceberg.rows import spark_schema

        return spark_schema(self._there(spec).static)

    def missing(self, spec: StreamSpec) -> Iterable[str]:
        from streamwarden.adapters.storage.files import checkpoint_of
        from streamwarden.sources.iceberg.planned_input import missing_input

        table = self.table(spec)
        return () if table is None else missing_input(table, checkpoint_of(spec))

    def _there(self, spec: StreamSpec) -> IcebergFiles:
        """Raises CheckpointError if there is no table."""
        from streamwarden.errors import CheckpointError

        table = self.table(spec)
        if table is None:
            raise CheckpointError(
                "there is no Iceberg table",
                expected="the metadata of a table of a Hadoop catalog, `metadata/vN.metadata.json`",
                where=self.path,
                next_step="correct `source.path`, or let its writer commit first",
            )
        return table
