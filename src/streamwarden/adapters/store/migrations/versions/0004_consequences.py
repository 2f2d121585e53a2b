"""An incident may be a consequence of another one: one dead stream is one incident."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column; the incidents that are open now are linked by the next evaluation."""
    comment = "the incident that caused this one; empty for a root incident: only root incidents notify"
    op.add_column("incidents", sa.Column("consequence_of", sa.String(255), nullable=True, comment=comment))
