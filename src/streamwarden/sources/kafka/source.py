"""The declaration of the kind of source `kafka`: a topic of a broker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, ClassVar, Final

from streamwarden.adapters.kafka.names import topic_problems
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.topics import TopicRange
from streamwarden.health.window import PartitionLag, WaitingInput
from streamwarden.lifecycle.forks.fork import BoundedInput
from streamwarden.lifecycle.forks.places import SCHEMA, Places
from streamwarden.lifecycle.forks.topic_copy import CopiedTopic, Feed
from streamwarden.problems import Problem, show
from streamwarden.sources.audited import AskedSource
from streamwarden.sources.base import CopyableSource, FinishedRun, Reading, RowRequest, RunInput, positive
from streamwarden.sources.kafka.audited import Topics, read_records, records_of
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_BY_TIME: Final = frozenset({"startingtimestamp", "startingoffsetsbytimestamp"})
"""Options (lower case) before which Spark does not read `startingOffsets`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource(CopyableSource):
    """A topic of a broker."""

    SERVICE: ClassVar[str | None] = "broker"
    REAL_TIME: ClassVar[bool] = True
    CONNECTOR: ClassVar[str | None] = "kafka"
    FORMATS: ClassVar[tuple[str, ...]] = ("kafka",)
    LIMIT: ClassVar[str] = "maxOffsetsPerTrigger"

    kind: str = "kafka"
    connection: str = field()
    """name of the connection to the broker (see [connections](connections.md))"""
    topic: str = field()
    """the topic that is read"""
    format: str = "json"
    """format of the values of the records; `json` is the only one"""
    max_offsets_per_trigger: int | None = None
    """most records that a batch reads; null: all that are there"""

    @property
    def limit(self) -> int | None:
        return self.max_offsets_per_trigger

    def problems(self) -> Iterator[Problem]:
        yield from topic_problems("source", self.topic)
        yield from positive("max_offsets_per_trigger", self.max_offsets_per_trigger)
        if self.format != "json":
            allowed = "json: the values of the records are JSON objects"
            yield Problem(key=("source", "format"), observed=show(self.format), allowed=allowed)

    @classmethod
    def audited(cls, spec: StreamSpec, checkpoint: Location, audited: Range) -> Topics:
        return records_of(checkpoint, audited)

    @classmethod
    def read_audited(cls, asked: AskedSource, read: Topics) -> DataFrame:
        return read_records(asked, read)

    @classmethod
    def fork_options(cls, options: Mapping[str, str | None]) -> dict[str, str]:
        """As the fork of any other job: the rows that are new when it starts would be none."""
        return {} if _BY_TIME & set(options) else {"startingOffsets": "earliest"}

    def forked(self, places: Places, feed: Feed) -> KafkaSource:
        """A fork reads the topic where it is, or a copy of it: Spark commits no offsets there.

        It begins with the oldest record that the topic keeps, wherever the origin began.
        """
        options = {key: value for key, value in self.options.items() if not key.lower().startswith("starting")}
        return replace(self, topic=self.topic if feed is Feed.ORIGIN else places.source, options=options)

    def limited_to(self, most: int) -> KafkaSource:
        return replace(self, max_offsets_per_trigger=most)

    def batches(self, unseen: int) -> int | None:
        most = self.max_offsets_per_trigger
        return ceil(unseen / most) if most else min(unseen, 1)

    def describe(self, shorten: Callable[[str], str]) -> str:
        return f"{self.format} records of the topic `{self.topic}` (connection `{self.connection}`)"

    def read(self, spark: SparkSession, spec: StreamSpec, request: RowRequest) -> Reading:
        from streamwarden.sources.kafka.reader import read

        return read(spark, spec, request)

    def waiting(self, spec: StreamSpec, checkpoint: Location) -> WaitingInput | None:
        """None before the query's first batch is planned."""
        from streamwarden.sources.kafka.lag import waiting_records

        return waiting_records(spec, checkpoint)

    def take_input(self, spec: StreamSpec, forked: StreamSpec, checkpoint: str | None, feed: Feed) -> BoundedInput:
        from streamwarden.sources.kafka import copy, lag

        return lag.topic_input(forked, checkpoint) if feed is Feed.ORIGIN else copy.create(spec, forked, feed)

    def unplanned(self, forked: StreamSpec) -> int:
        from streamwarden.sources.kafka.lag import topic_input

        return topic_input(forked, forked.checkpoint).unseen

    def owed(self, ranges: Sequence[TopicRange]) -> int:
        from streamwarden.sources.kafka.reading_back import owed

        return owed(self, ranges) if ranges else 0

    def drop_scratch(self) -> str | None:
        from streamwarden.sources.kafka import copy

        return copy.drop(self) if self.topic.startswith(SCHEMA) else None

    def read_back(self, spec: StreamSpec, run: FinishedRun) -> RunInput:
        from streamwarden.sources.kafka.reading_back import read_back

        return read_back(spec, run)

    def lags(self, forked: StreamSpec) -> Sequence[PartitionLag]:
        from streamwarden.sources.kafka.lag import copy_lag

        return copy_lag(forked)

    def first_reach(self, forked: StreamSpec, partitions: Collection[int]) -> int | None:
        from streamwarden.sources.kafka.lag import first_reach

        return first_reach(forked, partitions)

    def grow(self, forked: StreamSpec, copied: CopiedTopic) -> None:
        from streamwarden.sources.kafka import copy

        copy.grow(forked, copied)

    def forget(self, forked: StreamSpec, before: Mapping[int, int]) -> None:
        from streamwarden.sources.kafka import copy

        copy.forget(forked, before)

    def recreate(self, forked: StreamSpec, copied: CopiedTopic, leave: Mapping[int, int]) -> None:
        from streamwarden.sources.kafka import copy

        copy.recreate(forked, copied, leave)
