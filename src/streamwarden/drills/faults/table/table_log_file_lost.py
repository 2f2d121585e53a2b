"""table_log_file_lost: the file is gone that tells a reader where in the log of the table to begin.

In a Delta table it is the checkpoint of the log that `_last_checkpoint` names, while every commit is there; in an
Iceberg table `version-hint.text`. It is lost once under a driver that runs, and once before one starts.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from streamwarden.drills.faults.base import Description, ExpectedEnd, FaultContext, Proof, Strike
from streamwarden.drills.faults.table.other_writer import NOT_STOPPED, TableFault, between_batches, writer_of
from streamwarden.drills.faults.topic.own_topic import stop_between_batches
from streamwarden.drills.tables import OtherWriter

POLL = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLogFileLost(TableFault):
    """Proof: the file was deleted between two batches, and the driver committed another one; it was deleted again when
    the driver had stopped. The recovery is the start that follows."""

    kind: str = "table_log_file_lost"
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.ENDS
    event: ClassVar[str] = "the loss of a file of its table's log"
    proof: ClassVar[str] = (
        "The file was deleted between two batches, and the driver committed the next one; the driver stopped, and the "
        "file was deleted again before the next one started."
    )
    recovery: ClassVar[str] = "The start that follows."
    description: ClassVar[Description] = Description(
        does="Deletes a file of the log of the fork's table between two batches. Delta: the checkpoint of the log that "
        "`_last_checkpoint` names; the drill makes one if there is none. Iceberg: `version-hint.text`. When the next "
        "batch is committed, stops the driver, deletes the file again, and starts the driver.",
        promise="The file only saves a reader time. Delta reads the commits instead, if the log still has them all. "
        "Iceberg looks for the newest metadata file.",
        seen="In append mode: the driver went on, the next one started, and the output was right, on Delta and on "
        "Iceberg. delta-rs does not open such a Delta table; Streamwarden reads the commits without the file.",
        next_step="Nothing, if the log has all of its commits: Delta writes a checkpoint of the log every 10 "
        "commits by default, and Iceberg writes the hint with each commit. Otherwise restore the file from a copy.",
    )

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        writer = writer_of(self, context)
        with between_batches(context, deadline=deadline) as batch:
            lost = None if batch is None else writer.lose_log_file()
        if batch is None or lost is None:
            return NOT_STOPPED if batch is None else Strike(moment=None, message=_NEEDED)
        went_on = _await_next(context, batch, deadline)
        stopped = stop_between_batches(context, why="a file of its table is to be lost", deadline=deadline)
        if went_on and stopped is not None:
            return Strike(moment=None, message=f"{lost} was lost after batch {batch}, but {stopped}")
        return self._lose_again(context, writer, batch, lost, went_on=went_on)

    def _lose_again(
        self, context: FaultContext, writer: OtherWriter, batch: int, lost: str, *, went_on: bool
    ) -> Strike:
        left, position = (
            context.ports.checkpoint.unplanned(context.fork),
            context.ports.checkpoint.position(context.fork),
        )
        if left == 0 and position.gap == 0:
            return Strike(moment=None, message="the driver stopped only at the end of the input")
        moment, again, view = context.mark(), writer.lose_log_file(), context.observe()
        return Strike(
            moment=moment,
            message=f"{lost} was lost after batch {batch}",
            batch=batch,
            evidence={
                "planned": position.planned,
                "committed": position.committed,
                "lost": [lost, again],
                "went_on": went_on,
                "exit_message": "" if view.exit is None else view.exit.message,
            },
        )

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        proof = TableFault.prove(self, context, strike)
        if proof.landed and not proof.evidence["went_on"]:
            return replace(proof, violation=f"the driver did not go on: {proof.evidence['exit_message']}")
        return proof

    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        _, again = strike.evidence["lost"]
        if again is None:
            return False, f"{strike.message}, and not a second time: {_NEEDED}"
        how = "the driver went on" if strike.evidence["went_on"] else "the driver did not go on"
        return True, f"{strike.message}, and {how}; {again} was lost again before the next driver started"


_NEEDED = "the log cannot be read without the file: older commits were removed"


def _await_next(context: FaultContext, batch: int, deadline: float) -> bool:
    """Wait for the batch after this one; False: the driver ended, or time is up."""
    checkpoint, fork = context.ports.checkpoint, context.fork
    context.wait_until(
        lambda: checkpoint.is_committed(fork, batch + 1) or not context.observe().alive, deadline=deadline, every=POLL
    )
    return checkpoint.is_committed(fork, batch + 1)
