"""Gives keys and values of state in Spark's binary form, in which its rewriter takes them.

Needs `createDataFrame` of the JVM's session, which makes each row anew from the objects that it holds, Catalyst's
`Literal`, and `executeCollect` of a physical plan, whose rows are `UnsafeRow`s. The rewriter hands such rows to the
state store, which encodes them as the checkpoint says: as rows or as Avro.
"""

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import Row, StructField, StructType

from streamwarden.spark.internals.classic import column_of

Encoded = tuple[bytes, bytes]
"""A key and its value."""


def literal(session: SparkSession, value: Row, kind: StructType) -> Column:
    """A struct as a constant."""
    frame: Any = session.createDataFrame([(value,)], StructType([StructField("value", kind)]))
    jvm: Any = session._jvm
    literals = jvm.org.apache.spark.sql.catalyst.expressions.Literal
    return column_of(session, literals.create(frame._jdf.head().get(0), frame._jdf.schema().apply(0).dataType()))


def encoded(rows: DataFrame, fields: tuple[int, int]) -> list[Encoded]:
    """The binary form of rows with the structs `key` and `value`, which have so many fields. It is made of the objects
    in the rows: what Spark has stored of them is not passed on."""
    plain: Any = rows.select("key", "value")._jdf
    session: Any = rows.sparkSession._jsparkSession
    anew = session.createDataFrame(plain.toJavaRDD(), plain.schema())
    return [
        (bytes(row.getStruct(0, fields[0]).getBytes()), bytes(row.getStruct(1, fields[1]).getBytes()))
        for row in anew.queryExecution().executedPlan().executeCollect()
    ]
