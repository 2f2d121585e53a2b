"""The savepoints of a simulated stream, and what its batches make of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamwarden.drills.faults.restore_savepoint import Replay, SavepointToProve, aborted
from streamwarden.drills.records.sections import VerificationSpec
from streamwarden.drills.records.twin import TwinReport
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import StreamwardenError

if TYPE_CHECKING:
    from support.simulated.drill_world import World

NEWEST = SavepointToProve(id="20260101T020000Z", batch=7, words="of batch 7")


class SimulatedSavepoints:
    """Implements `drills.faults.restore_savepoint.Savepoints`. The attributes up to the blank line are what a test
    turns."""

    def __init__(self, world: World) -> None:
        self.there: SavepointToProve | None = NEWEST
        self.broken: Sequence[str] = ()
        self.broken_after: Sequence[str] = ()
        self.kept = 12  # batches of the stream after the savepoint's
        self.failure = ""
        self.executes = 10  # batches until a failure
        self.error: StreamwardenError | None = None  # of the comparison

        self.world = world
        self.executed: list[int] = []
        self.released = 0

    def newest(self, stream: str) -> SavepointToProve:
        if self.there is None:
            raise aborted(stream, "there is none", "a savepoint", f"run `streamwarden savepoint create {stream}`")
        return self.there

    def broken_files(self, stream: str, savepoint: str) -> Sequence[str]:
        return self.broken_after if self.executed else self.broken

    def batches(self, run_id: str, fork: ForkView, most: int) -> Sequence[int]:
        assert fork.batch is not None
        return list(range(fork.batch + 1, fork.batch + 1 + min(self.kept, most)))

    def execute(self, run_id: str, fork: ForkView, batches: Sequence[int], *, within: float) -> Replay:
        self.world._maybe_die("execute")
        began = self.world.now()
        for batch in batches[: self.executes] if self.failure else batches:
            self.world.sleep(2.0)
            self.world.committed[batch] = self.world.now()
            self.executed.append(batch)
        return Replay(started_at=began, seconds=self.world.now() - began, failure=self.failure)

    def compare(
        self, run_id: str, fork: ForkView, batches: Sequence[int], verification: VerificationSpec
    ) -> TwinReport:
        if self.error is not None:
            raise self.error
        return TwinReport(
            first=batches[0],
            last=batches[-1],
            seconds=20.0,
            twins=1,
            key=("id",),
            key_from="declared",
            left_out=(),
            alone=True,
            unproven=(f"compared: only the rows of the batches {batches[0]} to {batches[-1]}",),
            outcome=self.world.reconciliation,
            third="the stream itself wrote the same 900 rows",
        )

    def release(self, run_id: str) -> None:
        self.released += 1
