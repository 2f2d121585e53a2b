"""The data files that audited batches read of a table, named without Spark and read again by Spark's parquet reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any

from streamwarden.checkpoint.formats.uris import of_hadoop
from streamwarden.lifecycle.location import same_place
from streamwarden.sources.audited import AUDIT, AskedSource, CannotBalance, load_exactly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def batches_of(read: Mapping[str, Any] | None) -> list[tuple[str, int]]:
    """(the column AUDIT, batch) of each file: Spark shows a local URI without an empty host."""
    files = (read or {}).get("files", ())
    return [(str(uri).replace("file:///", "file:/", 1), batch) for uri, batch, _ in files]


def read_files(asked: AskedSource, read: Mapping[str, Any] | None) -> DataFrame:
    """The rows of the files in the columns of the table, with the column AUDIT. Raises CannotBalance."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    if read is None or asked.path is None or not same_place(read["path"], of_hadoop(asked.path)):
        raise CannotBalance(f"the job reads the table {asked.path}, which its stream's file does not declare")
    asked.require_first(read["path"])
    if "refused" in read:
        raise CannotBalance(read["refused"])
    schema = StructType.fromJson(read["schema"])
    if not read["files"]:
        return asked.spark.createDataFrame([], schema).select("*", f.lit("").alias(AUDIT))
    files = sorted(read["files"], key=lambda file: sorted(map(str, file[2].items())))
    parts = [
        _of_partition(asked, schema, [uri for uri, _, _ in group], dict(values))
        for values, group in groupby(files, key=lambda file: sorted(file[2].items()))
    ]
    return reduce(lambda one, other: one.unionByName(other), parts)


def _of_partition(
    asked: AskedSource, schema: StructType, uris: Sequence[str], values: Mapping[str, str | None]
) -> DataFrame:
    """Files with the same values of the columns that are not in them."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    own = StructType([column for column in schema.fields if column.name not in values])
    frame = load_exactly(asked.spark.read.format("parquet").schema(own), uris)
    columns = [
        f.lit(values[column.name]).cast(column.dataType).alias(column.name)
        if column.name in values
        else f.col(f"`{column.name}`")
        for column in schema.fields
    ]
    return frame.select(*columns, f.col("_metadata.file_path").alias(AUDIT))
