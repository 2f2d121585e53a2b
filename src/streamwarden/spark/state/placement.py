"""Checks that each row of a store is in the partition in which a task looks for its key.

A comparison of contents does not see a row in the wrong partition: the query would not find it, and begin the key anew.
Spark sends the rows of a key to the partition `pmod(hash(key), partitions)`. An operator without a key has one
partition, the first, which that formula does not name.
"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from streamwarden.lifecycle.time_travel.answers import Placement, Question
from streamwarden.spark.internals.state.stores import whole_store


def place(spark: SparkSession, question: Question) -> Placement:
    """Count the rows of a store, and those in another partition."""
    table, partitions = question.table, f.lit(question.partitions)
    rows = whole_store(spark, question.checkpoint, question.batches[0], table.operator, str(table.variable))
    wrong = f.col("partition") != f.pmod(f.hash("partition_key"), partitions)
    counted = rows.agg(f.count("*").alias("rows"), f.count(f.when(wrong, 1)).alias("misplaced")).collect()[0]
    return Placement(rows=counted["rows"], misplaced=counted["misplaced"])
