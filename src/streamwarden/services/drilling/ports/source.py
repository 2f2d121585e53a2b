"""The fork's own copy of a topic, as a drill observes and breaks it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from streamwarden.drills.faults.topic.own_topic import TOPIC
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import CheckpointError, DrillError, SourceError
from streamwarden.health.window import PartitionLag
from streamwarden.lifecycle.forks.topic_copy import CopiedTopic
from streamwarden.services.drilling.ports import Offer
from streamwarden.sources.base import CopyableSource
from streamwarden.stream.spec import StreamSpec


class ForkSource:
    """Implements `SourceTopic`."""

    def lags(self, fork: ForkView) -> Sequence[PartitionLag]:
        with _own(fork) as (spec, source, _):
            return source.lags(spec)

    def first_reach(self, fork: ForkView, partitions: Collection[int]) -> int | None:
        with _own(fork) as (spec, source, _):
            return source.first_reach(spec, partitions)

    def grow(self, fork: ForkView) -> None:
        with _own(fork) as (spec, source, copied):
            source.grow(spec, copied)

    def forget(self, fork: ForkView, before: Mapping[int, int]) -> None:
        with _own(fork) as (spec, source, _):
            source.forget(spec, before)

    def remake(self, fork: ForkView, leave: Mapping[int, int]) -> None:
        with _own(fork) as (spec, source, copied):
            source.recreate(spec, copied, leave)


@contextmanager
def _own(fork: ForkView) -> Iterator[tuple[StreamSpec, CopyableSource, CopiedTopic]]:
    """The fork's spec, its source, and the copy that it reads. Raises DrillError if it reads its origin's topic, and
    for what the broker refuses meanwhile."""
    spec = fork.spec
    if fork.copied is None or not isinstance(spec.source, CopyableSource):
        raise DrillError(
            f"{fork.stream} reads the topic of {fork.origin}, which no drill changes",
            expected="a fork with its own copy of the topic",
            where=fork.checkpoint,
            next_step="run the drill again from its first step",
        )
    try:
        yield spec, spec.source, fork.copied
    except (SourceError, CheckpointError) as error:
        raise DrillError.of(error) from error


OFFERS: Final = (Offer(TOPIC, lambda _: ForkSource()),)
