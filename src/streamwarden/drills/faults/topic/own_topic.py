"""Shared by the faults that break the topic that a fork reads: a copy, which no other stream reads."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from streamwarden.drills.faults.base import Fault, FaultContext
from streamwarden.drills.ports import Port
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import DrillError
from streamwarden.health.window import PartitionLag
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.forks.topic_copy import CopiedTopic
from streamwarden.stream.spec import StreamSpec

POLL_EVERY = 0.5
"""Seconds between two requests to the broker."""


class SourceTopic(Protocol):
    """The fork's own copy of a topic. Raises DrillError if the fork has none, or if the broker does not answer."""

    def lags(self, fork: ForkView) -> Sequence[PartitionLag]:
        """For each partition the offsets of the fork's checkpoint and those of the topic."""

    def first_reach(self, fork: ForkView, partitions: Collection[int]) -> int | None:
        """The first batch that was planned with records of one of these partitions; None if there is none yet."""

    def grow(self, fork: ForkView) -> None:
        """Double the partitions and send the records that were held back to the new ones; may run again."""

    def forget(self, fork: ForkView, before: Mapping[int, int]) -> None:
        """Remove the records before an offset of each partition, as a retention does; may run again."""

    def remake(self, fork: ForkView, leave: Mapping[int, int]) -> None:
        """Delete and recreate it with the first `leave[partition]` records of each partition; may run again."""


TOPIC: Final = Port[SourceTopic]("the fork's own topic")


def require_topic(fault: Fault, stream: str, declared: StreamSpec) -> None:
    """Raises DrillAborted for a stream that does not read a topic."""
    if not declared.source.OFFSETS:
        raise fault.not_applicable(
            stream,
            f"the source of {stream} is of the kind {declared.source.kind}, not a topic",
            expected="source.kind kafka",
            next_step="drill this stream with `kill_driver`, or with another fault of docs/how-to/drills.md",
        )


def copy_of(context: FaultContext) -> CopiedTopic:
    """The content of the fork's own topic. Raises DrillError if it has none."""
    if context.fork.copied is None:
        raise DrillError(
            f"{context.fork.stream} does not have its own topic",
            expected="a fork that was made for this fault",
            where=context.fork.checkpoint,
            next_step="run the drill again from its first step",
        )
    return context.fork.copied


def await_all_read(context: FaultContext, *, deadline: float) -> str | None:
    """Wait until every record of the topic is in a committed batch. Returns why it is not, None if it is."""
    left = 0

    def probe() -> str | bool | None:
        nonlocal left
        left = sum(lag.behind for lag in context.ports[TOPIC].lags(context.fork))
        if left == 0 and context.ports.checkpoint.position(context.fork).gap == 0:
            return True
        return None if context.observe().alive else "the driver's process was already gone"

    result = context.wait_for(probe, deadline=deadline, every=POLL_EVERY)
    if result is None:
        return f"the fork had still {left:,} records to read when the time of the attempt was up (`within`)"
    return result if isinstance(result, str) else None


def stop_between_batches(context: FaultContext, *, why: str, deadline: float) -> str | None:
    """End the driver at a batch boundary. Returns why that failed, None if it succeeded."""
    if not context.observe().alive:
        return "the driver's process was already gone"
    context.ports.drivers.request_stop(
        context.fork, context.driver_id, by=f"drill:{context.run_id}", reason=f"drill {context.run_id}: {why}"
    )
    context.await_exit(deadline=deadline)
    return why_not_between_batches(context)


def why_not_between_batches(context: FaultContext) -> str | None:
    """Why the driver has not ended with every planned batch committed; None if it has."""
    view, position = context.observe(), context.ports.checkpoint.position(context.fork)
    if view.exit is None:
        return "the driver is still alive"
    if view.exit.kind is not ExitKind.STOPPED:
        return f"the driver did not stop at a batch boundary: {view.exit.kind.value} {view.exit.message}".rstrip()
    if position.gap or position.committed is None:
        return f"the stop cut batch {position.planned}: the last commit is {position.committed}"
    return None


def parts(lags: Sequence[PartitionLag], topic: str) -> dict[str, dict[str, int]]:
    """The partitions as evidence: the offsets of the checkpoint and those of the topic."""
    names = ("first", "last", "planned", "committed")
    return {f"{topic}-{lag.partition}": {name: getattr(lag, name) for name in names} for lag in lags}
