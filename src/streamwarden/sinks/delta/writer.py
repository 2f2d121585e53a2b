"""Writes the batches of a stream in update mode into its Delta table: the function of foreachBatch.

Each batch is one MERGE, which commits its rows together with the id of the query and the number of the batch. Delta
skips a batch that it has, so the table is right whenever the driver was killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamwarden.adapters.delta.log import versions
from streamwarden.adapters.storage.files import open_path, running_query
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.sinks.merging import columns_to_merge, merge_statement, quoted, require_key, settings
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_APP: Final = "spark.databricks.delta.write.txnAppId"
_BATCH: Final = "spark.databricks.delta.write.txnVersion"
_VIEW: Final = "streamwarden_batch"


class MergeWriter:
    """Takes the batches of a stream from foreachBatch into its table, by the key of its sink."""

    def __init__(self, spec: StreamSpec) -> None:
        self._spec = spec

    def open(self, schema: StructType) -> None:
        """Raises JobError if the rows do not have the columns of the key."""
        require_key(self._spec, schema)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch. It is computed first, although Delta may have it already: Delta then reads nothing of it,
        and the state and the watermark would be those of the batch before."""
        frame.persist()
        try:
            frame.count()
            self._write(frame, batch_id)
        finally:
            frame.unpersist()

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        path, query_id = str(self._spec.sink.path), running_query(self._spec.checkpoint)
        if not versions(open_path(path, self._spec.storage.connection)):
            writer = frame.write.format("delta").mode("append").option("txnAppId", query_id)
            writer.options(**self._spec.sink.options).option("txnVersion", batch_id).save(to_hadoop(path))
            return
        frame.createOrReplaceTempView(_VIEW)
        session, table = frame.sparkSession, f"delta.{quoted(to_hadoop(path))}"
        columns = columns_to_merge(session.table(table).columns, frame.columns)
        with settings(session, {_APP: query_id, _BATCH: str(batch_id)}):
            session.sql(merge_statement(table, _VIEW, self._spec.sink.key, columns))
