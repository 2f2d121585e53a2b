"""A stream's batches on their way from Spark to an Iceberg table in update mode: the function of foreachBatch.

A row replaces the row of the same key by a MERGE, whose snapshot gets the id of the query and the number of the batch,
as Spark's own sink gives them to an append. A batch that the table has already is not merged again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.errors import CheckpointError
from streamwarden.sinks.iceberg.metadata import BATCH, QUERY
from streamwarden.sinks.iceberg.spark_table import table_in
from streamwarden.sinks.iceberg.table import table_of
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PROPERTY: Final = "spark.sql.iceberg.snapshot-property."
"""Settings of a session that Iceberg writes into the properties of each snapshot."""

_ROWS: Final = "streamwarden_batch"


class MergeWriter:
    """Merges a stream's batches into its table."""

    def __init__(self, spec: StreamSpec) -> None:
        self._spec = spec
        self._table = ""

    def open(self, schema: StructType) -> None:
        """Make the table if it is not there."""
        from pyspark.sql import SparkSession

        self._table = table_in(SparkSession.active(), self._spec, schema)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch."""
        query_id = read_query_id(checkpoint_of(self._spec))
        if query_id is None:
            raise CheckpointError(
                "the checkpoint has lost its metadata while the query runs",
                where=self._spec.checkpoint,
                next_step="restore it",
            )
        frame.persist()
        try:
            # Counted although the batch may be in the table already: the state has to have it too.
            count = frame.count()
            table = table_of(self._spec)
            newest = None if table is None else table.newest_batch([query_id])
            if newest is None or newest < batch_id:
                self._merge(frame, count, {QUERY: query_id, BATCH: str(batch_id)})
        finally:
            frame.unpersist()

    def _merge(self, frame: DataFrame, count: int, properties: dict[str, str]) -> None:
        session: SparkSession = frame.sparkSession
        for name, value in properties.items():
            session.conf.set(f"{_PROPERTY}{name}", value)
        if count == 0:  # a merge of nothing makes no snapshot, and each batch has one
            frame.writeTo(self._table).append()
            return
        frame.createOrReplaceTempView(_ROWS)
        session.sql(merge_statement(self._table, _ROWS, self._spec.sink.key))


def merge_statement(table: str, rows: str, key: tuple[str, ...]) -> str:
    """The MERGE of `rows` into `table`. A null in the key equals a null."""
    quoted = [f"`{column.replace('`', '``')}`" for column in key]
    same = " AND ".join(f"kept.{column} <=> new.{column}" for column in quoted)
    return (
        f"MERGE INTO {table} AS kept USING {rows} AS new ON {same}"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
