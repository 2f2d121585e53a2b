"""The table of a simulated fork that another program writes too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamwarden.drills.records.types import ForkView
from streamwarden.drills.tables import BatchCommit, OtherWriter, Removed
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.failures.causes import TABLE_CONFLICT

if TYPE_CHECKING:
    from support.simulated.drill_world import World


class SimulatedLakeTable:
    """Implements `OtherWriters` and `OtherWriter`. The attributes up to the blank line are what a test turns."""

    def __init__(self, world: World) -> None:
        self.lead = 0.5  # seconds before Spark's commit at which a batch is in the table
        self.lands_between = True  # other commits come after the batch's writer has read the table
        self.conflict: str | None = None  # cause of the failure of a batch that the first compaction meets
        self.has_old_versions = True
        self.log_is_whole = True
        self.takes_columns = True
        self.survives_loss = True  # of the file of the log

        self.world = world
        self.others: list[float] = []  # when another writer committed
        self.compactions = 0
        self.cleaned_at: float | None = None
        self.lost = 0
        self.names = ["id", "flights"]

    def of(self, fork: ForkView) -> OtherWriter:
        return self

    def newest(self) -> str | None:
        return "1"

    def commit(self) -> bool:
        self.world._maybe_die("before_other_commit")
        self.others.append(self.world.time)
        return True

    def compact(self) -> bool:
        self.compactions += 1
        if self.conflict is not None and self.compactions == 1:
            for driver in self.world.drivers.values():
                if driver.exit is None:
                    self.world._end(driver, ExitKind.FAILED, message="files changed", cause=self.conflict)
        return self.commit()

    def commit_of(self, batch: int, since: str | None) -> BatchCommit | None:
        if batch not in self.world.committed:
            planned = self.world.planned.get(batch)
            if planned is None or self.world.time < planned + self.world.batch_seconds - self.lead:
                return None
        between = [at for at in self.others if self.lands_between and at >= self.world.planned[batch]]
        return BatchCommit(read="1", made="9", others=tuple(str(index + 2) for index in range(len(between))))

    def clean(self) -> Removed:
        self.world._maybe_die("before_clean")
        self.cleaned_at = self.world.time
        gone = ("1", "2") if self.has_old_versions else ()
        return Removed(data=gone, log=gone, versions=gone)

    def lose_log_file(self) -> str | None:
        self.world._maybe_die("before_loss")
        if not self.log_is_whole:
            return None
        self.lost += 1
        for driver in self.world.drivers.values():
            driver.doomed |= not self.survives_loss and driver.exit is None
        return "log/hint"

    def add_column(self, name: str) -> bool:
        self.world._maybe_die("before_column")
        if self.takes_columns:
            self.names.append(name)
        return self.takes_columns

    def columns(self) -> Sequence[str]:
        return self.names


OF_TABLES = {"table_conflict", "table_cleanup", "table_log_file_lost", "table_schema_changed"}
"""The faults of a sink that is a table of files."""

CONFLICT = TABLE_CONFLICT.code
