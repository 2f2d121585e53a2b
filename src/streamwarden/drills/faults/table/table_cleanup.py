"""table_cleanup: a maintenance with a retention of 0 removes everything from the table but its newest version, under a
stream that runs.

So does a person who lacks disk space. A maintenance under a batch that is being written may delete the files of that
batch: Delta and Iceberg say so, and no writer can defend itself. So the driver stands still between two batches while
files are removed.
"""

from dataclasses import asdict, dataclass
from typing import ClassVar, Final

from streamwarden.drills.faults.base import Description, ExpectedEnd, FaultContext, Strike
from streamwarden.drills.faults.table.other_writer import (
    NOT_STOPPED,
    TableFault,
    between_batches,
    judge_between_batches,
    writer_of,
)
from streamwarden.units import format_count

COMPACTED_WITHIN: Final = 15.0
"""Seconds for which the drill waits for a table with several data files. Without a compaction only old versions go."""

POLL: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCleanup(TableFault):
    """Proof: files of the table that were there are gone, or versions of it, and no batch was planned and not committed
    meanwhile."""

    kind: str = "table_cleanup"
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.LIVES
    event: ClassVar[str] = "a maintenance of its table without a retention"
    proof: ClassVar[str] = (
        "Data files, or versions of the table, that were there are gone; no batch was planned and not committed "
        "meanwhile."
    )
    recovery: ClassVar[str] = "The next batch; the driver must survive."
    description: ClassVar[Description] = Description(
        does="Compacts the fork's table while the stream runs. Then lets the driver stand still (SIGSTOP) between two "
        "batches, and keeps only the newest version of the table. Delta: VACUUM with a retention of 0, a checkpoint "
        "of the log, and none of the commits before it. Iceberg: every other snapshot is expired, and the files that "
        "only these needed are deleted.",
        promise="A writer needs only the newest version, if nothing is removed while it writes. Delta keeps the number "
        "of the query's newest batch in the checkpoint of its log. An Iceberg table whose snapshots of the query are "
        "all expired has no number of a batch any more.",
        seen="In append mode, on Delta and on Iceberg: the same driver committed the next batch, and the output was "
        "right.",
        next_step="Nothing for the stream. Keep versions for as long as audits and forks with a `rewind` go back. In "
        "an Iceberg table always keep the stream's newest snapshot: without it, a driver that starts after a crash "
        "may end with the cause `table_batch_unknown`.",
    )

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        writer = writer_of(self, context)
        if not context.observe().alive:
            return Strike(moment=None, message="the driver's process was already gone")
        until = min(deadline, context.ports.clock.now() + COMPACTED_WITHIN)
        compacted = context.wait_until(writer.compact, deadline=until, every=POLL)
        with between_batches(context, deadline=deadline) as batch:
            if batch is None:
                return NOT_STOPPED
            removed = writer.clean()
            position = context.ports.checkpoint.position(context.fork)
        return Strike(
            moment=context.ports.clock.now(),
            message=f"after batch {batch} the table lost {_described(len(removed.data), len(removed.versions))}",
            batch=batch,
            evidence={
                "planned": position.planned,
                "committed": position.committed,
                "compacted": compacted,
                "removed": asdict(removed),
            },
        )

    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        evidence = strike.evidence
        removed = evidence["removed"]
        if not removed["data"] and not removed["versions"]:
            return False, f"{strike.message}: there was nothing to remove"
        return judge_between_batches(strike)


def _described(files: int, versions: int) -> str:
    return f"{format_count(files, 'data file')} and {format_count(versions, 'version')}"
