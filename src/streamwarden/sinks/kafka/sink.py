"""The kind of sink `kafka`: a topic of a broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from streamwarden.adapters.kafka.names import topic_problems
from streamwarden.lifecycle.forks.places import Places
from streamwarden.problems import Problem, show
from streamwarden.sinks.base import Sink, missing_key, refused_mode, repeated
from streamwarden.stream import OutputMode


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSink(Sink):
    """A topic; at least once, and exactly once for readers that drop the event ids that they have seen."""

    SERVICE: ClassVar[str | None] = "broker"
    IDEMPOTENT: ClassVar[bool] = False
    REAL_TIME: ClassVar[bool] = True
    CONNECTOR: ClassVar[str | None] = "kafka"

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
                "the columns that tell a row from all others: its record's key, and a part of its event id"
            )
        if self.mode is OutputMode.COMPLETE:
            yield refused_mode(self.mode, "append or update: a topic would get the whole result again with each batch")
        for name, value in self.options.items():
            if name.lower() == "topic":
                allowed = "nothing: the topic is `sink.topic`"
                yield Problem(key=("sink", "options", name), observed=show(value), allowed=allowed)

    def forked(self, places: Places) -> KafkaSink:
        return replace(self, topic=places.schema)
