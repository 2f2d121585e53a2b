"""The fork's own copy of a topic, as a drill observes and breaks it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from streamwarden.drills.ports import ForkView
from streamwarden.errors import CheckpointError, DrillError, SourceError
from streamwarden.health.window import PartitionLag
from streamwarden.lifecycle.forks.topic_copy import CopiedTopic
from streamwarden.sources.kafka import copy
from streamwarden.sources.kafka.lag import copy_lag, first_reach
from streamwarden.stream import StreamSpec


class ForkSource:
    """Implements `drills.ports.SourceTopic`."""

    def lags(self, fork: ForkView) -> Sequence[PartitionLag]:
        """For each partition the offsets of the fork's checkpoint and those of the broker."""
        spec, _ = _own(fork)
        with _as_drill_error():
            return copy_lag(spec, fork.checkpoint)

    def first_reach(self, fork: ForkView, partitions: Collection[int]) -> int | None:
        """The first batch that was planned with records of one of these partitions."""
        spec, _ = _own(fork)
        with _as_drill_error():
            return first_reach(spec, partitions)

    def grow(self, fork: ForkView) -> None:
        """Add partitions, with the records that were held back."""
        spec, copied = _own(fork)
        with _as_drill_error():
            copy.grow(spec, copied)

    def forget(self, fork: ForkView, before: Mapping[int, int]) -> None:
        """Remove records as a retention does."""
        spec, _ = _own(fork)
        with _as_drill_error():
            copy.forget(spec, before)

    def remake(self, fork: ForkView, leave: Mapping[int, int]) -> None:
        """Delete the topic and recreate it with fewer records."""
        spec, copied = _own(fork)
        with _as_drill_error():
            copy.remake(spec, copied, leave)


def _own(fork: ForkView) -> tuple[StreamSpec, CopiedTopic]:
    """The fork's spec, and what its topic was filled with. Raises DrillError if it reads its origin's topic."""
    if fork.copied is None:
        raise DrillError(
            f"{fork.stream} reads the topic of {fork.origin}, which no drill changes",
            expected="a fork with its own copy of the topic",
            where=fork.checkpoint,
            next_step="run the drill again from its first step",
        )
    return fork.spec, fork.copied


@contextmanager
def _as_drill_error() -> Iterator[None]:
    try:
        yield
    except (SourceError, CheckpointError) as error:
        raise DrillError(
            error.observed, expected=error.expected, where=error.where, next_step=error.next_step
        ) from error
