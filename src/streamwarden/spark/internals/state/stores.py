"""Whole state stores: read with every column family, as the bytes that Spark keeps, and repartitioned.

Needs the option `_readAllColumnFamilies` of Spark's `statestore`, which gives the columns `partition_key`, `key_bytes`,
`value_bytes` and `column_family_name`, one task for each partition of the state, and `_streamingCheckpointManager` of
the session. Spark's own rewriter reads through that option.
"""

from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as f


def state_reader(session: SparkSession) -> DataFrameReader:
    """Spark's reader of state. Before 4.3 its tasks look for the coordinator of the state stores, which a session
    starts together with its manager of queries, and fail in a session that has none."""
    _ = session.streams
    return session.read.format("statestore")


def whole_store(session: SparkSession, checkpoint: str, batch: int, operator: int, store: str) -> DataFrame:
    """The rows of a store after a batch, with the number of their `partition`."""
    reader = state_reader(session).option("_readAllColumnFamilies", "true")
    options = {"batchId": str(batch), "operatorId": str(operator), "storeName": store}
    return reader.options(**options).load(checkpoint).withColumn("partition", f.spark_partition_id())


def repartition(session: Any, checkpoint: str, partitions: int) -> None:
    """Add a batch to the checkpoint of a stopped query, with the state of the newest committed one in this many
    partitions. What fails leaves the checkpoint with a batch that is planned and not committed."""
    session._streamingCheckpointManager.repartition(checkpoint, partitions)
