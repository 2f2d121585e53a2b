"""Keeps the phases of each batch in columns, which the roll-ups read, and the evidence of each incident."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the columns. Rows that exist stay empty: the phases of their batches are in their reports only."""
    for name, comment in (
        ("planning_ms", "wall time of latestOffset, getBatch and queryPlanning"),
        ("execution_ms", "wall time of addBatch: the batch itself, its sink and the commit of its state"),
        ("logs_ms", "wall time of walCommit and commitOffsets"),
    ):
        op.add_column("batches", sa.Column(name, sa.BigInteger(), nullable=True, comment=comment))
    comment = "of the newest verdict that was not good; empty if it had none"
    op.add_column("incidents", sa.Column("evidence", sa.Text(), nullable=True, comment=comment))
