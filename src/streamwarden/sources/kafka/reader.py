"""The records of a stream's topic as rows, and the malformed records of a batch.

The values are JSON objects. Spark's own connector reads them; its jars come from `streamwarden prepare --kafka`, or
from the stream's `spark.jars` or `spark.jars.packages`.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from streamwarden.adapters.connections import connection
from streamwarden.adapters.kafka.brokers import java_options
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import require_range
from streamwarden.checkpoint.topics import topic_ranges
from streamwarden.errors import CheckpointError
from streamwarden.sources.base import Reading, RowRequest
from streamwarden.sources.rows import (
    CORRUPT,
    Rules,
    malformed_column,
    parsed,
    reason,
    schema_of,
    unusable,
    with_corrupt,
)
from streamwarden.stream.spec import StreamSpec

JSON_OPTIONS: Final = frozenset(
    {
        "allowbackslashescapinganycharacter",
        "allowcomments",
        "allownonnumericnumbers",
        "allownumericleadingzeros",
        "allowsinglequotes",
        "allowunquotedcontrolchars",
        "allowunquotedfieldnames",
        "dateformat",
        "locale",
        "prefersdecimal",
        "primitivesasstring",
        "timestampformat",
        "timestampntzformat",
        "timezone",
    }
)
"""Of the source's options, those that are for Spark's JSON parser; all others are for the connector."""

_ON_LOSS: Final = "failondataloss"
"""The option with which a query continues without lost records: its batches are also read again without them."""


@dataclass(frozen=True)
class TopicInput:
    """How to read a batch's records again, exactly as the query reads them. Its repr shows no secret."""

    topic: str
    rules: Rules
    parsing: Mapping[str, str]
    access: Mapping[str, str] = field(repr=False)

    def placing(self) -> list[Column]:
        """When a record was written, and its partition and offset, which sort as text."""
        place = f.format_string("%05d-%020d", "_record.partition", "_record.offset")
        return [f.unix_millis("_record.timestamp").alias("written_ms"), place.alias("place")]

    def where(self) -> Column:
        """Where a record is, in words."""
        record = f.format_string("record %d of partition %d", "_record.offset", "_record.partition")
        return f.concat(record, f.lit(f" of topic {self.topic}"))

    def rows(self, records: DataFrame) -> DataFrame:
        """Records of the connector as rows: the parsed columns, and `_record`, where each came from."""
        text = f.col("value").cast("string")
        options = {**self.parsing, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        row = f.from_json(text, self.rules.schema, options)
        # Of an array the parser would take the first object; of a record without a value it makes no row at all.
        whole = f.coalesce(text.rlike(r"^\s*\{"), f.lit(False)) & row.isNotNull()
        corrupt = f.when(whole, row[CORRUPT]).otherwise(f.coalesce(text, f.lit("")))
        record = f.struct("topic", "partition", "offset", "timestamp", text.alias("text"))
        columns = [row[name].alias(name) for name in self.rules.columns]
        return records.select(*columns, corrupt.alias(CORRUPT), record.alias("_record"))

    def malformed_of(self, spark: SparkSession, checkpoint: Location, place: int, batch: int) -> DataFrame:
        """See `BatchInput`."""
        ranges_of = topic_ranges(checkpoint, place)
        if batch not in ranges_of:
            require_range(checkpoint, batch)
            raise CheckpointError(
                f"offsets/{batch} or the one before it names no offsets of a topic",
                expected="where each batch ends in each partition, as Spark writes it",
                where=checkpoint.path,
                next_step="run `streamwarden inspect` on the checkpoint: it says what Spark will do about it",
            )
        ranges = ranges_of[batch]
        starts: dict[str, dict[str, int]] = defaultdict(dict)
        ends: dict[str, dict[str, int]] = defaultdict(dict)
        for offsets in ranges:
            starts[offsets.topic][str(offsets.partition)] = offsets.start
            ends[offsets.topic][str(offsets.partition)] = offsets.end
        if not ranges:
            columns = "raw STRING, topic STRING, partition INT, offset BIGINT, reason STRING, parsed STRING"
            return spark.createDataFrame([], columns)
        records = (
            spark.read.format("kafka")
            .options(**self.access)
            .option("assign", json.dumps({topic: [int(part) for part in parts] for topic, parts in starts.items()}))
            .option("startingOffsets", json.dumps(starts))
            .option("endingOffsets", json.dumps(ends))
            .load()
        )
        return (
            self.rows(records)
            .where(malformed_column(self.rules))
            .select(
                f.col("_record.text").alias("raw"),
                "_record.topic",
                "_record.partition",
                "_record.offset",
                unusable(self.rules).alias("unusable"),
                parsed(self.rules).alias("parsed"),
                f.col(CORRUPT).isNotNull().alias("unparsed"),
            )
            .select(
                "raw",
                "topic",
                "partition",
                "offset",
                reason(self.rules, json=True, unparsed=f.col("unparsed")).alias("reason"),
                "parsed",
            )
        )


def read(spark: SparkSession, spec: StreamSpec, request: RowRequest) -> Reading:
    """The records of the stream's topic as rows. Raises ConfigError."""
    source, topic = spec.source, str(spec.source.topic)
    parsing = {key: value for key, value in source.options.items() if key.lower() in JSON_OPTIONS}
    own = {key: value for key, value in source.options.items() if key.lower() not in JSON_OPTIONS}
    access = java_options(connection(str(source.connection)))
    rules = Rules(
        schema=with_corrupt(schema_of(spark, request.schema, request.required, request.not_after, spec.job)),
        required=request.required,
        not_after=request.not_after,
        written="_record.timestamp",
        holder="record",
    )
    kept = {key: value for key, value in own.items() if key.lower() == _ON_LOSS}
    topic_input = TopicInput(topic, rules, parsing, access | kept)
    reader = spark.readStream.format("kafka").options(**access).option("subscribe", topic)
    # A new query reads what is there already; Spark's own default would skip it without a message.
    reader = reader.option("startingOffsets", "earliest").options(**own)
    if source.limit is not None:
        reader = reader.option("maxOffsetsPerTrigger", source.limit)
    return Reading(topic_input.rows(reader.load()), topic_input)
