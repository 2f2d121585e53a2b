"""The records that a range of batches wrote into a topic, for an audit of a stream that runs on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.connections import Connection, connection
from streamwarden.adapters.kafka.brokers import java_options, kept_offsets, reader
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.errors import VerificationError
from streamwarden.sinks.base import WRITTEN_BY
from streamwarden.sinks.json_values import JSON
from streamwarden.sinks.kafka.output import SILENCE
from streamwarden.sinks.kafka.taking_back import cuts_of
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.events import BATCH, EVENT_ID

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_CLOCKS: Final = 600.0
"""Seconds that the clock of a record's writer may be behind that of the committer of its batch."""


def topic_rows(spark: SparkSession, spec: StreamSpec, after: int, began: float | None, schema: StructType) -> DataFrame:
    """The records of batches after `after`, each once: see `Sink.rows_of`. Raises VerificationError."""
    from pyspark.sql import functions as f

    known, topic = connection(str(spec.sink.connection)), str(spec.sink.topic)
    since = None if began is None else int((began - _CLOCKS) * 1000)
    _require_kept(known, topic, since)
    records = (
        spark.read.format("kafka")
        .options(**java_options(known))
        .option("subscribe", topic)
        .option("includeHeaders", "true")
    )
    if since is not None:
        records = records.option("startingTimestamp", since).option("startingOffsetsByTimestampStrategy", "latest")
    query = read_query_id(checkpoint_of(spec)) or ""

    def header(name: str) -> Column:
        matching = f.filter("headers", lambda entry: entry["key"] == name)
        return f.try_element_at(matching, f.lit(1))["value"].cast("string")

    named = records.load().select(
        "partition", "offset", "value", header(BATCH).alias("by"), header(EVENT_ID).alias("id")
    )
    own = named.where(f.col("by").rlike(f"^{query}/[0-9]+$"))
    batch = f.substring_index("by", "/", -1).cast("bigint")
    row = f.from_json(f.col("value").cast("string"), schema, {**JSON, "mode": "FAILFAST"})
    for cut in cuts_of(spec.checkpoint):
        own = own.where(~f.expr(cut.condition))
    once = own.withColumn(WRITTEN_BY, batch).where(f.col(WRITTEN_BY) > after).dropDuplicates([WRITTEN_BY, "id"])
    return once.select(row.alias("row"), WRITTEN_BY).select("row.*", WRITTEN_BY)


def _require_kept(known: Connection, topic: str, since: int | None) -> None:
    """Raises VerificationError if the topic may have lost records that were written after `since`, Unix ms."""
    from confluent_kafka import KafkaException, TopicPartition

    consumer = reader(known, "audit")
    deadline = time.monotonic() + SILENCE
    try:
        for partition in consumer.list_topics(topic, timeout=SILENCE).topics[topic].partitions:
            oldest, _ = kept_offsets(consumer, topic, partition, deadline=deadline)
            if oldest and since is not None:
                (first,) = consumer.offsets_for_times([TopicPartition(topic, partition, since)], timeout=SILENCE)
                oldest = 0 if first.offset != oldest else oldest
            if oldest:
                raise _unread(known, topic, f"partition {partition} no longer keeps the records before {oldest}")
    except KafkaException as refused:
        raise _unread(known, topic, refused.args[0].str()) from refused
    finally:
        consumer.close()


def _unread(known: Connection, topic: str, observed: str) -> VerificationError:
    return VerificationError(
        f"the topic cannot be read: {observed}",
        expected="a topic that keeps what the audited batches wrote, and a broker that answers",
        where=f"topic {topic} (connection {known.name})",
        next_step="audit fewer batches (--batches), or let the topic keep its records for longer",
    )
