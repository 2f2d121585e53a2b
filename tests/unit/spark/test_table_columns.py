"""What Spark's types become in PostgreSQL, without a JVM."""

from __future__ import annotations

import pytest
from pyspark.sql import types as spark

from streamwarden.errors import JobError
from streamwarden.sinks.postgresql.writer import columns_of

PLAIN = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "decimal(20,5)": "numeric(20,5)",
    "string": "text",
    "varchar(9)": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
    "variant": "jsonb",
    "array<int>": "integer[]",
    "array<timestamp>": "timestamp with time zone[]",
    "array<array<int>>": "jsonb",
    "struct<a:int,b:array<string>>": "jsonb",
    "array<struct<a:int>>": "jsonb",
    "map<string,date>": "jsonb",
}
NONE = ("interval day to second", "interval year to month", "array<interval day>", "struct<a:interval day>", "void")


def schema(*kinds: str) -> spark.StructType:
    return spark.StructType([spark.StructField(f"c{number}", parsed(kind)) for number, kind in enumerate(kinds)])


def parsed(kind: str) -> spark.DataType:
    """Spark's own parser is in the JVM: this one knows what is written above."""
    inner = kind.partition("<")[2].removesuffix(">")
    if kind.startswith("array<"):
        return spark.ArrayType(parsed(inner))
    if kind.startswith("map<"):
        return spark.MapType(*(parsed(each) for each in inner.split(",")))
    if kind.startswith("struct<"):
        fields = [each.split(":") for each in inner.split(",")]
        return spark.StructType([spark.StructField(name, parsed(of)) for name, of in fields])
    if kind == "decimal(20,5)":
        return spark.DecimalType(20, 5)
    return {
        "tinyint": spark.ByteType(),
        "smallint": spark.ShortType(),
        "int": spark.IntegerType(),
        "bigint": spark.LongType(),
        "varchar(9)": spark.VarcharType(9),
        "interval day to second": spark.DayTimeIntervalType(),
        "interval day": spark.DayTimeIntervalType(0, 0),
        "interval year to month": spark.YearMonthIntervalType(),
        "void": spark.NullType(),
        "boolean": spark.BooleanType(),
        "float": spark.FloatType(),
        "double": spark.DoubleType(),
        "string": spark.StringType(),
        "binary": spark.BinaryType(),
        "date": spark.DateType(),
        "timestamp": spark.TimestampType(),
        "timestamp_ntz": spark.TimestampNTZType(),
        "variant": spark.VariantType(),
    }[kind]


def test_every_type_that_a_table_can_have() -> None:
    found = columns_of(schema(*PLAIN), "job.py")
    assert [column.type for column, _ in found] == list(PLAIN.values())


@pytest.mark.parametrize("kind", NONE)
def test_unsupported_type_is_reported_with_its_column(kind: str) -> None:
    with pytest.raises(JobError, match="the column c1 is of the type") as caught:
        columns_of(schema("int", kind), "job.py")
    assert "timestamp_ntz" in caught.value.expected
    assert caught.value.next_step == "cast c1 in the job, or leave it out"


def test_names_with_signs_are_quoted_for_spark() -> None:
    odd = ["a`b", "{0}", "{}", "100%"]
    fields = [spark.StructField(name, spark.TimestampType()) for name in odd]
    assert [expression for _, expression in columns_of(spark.StructType(fields), "job.py")] == [
        "unix_micros(`a``b`)",
        "unix_micros(`{0}`)",
        "unix_micros(`{}`)",
        "unix_micros(`100%`)",
    ]
