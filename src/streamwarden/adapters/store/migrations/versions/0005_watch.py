"""Records each evaluation, what each channel was sent of each incident, and since when each drill is scheduled."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the tables. What was notified before counts for every channel."""
    op.create_table(
        "evaluations",
        sa.Column("evaluator", sa.String(255), nullable=False, comment="dag, watch or shell"),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("at", sa.Double(), nullable=False, comment="when the evaluation was completed"),
        sa.Column("seconds", sa.Double(), nullable=False, comment="how long it took"),
        sa.Column("streams", sa.BigInteger(), nullable=False, comment="streams that were judged"),
        sa.Column("failures", sa.BigInteger(), nullable=False, comment="files and services that could not be read"),
        sa.PrimaryKeyConstraint("evaluator", "host", name="pk_evaluations"),
        comment="The newest evaluation of each kind of process and host; a round that fails leaves no row",
    )
    op.create_table(
        "deliveries",
        sa.Column(
            "subject",
            sa.String(255),
            nullable=False,
            comment="an incident's id, `crash:DRIVER`, or `run:` with a digest of DAG and run",
        ),
        sa.Column("channel", sa.String(255), nullable=False, comment="empty: every channel that has no row itself"),
        sa.Column("sent_at", sa.Double(), nullable=True, comment="empty if no message was accepted yet"),
        sa.Column("sent_status", sa.String(255), nullable=True, comment="status of the incident in that message"),
        sa.Column("failed_at", sa.Double(), nullable=True, comment="when the channel refused the newest message"),
        sa.Column("attempts", sa.BigInteger(), nullable=False, comment="grows with each claim"),
        sa.PrimaryKeyConstraint("subject", "channel", name="pk_deliveries"),
        comment="What each channel was sent last of each incident and event; a row is claimed before a message is sent",
    )
    op.create_table(
        "drill_schedules",
        sa.Column("drill", sa.String(255), nullable=False),
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False, comment="when this schedule was first seen not paused"),
        sa.PrimaryKeyConstraint("drill", name="pk_drill_schedules"),
        comment="The drills that Airflow runs on a schedule; a paused drill has no row",
    )
    op.execute(
        "INSERT INTO deliveries (subject, channel, sent_at, sent_status, attempts) "
        "SELECT incident_id, '', notified_at, notified_status, 1 FROM incidents WHERE notified_at IS NOT NULL"
    )
    op.drop_column("incidents", "notified_at")
    op.drop_column("incidents", "notified_status")
