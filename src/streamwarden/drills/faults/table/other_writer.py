"""What the faults of a table have in common: the program that writes it too, and a driver that stands still between two
batches."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal, Protocol

from streamwarden.drills.faults.base import Fault, FaultContext, ObservedFault, Strike, require_this_host
from streamwarden.drills.faults.driver.kill_driver import FITTING, await_batch
from streamwarden.drills.ports import Port
from streamwarden.drills.records.types import ForkView
from streamwarden.drills.tables import OtherWriter
from streamwarden.stream.spec import StreamSpec


class OtherWriters(Protocol):
    """Other programs that write the tables of forks."""

    def of(self, fork: ForkView) -> OtherWriter:
        """One that writes the fork's table. Raises DrillError if its sink is no table."""


NOT_STOPPED: Final = Strike(moment=None, message="the driver did not stand still between two batches")

WRITERS: Final = Port[OtherWriters]("other writers of the sink's table")


class TableFault(ObservedFault):
    """A fault of the table that a fork's sink writes. It strikes a driver that is stopped between two batches, or one
    that writes a batch."""

    __slots__ = ()

    def require(self, stream: str, declared: StreamSpec) -> None:
        """Only a table of files has other writers."""
        if not declared.sink.TABLE_OF_FILES:
            served = "service_outage" if declared.sink.SERVICE in FITTING else "kill_driver"
            instead = "sink_failing" if declared.sink.MANIFEST else served
            expected = "a sink of the kind `delta` or `iceberg`"
            raise self.wrong_sink(stream, declared, "table of files", expected=expected, instead=instead)

    def undo(self, context: FaultContext) -> str | None:
        """Resume a driver that is still stopped."""
        return "the driver stood still and goes on" if context.ports.drivers.thaw(context.driver_id) else None


def judge_between_batches(strike: Strike) -> tuple[bool, str]:
    """Whether no batch was being written during a strike that did something."""
    if strike.evidence["planned"] != strike.evidence["committed"]:
        return False, f"{strike.message}, but batch {strike.evidence['planned']} was being written"
    return True, f"{strike.message}, while no batch was being written"


def writer_of(fault: Fault, context: FaultContext) -> OtherWriter:
    """Another writer of the fork's table. Raises DrillAborted for a fork that is not on this host."""
    require_this_host(fault, context, "other writers of a table")
    return context.ports[WRITERS].of(context.fork)


@contextmanager
def between_batches(context: FaultContext, *, deadline: float) -> Iterator[int | None]:
    """Let the driver stand still (SIGSTOP) at a moment at which it writes no batch and has input left; it goes on at
    the end. Yields the last committed batch, None if the driver ended or time was up."""
    batch = _stop_between(context, deadline=deadline)
    try:
        yield batch
    finally:
        context.ports.drivers.thaw(context.driver_id)


def _stop_between(context: FaultContext, *, deadline: float) -> int | None:
    drivers, checkpoint = context.ports.drivers, context.ports.checkpoint

    def whole() -> int | None:
        position = checkpoint.position(context.fork)
        return position.committed if position.gap == 0 else None

    def stopped() -> int | Literal[False] | None:
        if whole() is None:
            return None
        if checkpoint.unplanned(context.fork) == 0 or not drivers.freeze(context.driver_id):
            return False
        batch = whole()  # it may have planned one before it stood still
        if batch is None:
            drivers.thaw(context.driver_id)
        return batch

    return await_batch(context, stopped, deadline=deadline)
