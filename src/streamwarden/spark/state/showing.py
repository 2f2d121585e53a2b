"""State after one batch, and one key after each batch. What does not fit into memory Spark sorts on its disk."""

from typing import Final

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

from streamwarden.lifecycle.time_travel.answers import Entry, History, Moment, Question, Share, Shown
from streamwarden.spark.state.entries import Keyed, entries, entry_of, key_of, keyed

_LARGEST: Final = 5
"""Keys that are named."""


def show(spark: SparkSession, question: Question) -> Shown:
    """The rows, the partitions, and the largest keys."""
    found = _at(spark, question, question.batches[0])
    partitions = [
        Share(partition=row["partition"], rows=row["rows"], bytes=row["bytes"])
        for row in found.frame.groupBy("partition").agg(*_totals()).orderBy(f.desc("rows"), "partition").collect()
    ]
    return Shown(
        fields=found.fields,
        rows=sum(share.rows for share in partitions),
        entries=_first(found, question.limit),
        partitions=tuple(partitions),
        largest=() if question.keys else _largest(found),
    )


def history(spark: SparkSession, question: Question) -> History:
    """The rows of the asked keys after each batch."""
    fields: tuple[str, ...] = ()
    moments = []
    for batch in question.batches:
        found = _at(spark, question, batch)
        first = _first(found, question.limit + 1)
        rows = len(first) if len(first) <= question.limit else found.frame.count()
        fields = found.fields
        moments.append(Moment(batch=batch, rows=rows, entries=first[: question.limit]))
    return History(fields=fields, moments=tuple(moments))


def _totals() -> list[Column]:
    return [f.count("*").alias("rows"), f.sum("size").alias("bytes")]


def _at(spark: SparkSession, question: Question, batch: int) -> Keyed:
    return keyed(entries(spark, question.checkpoint, question.table, batch), question.table, question.keys)


def _first(found: Keyed, limit: int) -> tuple[Entry, ...]:
    return tuple(entry_of(row, found.fields) for row in found.frame.limit(limit).collect())


def _largest(found: Keyed) -> tuple[Share, ...]:
    if not (found.sized or found.several):
        return ()
    by_key = found.frame.groupBy(*found.keys).agg(*_totals()).orderBy(f.desc("bytes"), f.desc("rows"), *found.keys)
    return tuple(
        Share(key=key_of(row, found.fields), rows=row["rows"], bytes=row["bytes"])
        for row in by_key.limit(_LARGEST).collect()
    )
