"""The checkpoint of a simulated fork: what its batches have left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamwarden.checkpoint.batch_progress import BatchTraces
from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.drills.records.types import BatchFact, ForkView, PlanTimes
from streamwarden.lifecycle.recovery import SnapshotFacts
from streamwarden.stream.spec import Backend

if TYPE_CHECKING:
    from support.simulated.drill_world import World


class SimulatedCheckpoint:
    """Implements `drills.ports.CheckpointReader`."""

    def __init__(self, world: World) -> None:
        self.world = world

    def traces(self, fork: ForkView, batch: int) -> BatchTraces:
        """Each stage of a batch takes a quarter of it."""
        if batch not in self.world.planned:
            return BatchTraces(planned_at=None)
        frozen = [each.frozen_at for each in self.world.drivers.values() if each.frozen_at is not None]
        ended = [each.exit.ended_at for each in self.world.drivers.values() if each.exit is not None]
        now = min([self.world.time, *frozen, *(ended[-1:] if len(ended) == len(self.world.drivers) else ())])
        planned, quarter = self.world.planned[batch], self.world.batch_seconds / 4
        quarters = (now - planned) / quarter
        return BatchTraces(
            planned_at=planned,
            state=2 if quarters >= 1 else 0,
            files=1 if quarters >= 2 else 0,
            files_at=planned + 2 * quarter - self.world.stood.get(batch, 0.0) if quarters >= 2 else None,
            listed=quarters >= 3,
            listed_at=planned + 3 * quarter if quarters >= 3 else None,
            committed=batch in self.world.committed,
        )

    def position(self, fork: ForkView) -> LogPosition:
        planned, committed = max(self.world.planned, default=None), max(self.world.committed, default=None)
        return LogPosition(
            query_id="q",
            planned=planned,
            planned_at=None if planned is None else self.world.planned[planned],
            committed=committed,
            committed_at=None if committed is None else self.world.committed[committed],
        )

    def commit_time(self, fork: ForkView, batch: int) -> float | None:
        return self.world.committed.get(batch)

    def plan_times(self, fork: ForkView, batch: int) -> PlanTimes | None:
        return self.world.clock.plan_times(self.world.planned[batch]) if batch in self.world.planned else None

    def is_planned(self, fork: ForkView, batch: int) -> bool:
        return batch in self.world.planned

    def is_committed(self, fork: ForkView, batch: int) -> bool:
        return batch in self.world.committed

    def unplanned(self, fork: ForkView) -> int:
        return 4 * (self.world.total_batches - len(self.world.planned))

    def batches(self, fork: ForkView) -> Sequence[BatchFact]:
        return [
            BatchFact(
                batch_id=batch, planned_at=at, committed_at=self.world.committed.get(batch), rows=1000, rows_changed=500
            )
            for batch, at in self.world.planned.items()
        ]

    def snapshot(self, fork: ForkView) -> SnapshotFacts:
        return SnapshotFacts(backend=Backend.ROCKSDB, version=1, size=10_000_000)
