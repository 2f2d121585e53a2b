"""Usable rows of an input, and the problems of the others: as columns of Spark, for any kind of source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from datetime import timedelta
from functools import reduce
from operator import and_, or_
from typing import Final, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

from streamwarden.errors import ConfigError

CORRUPT: Final = "_corrupt_record"
LONGEST: Final = 2**20
"""Bytes of the longest text in a good row: a huge one is a burden to every state and every output that it goes into."""

_MALFORMED: Final = "_malformed"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules for a good row.

    Args:
        schema: of the rows; with the column CORRUPT, if the reader gives the text of what it could not parse there.
        required: columns that a row must have a value in.
        not_after: TIMESTAMP column -> how far it may lie beyond the time at which the row was written.
        written: the TIMESTAMP column of the frame that says when a row was written.
        holder: what that is the time of, in words: `file`, `record`.
        cure: what to do about another row, where there is no quarantine.
    """

    schema: StructType
    required: tuple[str, ...] = ()
    not_after: Mapping[str, timedelta] = attribute(default_factory=dict)
    written: str
    holder: str
    cure: str = "declare a `quarantine` in the stream's file to keep such rows aside"

    @property
    def corruptible(self) -> bool:
        return CORRUPT in self.schema.names

    @property
    def columns(self) -> list[str]:
        """Those of the good rows."""
        return [name for name in self.schema.names if name != CORRUPT]

    @property
    def any(self) -> bool:
        """Whether there is a row that would not be good."""
        return bool(self.corruptible or self.required or self.not_after or self.texts)

    @property
    def texts(self) -> list[str]:
        """The columns of type STRING."""
        fields = self.schema.fields
        return [field.name for field in fields if field.name != CORRUPT and isinstance(field.dataType, StringType)]


def schema_of(
    spark: SparkSession,
    schema: StructType | str,
    required: Sequence[str],
    not_after: Mapping[str, timedelta],
    job: str,
) -> StructType:
    """`schema` as a StructType. Raises ConfigError for columns of the other two that it does not have."""
    fields = _of_ddl(spark, schema) if isinstance(schema, str) else schema
    for argument, named in (("required", required), ("not_after", not_after)):
        unknown = [column for column in named if column not in fields.names]
        if unknown:
            raise ConfigError(
                f"{argument} columns that the schema lacks: {', '.join(unknown)}",
                expected=f"some of {', '.join(fields.names)}",
                where=job,
                next_step=f"correct `{argument}` in the job's call of read_rows",
            )
    return fields


def _of_ddl(spark: SparkSession, schema: str) -> StructType:
    """Before 4.0 PySpark has no parser of its own, and an empty frame costs a fraction of a second."""
    if hasattr(StructType, "fromDDL"):
        return cast(StructType, StructType.fromDDL(schema))
    return spark.createDataFrame([], schema).schema


def with_corrupt(schema: StructType) -> StructType:
    """`schema` and the column for the text that cannot be parsed."""
    return StructType([*schema.fields, StructField(CORRUPT, StringType())])


def good(frame: DataFrame, rules: Rules, *, name: str, place: Sequence[Column]) -> DataFrame:
    """The good rows of a streaming frame, and `place`; all are counted in the observed metric `name`."""
    malformed = f.col(_MALFORMED)
    columns = [f.col(f"`{column}`") for column in rules.schema.names]
    empty = reduce(and_, [f.col(f"`{column}`").isNull() for column in rules.columns])
    counted = frame.select(*columns, malformed_column(rules).alias(_MALFORMED), *place).observe(
        name,
        f.count(f.lit(1)).alias("read"),
        f.count(f.when(malformed, 1)).alias("malformed"),
        # Rows without any known field, a sign of a renamed schema. It also makes every column needed: a wrong value in
        # one that the job does not use makes the row malformed here as it does in the quarantine, not only there.
        f.count(f.when(empty & ~malformed, 1)).alias("empty"),
    )
    return counted.where(~malformed).drop(CORRUPT, _MALFORMED)


def failing(frame: DataFrame, rules: Rules, where: Column) -> DataFrame:
    """For a stream without a quarantine: a row that the schema alone cannot refuse ends the query.

    Args:
        where: where a row is, in words.
    """
    if not rules.any:
        return frame
    wrong = f.concat_ws("; ", unusable(rules), *_unparsed(rules))
    message = f.concat(
        f.lit("a row "),
        wrong,
        f.lit(" in "),
        where,
        f.lit(f"; {rules.cure}"),
    )
    complete = f.when(malformed_column(rules), f.raise_error(message).cast("boolean")).otherwise(f.lit(True))
    return frame.where(complete)


def _unparsed(rules: Rules) -> list[Column]:
    if not rules.corruptible:
        return []
    return [f.when(f.col(CORRUPT).isNotNull(), f.lit("that does not fit the schema"))]


def malformed_column(rules: Rules) -> Column:
    """Whether a row is not good; never null."""
    lacking = [f.col(f"`{column}`").isNull() for column in rules.required]
    corrupt = [f.col(CORRUPT).isNotNull()] if rules.corruptible else []
    ahead = [f.coalesce(_ahead(rules, column), f.lit(False)) for column in rules.not_after]
    huge = [f.coalesce(_huge(column), f.lit(False)) for column in rules.texts]
    return reduce(or_, [*corrupt, *lacking, *ahead, *huge], f.lit(False))


def _huge(column: str) -> Column:
    return f.octet_length(f"`{column}`") > LONGEST  # which Spark knows without counting


def _ahead(rules: Rules, column: str) -> Column:
    """Whether `column` lies too far beyond the time at which the row was written; null if it is null."""
    return f.col(f"`{column}`") > f.col(rules.written) + f.lit(rules.not_after[column])


def parsed(rules: Rules) -> Column:
    """The values that could be read from a row, as JSON."""
    fields = [f.col(f"`{name}`") for name in rules.columns]
    return f.to_json(f.struct(*fields))  # all columns, so that none is pruned and left unparsed


def unusable(rules: Rules) -> Column:
    """`lacks origin, carrier; has event_time ahead of its file: …`: what is wrong with a row that fits the schema."""
    null = [f.when(f.col(f"`{column}`").isNull(), f.lit(column)) for column in rules.required]
    lacking = f.concat_ws(", ", *null)
    faults = [f.when(lacking != "", f.concat(f.lit("lacks "), lacking))]
    for column in rules.not_after:
        text = f.concat(f.lit(f"has {column} ahead of its {rules.holder}: "), f.col(f"`{column}`").cast("string"))
        faults.append(f.when(_ahead(rules, column), text))
    for column in rules.texts:
        size = f.octet_length(f"`{column}`").cast("string")
        text = f.concat(f.lit(f"has {column} of "), size, f.lit(f" bytes, more than {LONGEST}"))
        faults.append(f.when(_huge(column), text))
    return f.concat_ws("; ", *faults)


def reason(rules: Rules, *, json: bool, unparsed: Column) -> Column:
    """Why a row is not good, from the columns `raw` (the text that does not parse, or null) and `unusable`.

    Args:
        unparsed: whether the row does not parse.
    """
    parses = f.when(~unparsed, f.col("unusable"))
    misfit = f.lit("does not fit the schema")
    if not json:
        return parses.otherwise(misfit)
    values = f.from_json(f.col("raw"), "map<string,string>")
    wrong = []
    for field in rules.schema.fields:
        if field.name == CORRUPT or isinstance(field.dataType, ArrayType | MapType | StructType | StringType):
            continue
        value = values[field.name]
        tried = value.try_cast if hasattr(Column, "try_cast") else value.cast  # before 4.0 a cast gives null, too
        bad = value.isNotNull() & tried(field.dataType).isNull()
        misfits = f"{field.name} is not of type {field.dataType.simpleString()}: "
        text = f.concat(f.lit(misfits), f.substring(value, 1, 60))
        wrong.append(f.when(bad, text))
    details = f.concat_ws("; ", *wrong) if wrong else f.lit("")
    return (
        parses.when(values.isNull(), f.lit("not a JSON object"))
        .when(details == "", misfit)
        .otherwise(f.concat(misfit, f.lit(": "), details))
    )
