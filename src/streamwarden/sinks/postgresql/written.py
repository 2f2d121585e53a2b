"""The rows that a range of batches wrote into a table, for an audit of a stream that runs on."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from streamwarden.adapters.postgresql.access import access
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.errors import VerificationError
from streamwarden.sinks.base import WRITTEN_BY
from streamwarden.sinks.postgresql.table import BATCH, Table, find_schema, split
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def table_rows(spark: SparkSession, spec: StreamSpec, after: int, schema: StructType) -> DataFrame:
    """The rows of batches after `after`: see `Sink.rows_of`. The database writes them as JSON, which goes to a file of
    this process piece by piece. Raises VerificationError."""
    from pyspark.sql.types import LongType, StructField, StructType

    sink = spec.sink
    assert sink.connection is not None  # the stream's file was checked
    assert sink.table is not None
    file = Path(tempfile.mkdtemp(prefix="streamwarden-table-")) / "rows.json"
    place, name = split(sink.table)
    try:
        with access(sink.connection).open(f"audit {spec.name}") as session, session.cursor() as cursor:
            table = Table(schema=find_schema(cursor, place), name=name, oids=())
            with cursor.copy(_statement(table, after, schema)) as copy, file.open("w", encoding="utf-8") as lines:
                for (row,) in copy.rows():
                    lines.write(f"{row}\n")
    except psycopg.Error as error:
        raise VerificationError(
            f"the table cannot be read: {' '.join(str(error).split())}",
            expected="a table with the columns of the job's rows, and a database that answers",
            where=f"{sink.table} (connection {sink.connection})",
            next_step="check that the database runs and that the table is the stream's, and run the audit again",
        ) from error
    columns = StructType([*schema.fields, StructField(WRITTEN_BY, LongType())])
    return spark.read.schema(columns).option("mode", "FAILFAST").json(to_hadoop(str(file)))


def _statement(table: Table, after: int, schema: StructType) -> sql.Composed:
    """Each row as a JSON object; a binary value in base64, as Spark reads it."""
    from pyspark.sql.types import BinaryType

    columns = [
        sql.SQL("translate(encode({0}, 'base64'), E'\\n', '') AS {0}").format(sql.Identifier(field.name))
        if isinstance(field.dataType, BinaryType)
        else sql.Identifier(field.name)
        for field in schema.fields
    ]
    return sql.SQL(
        "COPY (SELECT row_to_json(r) FROM (SELECT {columns}, {batch} AS {name} FROM {table} WHERE {batch} > {after}) r)"
        " TO STDOUT"
    ).format(
        columns=sql.SQL(", ").join(columns),
        batch=sql.Identifier(BATCH),
        name=sql.Identifier(WRITTEN_BY),
        table=table.identifier,
        after=sql.Literal(after),
    )
