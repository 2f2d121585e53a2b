"""table_conflict: another program commits to the table that the stream writes while a batch is being written.

A compaction, a MERGE of another job and a change of the table do so. Delta and Iceberg are optimistic: a writer finds
out at its own commit that the table has moved on, and commits again on top, or fails if the two changes contradict each
other.
"""

from dataclasses import asdict, dataclass
from typing import ClassVar, Final

from streamwarden.drills.faults.base import (
    Description,
    ExpectedEnd,
    FaultContext,
    Strike,
    describe_exit,
)
from streamwarden.drills.faults.driver.kill_driver import await_batch
from streamwarden.drills.faults.table.other_writer import TableFault, writer_of
from streamwarden.drills.tables import OtherWriter
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.failures.causes import TABLE_CONFLICT
from streamwarden.units import format_count

COMMITS_FIRST: Final = 5
"""Commits without rows before the compaction, which takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConflict(TableFault):
    """Proof: in the history of the table, commits of another writer stand between the version that the batch's writer
    had read and the one that its commit made; or the driver failed with the cause of such a conflict."""

    kind: str = "table_conflict"
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.MAY_END
    event: ClassVar[str] = "a conflict with another writer of its table"
    proof: ClassVar[str] = (
        "In the table's history, commits of another writer stand between the version that the writer of the batch had "
        "read (Delta: `commitInfo.readVersion`; Iceberg: the snapshot when the batch was planned) and the version of "
        "the batch; or the driver failed with the cause `table_conflict`."
    )
    recovery: ClassVar[str] = "The batch; if the driver gave up, it is started again, as supervision does."
    description: ClassVar[Description] = Description(
        does="Commits to the fork's table again and again, as another program, while a batch is planned and not in the "
        "table: commits without rows, and one compaction.",
        promise="An append is committed on top of the other commits (optimistic retry). A MERGE is, too, unless "
        "another commit removed or added rows that it read: then it fails, and a restart runs the batch again.",
        seen="In append and in update mode, on Delta and on Iceberg: the batch was committed on top of the others, and "
        "the output was right. No drill has seen a `MERGE` fail.",
        next_step="Nothing: supervision starts the stream again. If it happens often, let compactions run while the "
        "stream has little to do, or on partitions that it no longer writes.",
    )

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        writer = writer_of(self, context)
        writer.commit()  # the first one takes longer: it loads the library
        batch = _await_unwritten(context, writer, deadline)
        if batch is None:
            return Strike(moment=None, message="no batch was caught between its plan and its commit to the table")
        since, commits = writer.newest(), _commit_until_written(context, writer, batch, deadline)
        moment, position, view = context.ports.clock.now(), context.ports.checkpoint.position(context.fork), None
        found = writer.commit_of(batch, since)
        if found is None:
            view = context.await_exit(deadline=deadline)
        return Strike(
            moment=moment,
            message=f"another writer made {format_count(commits, 'commit')} while batch {batch} was running",
            batch=batch,
            evidence={
                "planned": position.planned,
                "committed": position.committed,
                "commits": commits,
                "commit": None if found is None else asdict(found),
                **describe_exit(view or context.observe()),
                "cause": None if view is None or view.exit is None else view.exit.cause,
            },
        )

    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        found = strike.evidence["commit"]
        if found is None:
            return _judge_end(strike)
        others = found["others"]
        if not others:
            return False, f"{strike.message}, but none between what the batch had read and its own commit"
        return True, (
            f"{strike.message}: between version {found['read']}, which the batch had read, and its own version "
            f"{found['made']} the table has {format_count(len(others), 'commit')} of others ({_span(others)})"
        )


def _await_unwritten(context: FaultContext, writer: OtherWriter, deadline: float) -> int | None:
    """Wait until a batch is planned and not in the table; None: the driver ended or time is up."""

    def unwritten() -> int | None:
        position = context.ports.checkpoint.position(context.fork)
        batch = position.planned
        running = batch is not None and position.gap > 0
        return batch if running and batch is not None and writer.commit_of(batch, None) is None else None

    return await_batch(context, unwritten, deadline=deadline)


def _commit_until_written(context: FaultContext, writer: OtherWriter, batch: int, deadline: float) -> int:
    """Commit as another writer until the table has the batch, the driver ended or time is up; how often."""
    commits, tried = 0, False

    def written() -> int | None:
        nonlocal commits, tried
        compacts = commits == COMMITS_FIRST and not tried
        tried = tried or compacts
        commits += writer.compact() if compacts else writer.commit()
        return batch if writer.commit_of(batch, None) is not None else None

    await_batch(context, written, deadline=deadline)
    return commits


def _judge_end(strike: Strike) -> tuple[bool, str]:
    """Of a batch that is not in the table."""
    if strike.evidence["exit"] != ExitKind.FAILED:
        return False, f"{strike.message}, and the batch was not in the table in time"
    said = strike.evidence["message"].partition("\n")[0]
    landed = strike.evidence["cause"] == TABLE_CONFLICT.code
    return landed, f"{strike.message}{': the driver failed' if landed else ', but the driver failed otherwise'}: {said}"


def _span(versions: list[str]) -> str:
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
