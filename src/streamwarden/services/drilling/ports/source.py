"""The fork's own copy of a topic, as a drill observes and breaks it."""

from __future__ import annotations

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
        """Each partition: the offsets of the fork's checkpoint and the broker's."""
        spec, source, _ = _own(fork)
        with _as_drill_error():
            return source.lags(spec)

    def first_reach(self, fork: ForkView, partitions: Collection[int]) -> int | None:
        """The first batch that was planned with records of one of these partitions."""
        spec, source, _ = _own(fork)
        with _as_drill_error():
            return source.first_reach(spec, partitions)

    def grow(self, fork: ForkView) -> None:
        """Add partitions, with the records that were held back."""
        spec, source, copied = _own(fork)
        with _as_drill_error():
            source.grow(spec, copied)

    def forget(self, fork: ForkView, before: Mapping[int, int]) -> None:
        """Remove records as a retention does."""
        spec, source, _ = _own(fork)
        with _as_drill_error():
            source.forget(spec, before)

    def remake(self, fork: ForkView, leave: Mapping[int, int]) -> None:
        """Delete the topic and create it again with fewer records."""
        spec, source, copied = _own(fork)
        with _as_drill_error():
            source.recreate(spec, copied, leave)


def _own(fork: ForkView) -> tuple[StreamSpec, CopyableSource, CopiedTopic]:
    """The fork's spec, its source, and the copy that it reads. Raises DrillError if it reads its origin's topic."""
    spec = fork.spec
    if fork.copied is None or not isinstance(spec.source, CopyableSource):
        raise DrillError(
            f"{fork.stream} reads the topic of {fork.origin}, which no drill changes",
            expected="a fork with its own copy of the topic",
            where=fork.checkpoint,
            next_step="run the drill again from its first step",
        )
    return spec, spec.source, fork.copied


@contextmanager
def _as_drill_error() -> Iterator[None]:
    try:
        yield
    except (SourceError, CheckpointError) as error:
        raise DrillError.of(error) from error


OFFERS: Final = (Offer(TOPIC, lambda _: ForkSource()),)
