"""The text of a job whose rows have a value of each type, for sinks that must keep them all: one row a key.

`build` has them in `typed`; a test adds what else it wants, and the `return`.
"""

EVERY_TYPE = """
from pyspark.sql import functions as F

from streamwarden.spark.sources import read_rows


def build(spark, spec):
    events = read_rows(spark, spec, "id BIGINT, key INT, at TIMESTAMP, note STRING", required=["at"])
    latest = events.groupBy("key").agg(F.count("*").alias("n"), F.max("at").alias("at"), F.max("id").alias("id"))
    typed = latest.select(
        "key",
        "n",
        "at",
        F.expr("to_timestamp_ntz('1582-10-15 01:02:03.000004')").alias("wall"),
        F.expr("date'0001-01-01'").alias("day"),
        F.expr("cast(n as decimal(38, 2)) / 4").cast("decimal(20,5)").alias("quarter"),
        F.array("at").alias("times"),
        F.array(F.lit(1.5), F.lit(float("nan")), F.lit(None).cast("double")).alias("numbers"),
        F.struct("id", "at", F.lit(None).cast("string").alias("none")).alias("of"),
        F.create_map(F.lit("ключ"), F.array("id")).alias("by name"),
        F.expr("x'00ff'").alias("raw"),
    )
"""
