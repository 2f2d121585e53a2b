"""kill_after_database_commit: SIGKILL after the sink's database has the batch and before Spark's `commits/N`.

The worst moment for a sink that does not know its batches: the batch runs again, and its rows are already there.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Protocol

from streamwarden.drills.faults.base import Description, FaultContext, LiveUse, Proof, Strike
from streamwarden.drills.faults.driver.kill_driver import FITTING, OBSERVE_EVERY, MidBatchKill
from streamwarden.drills.ports import Arrivals, Port
from streamwarden.drills.records.types import ForkView
from streamwarden.stream.spec import StreamSpec


class SinkArrivals(Protocol):
    """Watches the database, or the topic, that the fork's sink writes to. Raises DrillError if it cannot be reached."""

    def listen(self, fork: ForkView) -> AbstractContextManager[Arrivals]:
        """Report every batch from now on."""

    def newest(self, fork: ForkView) -> int | None:
        """The newest batch that has arrived; None if none has."""


ARRIVALS: Final = Port[SinkArrivals]("what arrives where the sink writes")


@dataclass(frozen=True, slots=True, kw_only=True)
class KillAfterDatabaseCommit(MidBatchKill):
    """Proof: that of MidBatchKill, and the database has batch N too."""

    kind: str = "kill_after_database_commit"
    event: ClassVar[str] = "a crash just after the database had committed a batch"
    proof: ClassVar[str] = "That of `kill_driver`, and N is in the sink's batch table."
    live: ClassVar[LiveUse] = LiveUse(
        allowed=True,
        reason="it ends a process that supervision starts again, changes no row, and the audit reads the table",
    )
    missed: ClassVar[str] = "no batch was caught between the database's commit and Spark's"
    place: ClassVar[str] = "database"
    service: ClassVar[str] = "database"
    description: ClassVar[Description] = Description(
        does="Sends SIGKILL to the driver when the sink's database has batch N and `commits/N` is absent.",
        promise="The batch runs again, and `foreachBatch` writes it again.",
        seen="The table was right: the batch table has the batch, so Streamwarden's sink writes nothing.",
        next_step="Nothing. A `foreachBatch` of a script needs its own guard by batch id.",
    )

    def require(self, stream: str, declared: StreamSpec) -> None:
        """The sink must write to such a place."""
        if self.service != declared.sink.SERVICE:
            expected = f"a sink of a kind that a {self.service} serves"
            instead = FITTING.get(declared.sink.SERVICE or "", "kill_driver")
            raise self.wrong_sink(stream, declared, self.place, expected=expected, instead=instead)

    def aim(self, context: FaultContext, *, deadline: float) -> int | None:
        """Wait until a batch has arrived where the sink writes, and not in `commits/`; its id, or None if the driver
        ended or time is up."""
        with context.ports[ARRIVALS].listen(context.fork) as arrivals:
            while (left := deadline - context.ports.clock.now()) > 0:
                batch = arrivals.next(min(left, OBSERVE_EVERY))
                if batch is not None and not context.ports.checkpoint.is_committed(context.fork, batch):
                    return batch
                if batch is None and not context.observe().alive:
                    return None
        return None

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        proof = MidBatchKill.prove(self, context, strike)  # without super(): a dataclass with slots is created twice
        written = context.ports[ARRIVALS].newest(context.fork)
        message = proof.message
        if proof.landed and written == proof.planned:
            message += f", and batch {written} in the {self.place}"
        elif proof.landed:
            message += f", but the {self.place}'s newest batch is {written}"
        return replace(
            proof,
            landed=proof.landed and written == proof.planned,
            message=message,
            evidence={**proof.evidence, f"{self.place}_batch": written},
        )
