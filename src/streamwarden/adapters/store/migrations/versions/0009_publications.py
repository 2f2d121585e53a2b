"""Up to which batch each stream's progress was published as an asset event."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Create the table; the first event of a stream covers all batches that the store has."""
    op.create_table(
        "publications",
        sa.Column("stream", sa.String(255), nullable=False, comment="a stream, or STREAM/QUERY"),
        sa.Column(
            "pending", sa.Boolean(), nullable=False, comment="whether its run published it is not known until the next"
        ),
        sa.Column("query_id", sa.String(255), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), nullable=False, comment="newest batch that the event covers"),
        sa.Column("batch_at", sa.Double(), nullable=False, comment="as `at` of that batch"),
        sa.Column("published_at", sa.Double(), nullable=False, comment="when the event was made"),
        sa.Column("run", sa.Text(), nullable=False, comment="DAG run that publishes it"),
        sa.PrimaryKeyConstraint("stream", "pending", name="pk_publications"),
        comment="What was published last of each stream as an asset event, and what a run is publishing",
    )
