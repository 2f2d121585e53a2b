"""Reads whole state stores: every column family, as the bytes that Spark keeps.

Needs the option `_readAllColumnFamilies` of Spark's `statestore`, which gives the columns `partition_key`, `key_bytes`,
`value_bytes` and `column_family_name`, one task for each partition of the state. Spark's own rewriter reads through it.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def whole_store(session: SparkSession, checkpoint: str, batch: int, operator: int, store: str) -> DataFrame:
    """The rows of a store after a batch, with the number of their `partition`."""
    reader = session.read.format("statestore").option("_readAllColumnFamilies", "true")
    options = {"batchId": str(batch), "operatorId": str(operator), "storeName": store}
    return reader.options(**options).load(checkpoint).withColumn("partition", f.spark_partition_id())
