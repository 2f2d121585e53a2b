"""The declaration of the kind of source `delta`: a table in a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.checkpoint.table_offsets import delta_offset, table_offsets, table_spans
from streamwarden.problems import Problem, show
from streamwarden.sources.tables.source import TableFile, TableSource, UnreadFiles
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from streamwarden.sources.delta.files import DeltaFiles

_SIZE: Final = re.compile(r"[1-9][0-9]*([kmgt]?b?)", re.IGNORECASE)
_OWN_KEY: Final = "nothing: it has a key of its own"
_AT_A_TIME: Final = "nothing: a restart would look for the beginning again; name it by `starting_version`"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSource(TableSource):
    """A Delta table in the folder `path`, read as a stream of the data files that its commits add.

    It needs a Spark that Delta supports (see [Delta tables](../how-to/delta.md)).
    """

    CONNECTOR: ClassVar[str | None] = "delta"
    FORMATS: ClassVar[tuple[str, ...]] = ("delta",)
    LIMIT: ClassVar[str] = "maxFilesPerTrigger"
    READER: ClassVar[str] = "deltalake"
    DEFAULT_LIMIT: ClassVar[int | None] = 1000
    REFUSED: ClassVar[Mapping[str, str]] = {
        "path": _OWN_KEY,
        "maxfilespertrigger": _OWN_KEY,
        "maxbytespertrigger": _OWN_KEY,
        "startingversion": _OWN_KEY,
        "startingtimestamp": _AT_A_TIME,
        **dict.fromkeys(
            ("readchangefeed", "readchangedata"),
            "nothing: its rows are changes, which neither an audit nor a twin can read again",
        ),
        "excluderegex": "nothing: which files a batch has left out is not recorded",
        **dict.fromkeys(
            ("schematrackinglocation", "schemalocation"), "nothing: a second log beside the checkpoint was not tried"
        ),
    }

    kind: str = "delta"
    max_bytes_per_trigger: str | None = None
    """approximate size of a batch, as Delta writes it (`1g`); null: no limit"""
    starting_version: int | None = None
    """the version of the table whose commit a new query reads first; null: it begins with the whole table as it is"""

    def problems(self) -> Iterator[Problem]:
        yield from TableSource.problems(self)
        if self.starting_version is not None and self.starting_version < 0:
            yield Problem(key=("source", "starting_version"), observed=show(self.starting_version), allowed="0 or more")
        if self.max_bytes_per_trigger is not None and not _SIZE.fullmatch(self.max_bytes_per_trigger):
            allowed = "a size as Delta reads it, such as 500m or 1g"
            key = ("source", "max_bytes_per_trigger")
            yield Problem(key=key, observed=show(self.max_bytes_per_trigger), allowed=allowed)

    def batches(self, unseen: int) -> int | None:
        """None if a limit in bytes decides it."""
        return None if self.max_bytes_per_trigger is not None else TableSource.batches(self, unseen)

    def streaming(self, spark: SparkSession, spec: StreamSpec) -> DataFrame:
        given = {
            "maxFilesPerTrigger": self.max_files_per_trigger,
            "maxBytesPerTrigger": self.max_bytes_per_trigger,
            "startingVersion": self.starting_version,
        }
        own = {name: str(value) for name, value in given.items() if value is not None}
        return spark.readStream.format("delta").options(**self.options, **own).load(to_hadoop(self.path))

    def table(self, spec: StreamSpec) -> DeltaFiles:
        """The files of the table."""
        from streamwarden.adapters.storage.files import open_path
        from streamwarden.sources.delta.files import DeltaFiles

        return DeltaFiles(
            root=open_path(self.path, spec.storage.connection),
            connection=spec.storage.connection,
            starting=self.starting_version,
            skips_changes=self.option("skipchangecommits") == "true",
        )

    def files_read(self, spec: StreamSpec, checkpoint: Location, batches: range) -> Mapping[int, Sequence[TableFile]]:
        table, spans = self.table(spec), table_spans(table_offsets(checkpoint, delta_offset))
        return {
            batch: [] if end is None else table.between(start, end)
            for batch, (start, end) in spans.items()
            if batch in batches
        }

    def unread(self, spec: StreamSpec, checkpoint: Location | None) -> UnreadFiles:
        from streamwarden.sources.delta.unread import unread_files

        ends = {} if checkpoint is None else table_offsets(checkpoint, delta_offset)
        return unread_files(self.table(spec), ends)

    def rows(self, spec: StreamSpec, files: Sequence[TableFile]) -> Iterable[pa.Table]:
        from streamwarden.sources.delta.rows import rows_of

        return rows_of(self.table(spec), files)

    def lay(self, spec: StreamSpec, forked: StreamSpec, read: Sequence[TableFile], unread: Sequence[TableFile]) -> None:
        from streamwarden.sources.delta.forking import link_table

        link_table(self.table(spec), str(forked.source.path), read, unread)

    def spark_schema(self, spec: StreamSpec) -> Mapping[str, Any]:
        from streamwarden.sources.delta.rows import spark_schema

        return spark_schema(self.table(spec).as_of())

    def missing(self, spec: StreamSpec) -> Iterable[str]:
        """Nothing if the stream accepts the loss."""
        from streamwarden.adapters.storage.files import checkpoint_of
        from streamwarden.sources.delta.planned_input import missing_input

        accepted = self.option("failondataloss") == "false"
        return () if accepted else missing_input(self.table(spec), checkpoint_of(spec))
