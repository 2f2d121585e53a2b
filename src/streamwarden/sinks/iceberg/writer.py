"""Writes the batches of a stream into its Iceberg table: the function of foreachBatch.

Each batch is one append, or in update mode one MERGE, whose snapshot gets the id of the query and the number of the
batch, as Spark's own streaming sink gives them. A batch that the table has is not written again, so the table is right
whenever the driver was killed. Spark's own sink looks only when it commits: it names a data file by query, batch and
task, so a batch that runs again would write over the file that the table already has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamwarden.adapters.iceberg.metadata import BATCH, QUERY
from streamwarden.adapters.iceberg.table import table_of
from streamwarden.adapters.storage.files import running_query
from streamwarden.sinks.iceberg.spark_table import ensure_table
from streamwarden.sinks.merging import merge_statement, require_key, settings
from streamwarden.stream.spec import OutputMode, StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_PROPERTY: Final = "spark.sql.iceberg.snapshot-property."
"""Settings of a session that Iceberg writes into the properties of each snapshot."""

_VIEW: Final = "streamwarden_batch"


class TableWriter:
    """Takes the batches of a stream from foreachBatch into its table."""

    def __init__(self, spec: StreamSpec) -> None:
        self._spec = spec
        self._table = ""

    def open(self, schema: StructType) -> None:
        """Make the table if it is not there. Raises JobError if the rows do not have the columns of the sink's key."""
        from pyspark.sql import SparkSession

        require_key(self._spec, schema)
        self._table = ensure_table(SparkSession.active(), self._spec, schema)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch. It is computed first, although the table may have it already: the state and the watermark
        would be those of the batch before."""
        frame.persist()
        try:
            self._write(frame, batch_id, empty=frame.count() == 0)
        finally:
            frame.unpersist()

    def _write(self, frame: DataFrame, batch_id: int, *, empty: bool) -> None:
        query_id, table = running_query(self._spec.checkpoint), table_of(self._spec)
        newest = None if table is None else table.newest_batch([query_id])
        if newest is not None and newest >= batch_id:
            return
        session = frame.sparkSession
        with settings(session, {f"{_PROPERTY}{QUERY}": query_id, f"{_PROPERTY}{BATCH}": str(batch_id)}):
            if empty or self._spec.sink.mode is OutputMode.APPEND:  # a MERGE of nothing makes no snapshot
                frame.writeTo(self._table).options(**self._spec.sink.options).append()
                return
            frame.createOrReplaceTempView(_VIEW)
            session.sql(merge_statement(self._table, _VIEW, self._spec.sink.key))
