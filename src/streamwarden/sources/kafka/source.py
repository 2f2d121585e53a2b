"""The kind of source `kafka`: a topic of a broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import ceil
from typing import ClassVar

from streamwarden.adapters.kafka.names import topic_problems
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.problems import Problem, show
from streamwarden.sources.base import Source, positive


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource(Source):
    """A topic of a broker."""

    SERVICE: ClassVar[str | None] = "broker"
    OFFSETS: ClassVar[bool] = True
    REAL_TIME: ClassVar[bool] = True
    FORKABLE: ClassVar[bool] = True
    CONNECTOR: ClassVar[str | None] = "kafka"

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
    def limited(self) -> bool:
        """Whether a batch reads at most so many records."""
        return self.max_offsets_per_trigger is not None

    def problems(self) -> Iterator[Problem]:
        yield from topic_problems("source", self.topic)
        yield from positive("max_offsets_per_trigger", self.max_offsets_per_trigger)
        if self.format != "json":
            allowed = "json: the values of the records are JSON objects"
            yield Problem(key=("source", "format"), observed=show(self.format), allowed=allowed)

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
