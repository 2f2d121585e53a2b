"""The kind of sink `kafka`: a topic of a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from streamwarden.adapters.kafka.names import topic_problems
from streamwarden.checkpoint.filesystem import Location
from streamwarden.lifecycle.exchanges.exchange import Exchange, OutputPlan
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.launch_check import OutputEnd
from streamwarden.problems import Problem, show
from streamwarden.sinks.base import BatchWriter, Sink, missing_key, refused_mode, repeated
from streamwarden.sinks.kafka import topic as topics
from streamwarden.sinks.output import Output
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.verification.comparing.balance import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from streamwarden.drills.ports import Arrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSink(Sink):
    """A topic; at least once, and exactly once for readers that drop the event ids that they have seen."""

    SERVICE: ClassVar[str | None] = "broker"
    PLACE: ClassVar[str | None] = "topic"
    FORMATS: ClassVar[tuple[str, ...]] = ("kafka",)
    REPEATS: ClassVar[str | None] = "writes a batch again that runs again: at least once"
    INHERITED: ClassVar[bool] = False
    QUERY_IN_ROWS: ClassVar[bool] = True
    REAL_TIME: ClassVar[bool] = True
    CONNECTOR: ClassVar[str | None] = "kafka"
    PACKAGE: ClassVar[str | None] = "confluent_kafka"

    kind: str = "kafka"
    connection: str = field()
    """name of the connection to the broker (see [connections](connections.md))"""
    topic: str = field()
    """the topic, which must exist"""
    key: tuple[str, ...] = ()
    """columns that identify a row; at least one is required"""

    def problems(self) -> Iterator[Problem]:
        yield from topic_problems("sink", self.topic)
        yield from repeated(self.key)
        if not self.key:
            yield missing_key(
                "the columns that distinguish a row from all others: its record's key, and a part of its event id"
            )
        if self.mode is OutputMode.COMPLETE:
            yield refused_mode(self.mode, "append or update: a topic would get the whole result again with each batch")
        for name, value in self.options.items():
            if name.lower() == "topic":
                allowed = "nothing: the topic is `sink.topic`"
                yield Problem(key=("sink", "options", name), observed=show(value), allowed=allowed)

    def end(
        self, spec: StreamSpec, queries: Sequence[str], environ: Mapping[str, str], since: float
    ) -> OutputEnd | None:
        from streamwarden.sinks.kafka import probe

        if spec.trigger.real_time is not None:  # its records do not name their batch
            return None
        batch = probe.newest_of(spec, queries, environ, since)
        if batch is None:
            return None
        return OutputEnd(
            batch=batch,
            where=f"the topic {self.topic}",
            consequence="the stream would write the rows of these batches a second time",
        )

    def forked(self, places: Places) -> KafkaSink:
        return replace(self, topic=places.schema)

    def make_empty(self, origin: StreamSpec, forked: StreamSpec) -> None:
        topics.make(origin, forked)

    def drop(self, forked: StreamSpec) -> str | None:
        topic = topics.drop(forked)
        return None if topic is None else f"the topic {topic}"

    def batch_writer(self, spec: StreamSpec, token: int, ending: Callable[[], bool]) -> BatchWriter | None:
        from streamwarden.sinks.kafka.writer import TopicWriter

        return TopicWriter(spec) if spec.trigger.real_time is None else None

    def attached(self, frame: DataFrame, spec: StreamSpec) -> DataStreamWriter:
        from streamwarden.sinks.kafka.writer import live

        return live(frame, spec)

    def plan_restore(self, spec: StreamSpec, restore: Exchange, manifest: Location) -> OutputPlan:
        from streamwarden.sinks.kafka import returning

        if spec.trigger.real_time is not None:  # its records do not name their batch
            return Sink.plan_restore(self, spec, restore, manifest)
        return returning.plan_listing(spec, restore)

    def restore_output(self, spec: StreamSpec, restore: Exchange, plan: bytes) -> str:
        from streamwarden.sinks.kafka import returning

        return returning.list_later(spec, restore)

    def read(
        self, spec: StreamSpec, like: Mapping[str, object], *, committed: int | None, first: int, deduplicated: bool
    ) -> Output:
        from streamwarden.sinks.kafka.output import read_topic

        return read_topic(spec, like, committed=committed, first=first, deduplicated=deduplicated)

    def rows_of(
        self, spark: SparkSession, spec: StreamSpec, audited: Range, began: float | None, schema: StructType
    ) -> DataFrame:
        from streamwarden.sinks.kafka.written import topic_rows

        return topic_rows(spark, spec, audited.after, began, schema)

    def listen(self, spec: StreamSpec) -> AbstractContextManager[Arrivals]:
        from streamwarden.sinks.kafka import probe

        return probe.listen(spec)

    def newest(self, spec: StreamSpec) -> int | None:
        from streamwarden.sinks.kafka import probe

        return probe.newest(spec)
