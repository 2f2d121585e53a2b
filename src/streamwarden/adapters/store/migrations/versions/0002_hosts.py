"""Adds the tables of hosts: what each reports, and which are drained.

The columns are written out: `tables.py` is what a later version has.
"""

import sqlalchemy as sa
from alembic import op

from streamwarden.adapters.store.sanitize import JsonText, Name, Place, Prose

revision = "v0002"
down_revision = "v0001"


def upgrade() -> None:
    """Create the tables `hosts` and `drains`."""
    op.create_table(
        "hosts",
        sa.Column("name", Name, nullable=False),
        sa.Column("identity", Name, nullable=False, comment="host name, boot id and pid namespace"),
        sa.Column("started_at", sa.Double, nullable=False, comment="start of the process that reports"),
        sa.Column("heartbeat_at", sa.Double, nullable=False, comment="by the clock of the store's server"),
        sa.Column("cores", sa.Integer, nullable=False),
        sa.Column("memory_bytes", sa.BigInteger, nullable=False),
        sa.Column("available_bytes", sa.BigInteger, nullable=False, comment="memory that programs can still get"),
        sa.Column("data", Place, nullable=False, comment="its data folder"),
        sa.Column(
            "storage",
            Name,
            nullable=False,
            comment="id that is kept in the data folder: hosts that share the folder report the same",
        ),
        sa.Column("versions", JsonText, nullable=False, comment="of Streamwarden, Spark, Java, Python and Airflow"),
        sa.PrimaryKeyConstraint("name", name="pk_hosts"),
        comment="The newest report of each host that runs drivers; one that reports no more is removed after a week",
    )
    op.create_table(
        "drains",
        sa.Column("host", Name, nullable=False),
        sa.Column("requested_by", Name, nullable=False),
        sa.Column("reason", Prose, nullable=False),
        sa.Column("requested_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("host", name="pk_drains"),
        comment="Hosts that start no driver until a person resumes them",
    )
