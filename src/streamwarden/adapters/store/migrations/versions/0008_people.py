"""Records what people do about incidents, and what they mute."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "incident_actions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("incident_id", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(255), nullable=False, comment="acknowledged, withdrawn or commented"),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column(
            "status", sa.String(255), nullable=False, comment="of the incident with its consequences at that time"
        ),
        sa.Column("text", sa.Text(), nullable=False, comment="the comment; empty if none was given"),
        sa.PrimaryKeyConstraint("id", name="pk_incident_actions"),
        comment="What people did about incidents, in order; only ever added to",
    )
    op.create_index("ix_incident_actions_incident_id", "incident_actions", ["incident_id"])
    op.create_table(
        "mutes",
        sa.Column("mute_id", sa.String(255), nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("starts_at", sa.Double(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("streams", sa.Text(), nullable=False, comment="streams and queries; empty: the whole fleet"),
        sa.Column("checks", sa.Text(), nullable=False, comment="names of checks; empty: every check"),
        sa.Column(
            "tag",
            sa.String(255),
            nullable=False,
            comment="the tag by which the streams were chosen; empty if they were named",
        ),
        sa.Column("planned", sa.Boolean(), nullable=False, comment="a maintenance window"),
        sa.Column("ended_at", sa.Double(), nullable=True, comment="when a person ended it before its time"),
        sa.Column("ended_by", sa.String(255), nullable=True),
        sa.Column("ended_reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("mute_id", name="pk_mutes"),
        comment="Mutes and maintenance windows: nothing is sent of what they cover",
    )
    op.create_index("ix_mutes_until", "mutes", ["until"])
