"""The checkpoint of a simulated fork: what its batches have left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamwarden.checkpoint.batch_progress import BatchTraces
from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.drills.records.exercised import NotExercised
from streamwarden.drills.records.phases import BatchCourse
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
        newest = list(self.world.drivers.values())[-1]
        stopped = [newest.frozen_at, newest.exit.ended_at if newest.exit is not None else None]
        now = min([self.world.time, *(at for at in stopped if at is not None)])
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

    def course(self, fork: ForkView, batch: int) -> BatchCourse:
        """By the same quarters; a committed batch has all of them. `functions`: a function writes in the two last."""
        planned, quarter = self.world.planned.get(batch), self.world.batch_seconds / 4
        committed, traces = self.world.committed.get(batch), self.traces(fork, batch)
        if planned is None:
            return BatchCourse(planned_at=None)
        writing, written = traces.files > 0, traces.listed
        launches = [driver.record.launched_at for driver in self.world.drivers.values()]
        before, until = self.world.committed.get(batch - 1), float("inf") if committed is None else committed
        return BatchCourse(
            warm=before is not None and not any(before < launch < until for launch in launches),
            planned_at=planned,
            writing_at=planned + 2 * quarter if writing else None,
            written_at=planned + 3 * quarter if written else None,
            committed_at=committed,
            shown=True,
            function=self.world.functions and writing,
            wrote=writing,
        )

    def courses(self, fork: ForkView, batches: Sequence[int]) -> Sequence[BatchCourse]:
        return [self.course(fork, batch) for batch in batches]

    def not_exercised(self, fork: ForkView) -> Sequence[NotExercised]:
        return self.world.not_exercised

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
