"""Writes the batches of a stream in update mode into its Delta table: the function of foreachBatch.

Each batch is one MERGE, which commits its rows together with the id of the query and the number of the batch. Delta
skips a batch that it has, so the table is right whenever the driver was killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.delta.log import versions
from streamwarden.adapters.storage.files import open_path, running_query
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.errors import JobError
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
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
        lacking = [name for name in self._spec.sink.key if name not in schema.fieldNames()]
        if lacking:
            raise JobError(
                f"the rows have no column {', '.join(lacking)}",
                expected=f"the columns of sink.key among {', '.join(schema.fieldNames())}",
                where=self._spec.job,
                next_step="correct `sink.key`, or add the column in the job",
            )

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
        with _as_batch(frame.sparkSession, query_id, batch_id):
            frame.sparkSession.sql(merge_statement(to_hadoop(path), self._spec.sink.key))


def merge_statement(path: str, key: tuple[str, ...]) -> str:
    """The MERGE of the batch's view into the table in the folder `path`: a row replaces the one of the same key."""
    same = " AND ".join(f"t.{_quoted(name)} <=> b.{_quoted(name)}" for name in key)
    return (
        f"MERGE INTO delta.{_quoted(path)} t USING {_VIEW} b ON {same} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


@contextmanager
def _as_batch(session: SparkSession, query_id: str, batch: int) -> Iterator[None]:
    """Let Delta commit what the session writes as this batch, once. The session is the query's own."""
    session.conf.set(_APP, query_id)
    session.conf.set(_BATCH, str(batch))
    try:
        yield
    finally:
        session.conf.unset(_APP)
        session.conf.unset(_BATCH)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
