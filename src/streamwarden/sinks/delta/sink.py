"""The kind of sink `delta`: a Delta table in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final

from streamwarden.adapters.delta.log import LOG, listed_at, newest_of, newest_of_others
from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.health.window import TableShape
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.launch_check import OutputEnd
from streamwarden.problems import Problem, missing_reader, show
from streamwarden.sinks.base import BatchWriter, Sink, missing_key, refused_mode, repeated
from streamwarden.sinks.output import Output, WrittenFiles
from streamwarden.stream.spec import HDFS, OutputMode, StreamSpec
from streamwarden.verification.comparing.balance import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from streamwarden.drills.tables import OtherWriter

_SET_HERE: Final = frozenset({"txnappid", "txnversion", "path", "checkpointlocation"})
"""Options, in lower case, by which Delta and Spark recognise a batch and a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSink(Sink):
    """A Delta table in the folder `path`; exactly once for every reader, because a batch's files and its number are one
    commit. It needs a Spark that Delta supports (see [Delta tables](../how-to/delta.md)).

    `mode: update` merges a batch by `key`: its rows replace those of the same key. Not `complete`.
    """

    PLACE: ClassVar[str | None] = "path"
    FORMATS: ClassVar[tuple[str, ...]] = ("delta",)
    CONNECTOR: ClassVar[str | None] = "delta"
    TABLE_OF_FILES: ClassVar[bool] = True
    LOG: ClassVar[str | None] = LOG
    FORGETFUL: ClassVar[Mapping[str, str]] = {"spark.databricks.delta.delta.log.cacheSize": "0"}

    kind: str = "delta"
    path: str = field()
    """the folder of the table; the first batch makes it if it does not exist"""
    key: tuple[str, ...] = ()
    """columns that identify a row; `mode: update` needs them, and replaces the row of the same key"""

    def problems(self) -> Iterator[Problem]:
        yield from repeated(self.key)
        if HDFS.match(self.path):
            allowed = "a folder of a disk or a URL with s3a://: delta-rs, which reads the table back, knows no HDFS"
            yield Problem(key=("sink", "path"), observed=show(self.path), allowed=allowed)
        if self.mode is OutputMode.COMPLETE:
            yield refused_mode(self.mode, "append or update: a table that each batch rewrites keeps all earlier ones")
        if self.mode is OutputMode.UPDATE and not self.key:
            yield missing_key("the columns by which a row replaces an earlier one")
        for name, value in self.options.items():
            if name.lower() in _SET_HERE:
                allowed = "nothing: the driver sets it, so that a batch is written once"
                yield Problem(key=("sink", "options", name), observed=show(value), allowed=allowed)
        yield from missing_reader("sink", self.kind, "deltalake")

    def located(self, locate: Callable[[str], str]) -> DeltaSink:
        return replace(self, path=locate(self.path))

    def batch_writer(self, spec: StreamSpec, token: int, ending: Callable[[], bool]) -> BatchWriter | None:
        from streamwarden.sinks.delta.writer import MergeWriter

        return MergeWriter(spec) if self.mode is OutputMode.UPDATE else None

    def attached(self, frame: DataFrame, spec: StreamSpec) -> DataStreamWriter:
        return frame.writeStream.format(self.kind).options(**self.options).option("path", to_hadoop(self.path))

    def end(
        self, spec: StreamSpec, queries: Sequence[str], environ: Mapping[str, str], since: float
    ) -> OutputEnd | None:
        """Of the stream's own queries; of another one only if these have not written the table yet."""
        from streamwarden.adapters.delta.table import newest_batch, opened

        table = opened(self.path, spec.storage.connection, environ=environ)
        if table is None:
            return None
        own = [batch for query in queries if (batch := newest_batch(table, query)) is not None]
        if own:
            return OutputEnd(
                batch=max(own),
                where=f"the log of {self.path}",
                consequence="Delta would skip every batch up to it, and their rows would be lost",
                give_way=f"move the table {self.path} away",
            )
        found = newest_of_others(open_path(self.path, spec.storage.connection), frozenset(queries))
        if found is None:
            return None
        consequence = f"query {found[0]} wrote them, and the stream would add the rows of its batches to them"
        return OutputEnd(batch=found[1], where=f"the log of {self.path}", consequence=consequence)

    def shape(self, spec: StreamSpec) -> TableShape | None:
        from streamwarden.sinks.delta.shape import shape_of

        return shape_of(self.path, spec.storage.connection)

    def listed_at(self, spec: StreamSpec, batch: int) -> float | None:
        root, query_id = open_path(self.path, spec.storage.connection), read_query_id(checkpoint_of(spec))
        return None if query_id is None else listed_at(root, query_id, batch)

    def newest_listed(self, spec: StreamSpec) -> int | None:
        """None in update mode, whose writer executes each batch."""
        query_id = read_query_id(checkpoint_of(spec)) if self.mode is OutputMode.APPEND else None
        return None if query_id is None else newest_of(open_path(self.path, spec.storage.connection), query_id)

    def forked(self, places: Places) -> DeltaSink:
        return replace(self, path=places.output)

    def copy(
        self, origin: StreamSpec, forked: StreamSpec, *, rewind: int, query_id: str, upto: int | None = None
    ) -> int | None:
        from streamwarden.sinks.delta import forks

        return forks.copy(origin, forked, rewind=rewind, query_id=query_id, upto=upto)

    @property
    def can_be_set_back(self) -> bool:
        """The table consists of files alone, which a crash matrix lays out."""
        return self.mode is OutputMode.APPEND

    def read(
        self, spec: StreamSpec, like: Mapping[str, object], *, committed: int | None, first: int, deduplicated: bool
    ) -> Output:
        from streamwarden.sinks.delta.output import read_table

        return read_table(spec, committed=committed, first=first)

    def written(self, spec: StreamSpec, audited: Range, began: float | None) -> WrittenFiles | None:
        """None in update mode, in which a MERGE rewrites files with rows of other batches."""
        from streamwarden.sinks.delta.written import written_files

        if self.mode is OutputMode.UPDATE:
            return None
        query_id = read_query_id(checkpoint_of(spec)) or ""
        return written_files(open_path(self.path, spec.storage.connection), query_id, audited)

    def other_writer(self, spec: StreamSpec) -> OtherWriter:
        from streamwarden.sinks.delta.other_writer import DeltaWriter

        return DeltaWriter(spec)
