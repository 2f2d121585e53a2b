"""kill_after_database_commit: SIGKILL after the sink's database has the batch and before Spark's `commits/N`.

The worst moment for a sink that does not know its batches: the batch runs again, and its rows are there already.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from streamwarden.drills.faults.base import Proof, Scene, Strike, await_exit, describe_exit
from streamwarden.drills.faults.kill_driver import OBSERVE_EVERY


@dataclass(frozen=True, slots=True)
class KillAfterDatabaseCommit:
    """Proof: the driver ended by signal 9, the database and `offsets/` have batch N, `commits/` has not."""

    def strike(self, scene: Scene, *, deadline: float) -> Strike:
        batch = self.aim(scene, deadline=deadline)
        if batch is None:
            return Strike(moment=None, message="no batch was caught between the database's commit and Spark's")
        moment = scene.clock.now()
        if not scene.drivers.kill(scene.driver_id):
            return Strike(moment=None, message="the driver's process was already gone", batch=batch)
        await_exit(scene, deadline=deadline)
        return Strike(moment=moment, message=f"SIGKILL when the database had batch {batch}", batch=batch)

    def aim(self, scene: Scene, *, deadline: float) -> int | None:
        """Wait until the database commits a batch that `commits/` does not have; its id, or None if the driver ended or
        time is up."""
        with scene.database.listen(scene.fork) as commits:
            while (left := deadline - scene.clock.now()) > 0:
                batch = commits.next(min(left, OBSERVE_EVERY))
                if batch is not None and not scene.checkpoint.is_committed(scene.fork, batch):
                    return batch
                if batch is None and not scene.observe().alive:
                    return None
        return None

    def prove(self, scene: Scene, strike: Strike | None) -> Proof:
        view = scene.observe()
        position = scene.checkpoint.position(scene.fork)
        planned, written = position.planned, scene.database.newest(scene.fork)
        cut = planned is not None and position.gap > 0
        killed = view.exit is not None and view.exit.signal == signal.SIGKILL
        struck_at = strike.moment if strike else None
        ended_at = view.exit.ended_at if view.exit else scene.clock.now()
        if view.alive or view.exit is None:
            message = "the driver is still alive" + (f": {strike.message}" if strike else "")
        elif not killed:
            message = f"the driver was already over: {view.exit.kind.value} {view.exit.message}".rstrip()
        elif not cut:
            message = f"the driver died by signal 9, but batch {planned} was committed before it died"
        elif written != planned:
            message = f"the driver died by signal 9 in batch {planned}, but the database's newest batch is {written}"
        else:
            message = (
                f"the driver died by signal 9 with batch {planned} in the database, offsets/{planned} written and "
                f"commits/{planned} absent"
            )
        return Proof(
            landed=killed and not view.alive and cut and written == planned,
            driver_id=scene.driver_id,
            moment=ended_at if struck_at is None else struck_at,
            planned=planned,
            committed=position.committed,
            message=message,
            evidence={
                **describe_exit(view),
                "database_batch": written,
                "aimed_at_batch": strike.batch if strike else None,
            },
        )
