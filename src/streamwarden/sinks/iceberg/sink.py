"""The kind of sink `iceberg`: a table in the folder of a Hadoop catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from streamwarden.adapters.iceberg.table import table_of
from streamwarden.checkpoint.filesystem import Location
from streamwarden.health.window import TableShape
from streamwarden.lifecycle.exchanges.exchange import Exchange, OutputPlan
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.launch_check import OutputEnd
from streamwarden.problems import Problem, missing_reader, show
from streamwarden.sinks.base import BatchWriter, Sink, missing_key, refused_mode, repeated
from streamwarden.sinks.iceberg import forks, returning
from streamwarden.sinks.output import Output, WrittenFiles
from streamwarden.stream.spec import OBJECT_STORE, OutputMode, StreamSpec
from streamwarden.verification.comparing.balance import Range

if TYPE_CHECKING:
    from streamwarden.drills.tables import OtherWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSink(Sink):
    """An Iceberg table; exactly once for every reader, because the snapshot of a batch names its query and its batch.

    The stream's Spark must be one that Iceberg supports (see [Iceberg tables](../how-to/iceberg.md)).
    """

    PLACE: ClassVar[str | None] = "path"
    FORMATS: ClassVar[tuple[str, ...]] = ("iceberg",)
    CONNECTOR: ClassVar[str | None] = "iceberg"
    TABLE_OF_FILES: ClassVar[bool] = True

    kind: str = "iceberg"
    path: str = field()
    """the folder of the table, as a Hadoop catalog has it: WAREHOUSE/NAMESPACE/TABLE; the table is created if it does
    not exist"""
    key: tuple[str, ...] = ()
    """columns that identify a row; `mode: update` needs them, and replaces the row of the same key (MERGE)"""

    def problems(self) -> Iterator[Problem]:
        yield from repeated(self.key)
        if OBJECT_STORE.match(self.path):
            allowed = "a folder of a disk: the table commits by a rename, which an object store does not make atomic"
            yield Problem(key=("sink", "path"), observed=show(self.path), allowed=allowed)
        if self.mode is OutputMode.COMPLETE:
            yield refused_mode(self.mode, "append or update: a table that each batch rewrites was not tried")
        if self.mode is OutputMode.UPDATE and not self.key:
            yield missing_key("the columns by which a row replaces an earlier one")
        if self.mode is OutputMode.UPDATE and self.options:
            allowed = "nothing in update mode: the rows are merged, and no writer of Spark gets options"
            yield Problem(key=("sink", "options"), observed=show(self.options), allowed=allowed)
        yield from missing_reader("sink", self.kind, "pyiceberg")

    def located(self, locate: Callable[[str], str]) -> IcebergSink:
        return replace(self, path=locate(self.path).rstrip("/"))

    def batch_writer(self, spec: StreamSpec, token: int, ending: Callable[[], bool]) -> BatchWriter | None:
        from streamwarden.sinks.iceberg.writer import TableWriter

        return TableWriter(spec)

    def end(
        self, spec: StreamSpec, queries: Sequence[str], environ: Mapping[str, str], since: float
    ) -> OutputEnd | None:
        """Of the stream's own queries; of another one only if these have not written the table yet."""
        table = table_of(spec)
        if table is None:
            return None
        own, others = table.newest_batch(queries), table.newest_of_others(queries)
        if own is not None:
            return OutputEnd(
                batch=own,
                where=f"the table {self.path}",
                consequence="Iceberg would skip these batches of the same query, and their rows would be lost; another "
                "query would write their rows a second time",
                give_way="move the table away, or roll it back to a snapshot before these batches",
            )
        if others is None:
            return None
        query, batch = others
        return OutputEnd(
            batch=batch,
            where=f"the table {self.path}",
            consequence=f"query {query} wrote them, and the stream would add the rows of its batches to them",
        )

    def shape(self, spec: StreamSpec) -> TableShape | None:
        from streamwarden.sinks.iceberg.shape import shape_of

        return shape_of(spec)

    def forked(self, places: Places) -> IcebergSink:
        return replace(self, path=places.output)

    def make_empty(self, origin: StreamSpec, forked: StreamSpec) -> None:
        forks.make_empty(origin, forked)

    def copy(
        self, origin: StreamSpec, forked: StreamSpec, *, rewind: int, query_id: str, upto: int | None = None
    ) -> int | None:
        return forks.copy(origin, forked, rewind=rewind, query_id=query_id, upto=upto)

    def plan_restore(self, spec: StreamSpec, restore: Exchange, manifest: Location) -> OutputPlan:
        return returning.plan_rollback(spec, restore)

    def restore_output(self, spec: StreamSpec, restore: Exchange, plan: bytes) -> str:
        return returning.roll_back(spec, restore)

    @property
    def can_be_set_back(self) -> bool:
        """The table consists of files alone, which a crash matrix lays out."""
        return self.mode is OutputMode.APPEND

    def read(
        self, spec: StreamSpec, like: Mapping[str, object], *, committed: int | None, first: int, deduplicated: bool
    ) -> Output:
        from streamwarden.sinks.iceberg.output import read_table

        return read_table(spec, committed=committed, first=first)

    def written(self, spec: StreamSpec, audited: Range, began: float | None) -> WrittenFiles | None:
        """None in update mode, in which a MERGE rewrites files with rows of other batches."""
        from streamwarden.sinks.iceberg.written import written_files

        return written_files(spec, audited) if self.mode is OutputMode.APPEND else None

    def other_writer(self, spec: StreamSpec) -> OtherWriter:
        from streamwarden.sinks.iceberg.other_writer import IcebergWriter

        return IcebergWriter(spec)
