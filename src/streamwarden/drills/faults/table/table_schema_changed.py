"""table_schema_changed: another program adds a column to the table that the stream writes, between two batches.

The stream goes on without it: its rows have null there. A verification leaves the column out of the comparison as long
as it has nothing but nulls.
"""

from dataclasses import dataclass
from typing import ClassVar

from streamwarden.drills.faults.base import Description, ExpectedEnd, FaultContext, Strike
from streamwarden.drills.faults.table.other_writer import (
    NOT_STOPPED,
    TableFault,
    between_batches,
    judge_between_batches,
    writer_of,
)
from streamwarden.drills.tables import ADDED_COLUMN


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchemaChanged(TableFault):
    """Proof: the table has the column, and had not; no batch was planned and not committed meanwhile."""

    kind: str = "table_schema_changed"
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.LIVES
    event: ClassVar[str] = "a new column of its table"
    proof: ClassVar[str] = (
        "The table has the column, and had not before; no batch was planned and not committed meanwhile."
    )
    recovery: ClassVar[str] = "The next batch; the driver must survive."
    description: ClassVar[Description] = Description(
        does=f"Lets the driver stand still (SIGSTOP) between two batches, and adds the column `{ADDED_COLUMN}` of "
        "strings to the fork's table, as another program.",
        promise="A row that is appended without a column has null there. So has one that is merged: the driver names "
        "the columns of the batch.",
        seen="In append and in update mode, on Delta and on Iceberg: the same driver committed the next batch, and the "
        "output was right.",
        next_step="Nothing for the stream. A column that must not be null, another type or a removed column ends it.",
    )

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        writer = writer_of(self, context)
        before = list(writer.columns())
        if ADDED_COLUMN in before:
            return Strike(moment=None, message="an earlier attempt had already added the column")
        with between_batches(context, deadline=deadline) as batch:
            if batch is None:
                return NOT_STOPPED
            writer.add_column(ADDED_COLUMN)
            position = context.ports.checkpoint.position(context.fork)
        return Strike(
            moment=context.ports.clock.now(),
            message=f"another program added the column {ADDED_COLUMN} after batch {batch}",
            batch=batch,
            evidence={
                "planned": position.planned,
                "committed": position.committed,
                "before": before,
                "after": list(writer.columns()),
            },
        )

    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        evidence = strike.evidence
        if ADDED_COLUMN not in evidence["after"]:
            return False, f"{strike.message}, but the table does not have it"
        return judge_between_batches(strike)
