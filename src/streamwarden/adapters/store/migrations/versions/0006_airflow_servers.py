"""The Airflow installations that run the streams of this store: a shell finds their API servers here."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the table; each installation records itself when its tasks run next."""
    op.create_table(
        "airflow_servers",
        sa.Column("url", sa.String(255), nullable=False, comment="address of the API server; it holds no account"),
        sa.Column("seen_at", sa.Double(), nullable=False, comment="when a task of that installation last recorded it"),
        sa.PrimaryKeyConstraint("url", name="pk_airflow_servers"),
        comment="Airflow installations that run the streams of this store",
    )
