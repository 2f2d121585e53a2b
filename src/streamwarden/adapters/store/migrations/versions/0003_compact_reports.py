"""Adds the compact form of a report to the batches: the health checks parse no report that has one.

A driver that an older version started goes on to store reports without it: these are parsed as before.
"""

import sqlalchemy as sa
from alembic import op

from streamwarden.adapters.store.sanitize import Prose

revision = "v0003"
down_revision = "v0002"


def upgrade() -> None:
    """Add the columns `compact` and `compact_at`, empty in the batches that are stored."""
    comment = "what checks and charts read of the report; an older version stores none"
    op.add_column("batches", sa.Column("compact", Prose, nullable=True, comment=comment))
    comment = "`started_at` of the report that `compact` is of: an older version replaces only the report"
    op.add_column("batches", sa.Column("compact_at", sa.Double, nullable=True, comment=comment))
