"""Reads a stream's source, and counts and quarantines the rows that cannot be used.

A job calls `read_rows` and gets the good rows of what its stream's file declares: a folder of files, or a topic. The
malformed ones (they do not fit the schema, lack a column that the job requires, hold a text that is too long, or hold
a time later than that of their writing) are counted inside the query (`observedMetrics` of its progress,
under `input`); `quarantine` keeps them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from streamwarden.errors import ConfigError
from streamwarden.progress import INPUT_METRIC
from streamwarden.sources import KINDS
from streamwarden.sources.base import BatchInput, GeneratedSource, RowRequest, StoredSource
from streamwarden.sources.rows import Rules, failing, good
from streamwarden.stream.spec import StreamSpec

__all__ = ["read_rate", "read_rows"]


_registered: dict[str, dict[int, BatchInput]] = {}


def registered(stream: str) -> Mapping[int, BatchInput]:
    """The inputs of the job of `stream`, by the source's place in the query.

    Empty if nothing of it can be malformed, or the job reads without `read_rows`.
    """
    return _registered.get(stream, {})


def metric(place: int) -> str:
    """Name of the observed metric of the source at `place`: of a query's metrics no two have one name."""
    return INPUT_METRIC if place == 0 else f"{INPUT_METRIC}_{place}"


def read_rows(
    spark: SparkSession,
    spec: StreamSpec,
    schema: StructType | str,
    *,
    required: Sequence[str] = (),
    not_after: Mapping[str, timedelta] | None = None,
    placed: bool = False,
    part: str | None = None,
) -> DataFrame:
    """A streaming DataFrame of the well-formed rows of the stream's source: of its files, or of its topic's records.

    Rows that do not fit `schema`, are null in a `required` column, hold a STRING of more than LONGEST bytes, or lie
    too far ahead in a `not_after` column are counted and go to the stream's quarantine. A stream without a quarantine
    fails on the first such row instead: nothing is dropped silently. In formats with their own schema
    (parquet, orc) only what these columns hold can be wrong.

    Args:
        schema: of the source, as a StructType or as DDL (`id BIGINT, at TIMESTAMP`).
        required: columns that a row must have a value in: its keys, its event time.
        not_after: TIMESTAMP column -> how far it may lie beyond the time at which the row was written, for clocks
            differ: the modification of its file, the timestamp of its record. For the column of the watermark: one row
            of the year 2100 would make every other row late until then. That time is the bound, not the batch's: a
            batch that runs again must come to the same rows.
        placed: add the columns `written_ms` (Unix ms) and `place`, for a job to which the order of rows matters. Of
            files, `place` is the name: a group's rows of one file stay in their order, unless a shuffle spills; those
            of two files do not. Of a topic it is partition and offset, and sorts as these do.
        part: which of the stream's `source.parts` to read; needed where it has some.

    Raises:
        ConfigError: the stream's source is neither a folder nor a topic, its connection is not known, one of these
            columns is not in the schema, or `part` is not one of the source's.
    """
    source = spec.source
    if not isinstance(source, StoredSource):
        raise ConfigError(
            f"a source of kind {source.kind} has no rows of a schema",
            expected=f"source: {', or '.join(_shown())}",
            where=spec.file or spec.name,
            next_step="declare it in the stream's file",
        )
    request = RowRequest(schema=schema, required=tuple(required), not_after=not_after or {}, part=part)
    reading = source.read(spark, spec, request)
    frame, known, rules = reading.frame, reading.input, reading.input.rules
    columns = known.placing() if placed else []
    if spec.quarantine is None:
        return failing(frame, rules, known.where()).select(*_good_columns(rules), *columns)
    if not rules.any:
        return frame.select(*_good_columns(rules), *columns)
    _registered.setdefault(spec.name, {})[reading.place] = known
    return good(frame, rules, name=metric(reading.place), place=columns)


def _shown() -> Iterator[str]:
    """The kinds of source with rows of a schema, each with its required keys."""
    for name, kind in KINDS.items():
        if issubclass(kind, StoredSource):
            keys = (key.name for key in fields(kind) if key.default is MISSING and key.default_factory is MISSING)
            yield f"{{kind: {name}, {', '.join(f'{key}: …' for key in keys)}}}"


def read_rate(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    """The rows (`timestamp`, `value`) of Spark's rate source, as the stream's `source` declares it.

    Raises ConfigError if the stream's source is of another kind.
    """
    if not isinstance(spec.source, GeneratedSource):
        raise ConfigError(
            f"a source of kind {spec.source.kind}",
            expected="source: {kind: rate, options: {rowsPerSecond: …}}",
            where=spec.file or spec.name,
            next_step="declare it in the stream's file",
        )
    return spec.source.generate(spark)


def _good_columns(rules: Rules) -> list[Column]:
    return [f.col(f"`{name}`") for name in rules.columns]
