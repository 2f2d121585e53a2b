"""The queries of each stream: a script may start several."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the table; the queries that run now are recorded at their next start."""
    op.create_table(
        "queries",
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False, comment="within the stream; empty for its only query"),
        sa.Column("checkpoint", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False, comment="as the query itself has it"),
        sa.Column("driver_id", sa.String(255), nullable=False, comment="driver of the newest run"),
        sa.Column("query_id", sa.String(255), nullable=False),
        sa.Column("run_id", sa.String(255), nullable=False),
        sa.Column("first_at", sa.Double(), nullable=False, comment="when the query was first seen"),
        sa.Column("started_at", sa.Double(), nullable=False, comment="when the newest run started"),
        sa.Column(
            "ended_at", sa.Double(), nullable=True, comment="when that run ended; a killed driver could not tell"
        ),
        sa.Column(
            "error", sa.Text(), nullable=True, comment="why it ended; empty if it was stopped or came to its end"
        ),
        sa.PrimaryKeyConstraint("stream", "name", name="pk_queries"),
        comment="One row a query of a stream, as its newest run has it",
    )
