"""Each batch says how many of its input rows could not be used."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; of batches before this it is not known."""
    comment = "of these, rows that could not be used and were kept aside"
    op.add_column("batches", sa.Column("malformed", sa.BigInteger(), nullable=True, comment=comment))
