"""The rows that a range of batches wrote into a table, for an audit of a stream that runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.errors import VerificationError
from streamwarden.sinks.base import WRITTEN_BY
from streamwarden.sinks.iceberg.table import table_of
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SNAPSHOT: Final = "__snapshot"
_COLUMNS: Final = f"{_SNAPSHOT} BIGINT, {WRITTEN_BY} BIGINT"


def table_rows(spark: SparkSession, spec: StreamSpec, after: int, schema: StructType) -> DataFrame:
    """The rows of batches after `after`: see `Sink.rows_of`. Raises VerificationError if the snapshot of a batch was
    expired, which would leave its rows out."""
    from pyspark.sql.functions import broadcast, col

    query = read_query_id(checkpoint_of(spec)) or ""
    table = table_of(spec)
    batches = {} if table is None else table.batches([query])
    wanted = {batch: snapshot.id for batch, snapshot in batches.items() if batch > after}
    if missing := [batch for batch in range(after + 1, max(wanted, default=after)) if batch not in wanted]:
        raise VerificationError(
            f"the table has no snapshot of batch {missing[0]}",
            expected="the snapshot of each audited batch, not expired",
            where=str(spec.sink.path),
            next_step="audit the newest batches alone, and keep the snapshots for longer",
        )
    path = to_hadoop(str(spec.sink.path))
    numbers = spark.createDataFrame([(number, batch) for batch, number in wanted.items()], _COLUMNS)
    entries = spark.read.format("iceberg").load(f"{path}#entries").where("status < 2")  # 2: a file that was removed
    files = entries.select(col("snapshot_id").alias(_SNAPSHOT), col("data_file.file_path").alias("_file"))
    of_batches = files.join(numbers, _SNAPSHOT).drop(_SNAPSHOT)
    rows = spark.read.format("iceberg").load(path).select(*(f"`{name}`" for name in schema.names), "_file")
    return rows.join(broadcast(of_batches), "_file").drop("_file")
