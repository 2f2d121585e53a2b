"""kill_after_database_commit: SIGKILL after the sink's database has the batch and before Spark's `commits/N`.

The worst moment for a sink that does not know its batches: the batch runs again, and its rows are already there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from streamwarden.drills.faults.base import Aftermath, Description, FaultContext, LiveUse, Proof, Strike
from streamwarden.drills.faults.driver.kill_driver import FITTING, OBSERVE_EVERY, KillDriver
from streamwarden.drills.records.sections import FaultKind, FaultSpec
from streamwarden.errors import DrillAborted
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True)
class KillAfterDatabaseCommit(KillDriver):
    """Proof: that of KillDriver, and the database has batch N too."""

    event: ClassVar[str] = "a crash just after the database had committed a batch"
    live: ClassVar[LiveUse] = LiveUse(
        allowed=True,
        reason="it ends a process that supervision starts again, changes no row, and the audit reads the table",
    )
    missed: ClassVar[str] = "no batch was caught between the database's commit and Spark's"
    place: ClassVar[str] = "database"
    service: ClassVar[str] = "database"
    takes: ClassVar[tuple[str, ...]] = ()
    variants: ClassVar[Mapping[str, tuple[Aftermath, Description]]] = {}
    description: ClassVar[Description] = Description(
        does="Sends SIGKILL to the driver when the sink's database has batch N and `commits/N` is absent.",
        promise="The batch runs again, and `foreachBatch` writes it again.",
        seen="The table was right: its ledger has the batch, so Streamwarden's sink writes nothing.",
        next_step="Nothing. A `foreachBatch` of a script needs its own guard by batch id.",
    )

    def require(self, stream: str, declared: StreamSpec, fault: FaultSpec) -> None:
        """The sink must write to such a place."""
        given = declared.sink
        if self.service != given.SERVICE:
            raise DrillAborted(
                f"{fault.kind} is not applicable: the sink of {stream} is of the kind {given.kind}, which has no "
                f"{self.place}",
                expected=f"a sink of a kind that a {self.service} serves",
                where=f"the drill of {stream}",
                next_step=f"drill this stream with `{FITTING.get(given.SERVICE or '', FaultKind.KILL_DRIVER)}`",
            )

    def aim(self, context: FaultContext, *, deadline: float) -> int | None:
        """Wait until a batch has arrived where the sink writes, and not in `commits/`; its id, or None if the driver
        ended or time is up."""
        with context.sink.listen(context.fork) as arrivals:
            while (left := deadline - context.clock.now()) > 0:
                batch = arrivals.next(min(left, OBSERVE_EVERY))
                if batch is not None and not context.checkpoint.is_committed(context.fork, batch):
                    return batch
                if batch is None and not context.observe().alive:
                    return None
        return None

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        proof = KillDriver.prove(self, context, strike)  # without super(): a dataclass with slots is created twice
        written = context.sink.newest(context.fork)
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
