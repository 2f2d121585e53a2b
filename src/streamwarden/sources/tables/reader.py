"""The rows of a table as a job asks for them: its columns by their names, with the types that the job says."""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import ConfigError, InputGone
from streamwarden.sources.base import Reading, RowRequest
from streamwarden.sources.rows import Rules, schema_of
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True)
class TableInput:
    """A table does not say where one of its rows is, nor when it was written: Spark's streaming readers of tables have
    no such columns. So its rows have no place, and no quarantine (the rules of a stream's file refuse it)."""

    path: str
    rules: Rules

    def placing(self) -> list[Column]:
        raise ConfigError(
            "the job asks for the place of each row, which a table does not say",
            expected="read_rows without `placed`, for a stream that reads a table",
            where=self.path,
            next_step="give the table a column that orders its rows, and let the job use that",
        )

    def where(self) -> Column:
        return f.lit(f"the table {self.path}")

    def malformed_of(self, spark: SparkSession, checkpoint: Location, place: int, batch: int) -> DataFrame:
        raise InputGone(
            "the malformed rows of a table are not read again",
            expected="a source of files or a topic",
            where=self.path,
            next_step="correct the rows in the table",
        )


def read(frame: DataFrame, spec: StreamSpec, request: RowRequest) -> Reading:
    """The columns of a streaming table that the job asks for. Raises ConfigError for those that it does not have."""
    path = str(spec.source.path)
    if request.part is not None or request.not_after:
        asked = "part" if request.part is not None else "not_after"
        raise ConfigError(
            f"the job calls read_rows with `{asked}`, which a table has no answer to",
            expected="read_rows with `required` alone: a table has no parts, and does not say when a row was written",
            where=spec.job,
            next_step=f"leave `{asked}` out; check the times where the table is written",
        )
    wanted = schema_of(frame.sparkSession, request.schema, request.required, {}, spec.job)
    _require_columns(frame.schema, wanted, path)
    cure = "correct it in the table, or let the job require fewer columns"
    rules = Rules(schema=wanted, required=request.required, written="", holder="table", cure=cure)
    return Reading(frame.select(*(f"`{name}`" for name in wanted.names)), TableInput(path, rules))


def _require_columns(found: StructType, wanted: StructType, path: str) -> None:
    types = {field.name: field.dataType.simpleString() for field in found.fields}
    wrong = [
        f"{field.name} {field.dataType.simpleString()} (the table has {types.get(field.name, 'no such column')})"
        for field in wanted.fields
        if types.get(field.name) != field.dataType.simpleString()
    ]
    if wrong:
        raise ConfigError(
            f"the table does not have columns that the job asks for: {', '.join(wrong)}",
            expected="columns of the table, with its types",
            where=path,
            next_step="correct the schema in the job's call of read_rows, or add the columns to the table",
        )
