"""Writes the batches of a stream into its Iceberg table: the function of foreachBatch.

Each batch is one append, or in update mode one MERGE, whose snapshot gets the id of the query and the number of the
batch, as Spark's own streaming sink gives them. A batch that the table has is not written again, so the table is right
whenever the driver was killed.

A driver may be paused after this look, and be replaced by another one that writes the batch. When it goes on, Iceberg
would append to the newer snapshot. An append is therefore staged under a name of the batch and then published, which
Iceberg does once for each name (write, audit, publish). Iceberg itself refuses a MERGE if the table has got new rows
since the MERGE read it. Spark's own sink looks only when it commits: it names a data file by query, batch and task, so
a batch that runs again would write over the file that the table already has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamwarden.adapters.iceberg.metadata import BATCH, QUERY, TableMetadata, staging_name
from streamwarden.adapters.iceberg.table import table_of
from streamwarden.adapters.storage.files import open_path, running_query
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.errors import BatchUnknown, TableConflict
from streamwarden.sinks.iceberg.spark_table import ensure_table, publish
from streamwarden.sinks.merging import columns_to_merge, merge_statement, require_key, settings
from streamwarden.stream.spec import OutputMode, StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PROPERTY: Final = "spark.sql.iceberg.snapshot-property."
"""Settings of a session that Iceberg writes into the properties of each snapshot."""

_STAGE_AS: Final = "spark.wap.id"
"""Setting of a session that stages its appends under this name."""

_VIEW: Final = "streamwarden_batch"


class TableWriter:
    """Takes the batches of a stream from foreachBatch into its table."""

    def __init__(self, spec: StreamSpec) -> None:
        self._spec = spec
        self._table = ""
        self._planned_before: int | None = None  # by an earlier driver, which may have written it

    def open(self, schema: StructType) -> None:
        """Make the table if it is not there. Raises JobError if the rows do not have the columns of the sink's key."""
        from pyspark.sql import SparkSession

        require_key(self._spec, schema)
        self._planned_before = log_position(open_path(self._spec.checkpoint)).planned
        self._table = ensure_table(SparkSession.active(), self._spec, schema)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch. It is computed first, although the table may have it already: the state and the watermark
        would be those of the batch before. Raises BatchUnknown if nobody can say whether the table has it."""
        frame.persist()
        try:
            self._write(frame, batch_id, empty=frame.count() == 0)
        finally:
            frame.unpersist()

    def _write(self, frame: DataFrame, batch_id: int, *, empty: bool) -> None:
        query_id, table = running_query(self._spec.checkpoint), table_of(self._spec)
        if table is not None and has_batch(table, query_id, batch_id, planned_before=self._planned_before):
            return
        session, named = frame.sparkSession, {f"{_PROPERTY}{QUERY}": query_id, f"{_PROPERTY}{BATCH}": str(batch_id)}
        if empty or self._spec.sink.mode is OutputMode.APPEND:  # a MERGE of nothing makes no snapshot
            with settings(session, {**named, _STAGE_AS: staging_name(query_id, batch_id)}):
                frame.writeTo(self._table).options(**self._spec.sink.options).append()
            self._publish(session, query_id, batch_id)
            return
        with settings(session, named):
            frame.createOrReplaceTempView(_VIEW)
            columns = columns_to_merge(session.table(self._table).columns, frame.columns)
            session.sql(merge_statement(self._table, _VIEW, self._spec.sink.key, columns))

    def _publish(self, session: SparkSession, query_id: str, batch_id: int) -> None:
        table = table_of(self._spec)
        staged = None if table is None else table.staged(query_id, batch_id)
        if staged is not None:
            publish(session, self._spec, staged)
        elif table is None or batch_id not in table.batches([query_id]):  # it is there if the table stages nothing
            raise TableConflict(
                f"the table has lost the snapshot that was staged for batch {batch_id}",
                expected="the snapshot, which only an expiry or a rollback by another program removes",
                where=str(self._spec.sink.path),
                next_step="let expire_snapshots keep the snapshots of the last hours; a new start runs the batch again",
            )


def has_batch(table: TableMetadata, query_id: str, batch: int, *, planned_before: int | None) -> bool:
    """Whether the table has a batch of the query. Pure.

    Args:
        planned_before: the newest batch that an earlier driver had planned. Only such a batch can be there already.

    Raises BatchUnknown if an earlier driver may have written the batch, and every snapshot of the query is expired.
    """
    newest = table.newest_batch([query_id])
    if newest is not None:
        return newest >= batch
    if table.is_whole or planned_before is None or batch > planned_before:
        return False
    raise BatchUnknown(
        f"no snapshot of the query {query_id} is kept, and an earlier driver may have written batch {batch}",
        expected="the snapshot of the query's newest batch, which expire_snapshots must keep",
        where=f"the table {table.document['location']}",
        next_step=f"look whether the table has the rows of batch {batch}; commit a snapshot without rows with the "
        f"properties {QUERY}={query_id} and {BATCH}={batch} if it has them, or {BATCH}={batch - 1} if it has not (see "
        "docs/how-to/iceberg.md); then start the stream",
    )
