"""The first tables.

Written out, not taken from `tables.py`: a revision says for ever what it did.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table and index."""
    op.create_table(
        "batches",
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("query_id", sa.String(255), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "run_id",
            sa.String(255),
            nullable=True,
            comment="run that reported the batch; empty when known from the logs only",
        ),
        sa.Column(
            "at",
            sa.Double(),
            nullable=False,
            comment="orders the batches of a stream: committed, else started, else planned",
        ),
        sa.Column("planned_at", sa.Double(), nullable=True, comment="modification time of offsets/N"),
        sa.Column("committed_at", sa.Double(), nullable=True, comment="modification time of commits/N"),
        sa.Column("started_at", sa.Double(), nullable=True, comment="start of the trigger, as Spark reported it"),
        sa.Column(
            "executed", sa.Boolean(), nullable=False, comment="a report of a batch that ran, not of an idle trigger"
        ),
        sa.Column("duration_ms", sa.BigInteger(), nullable=True, comment="wall time of the trigger"),
        sa.Column("rows", sa.BigInteger(), nullable=True, comment="input rows"),
        sa.Column("watermark", sa.Double(), nullable=True, comment="event-time watermark in force"),
        sa.Column(
            "origin",
            sa.String(255),
            nullable=False,
            comment="progress: Spark reported the batch; logs: its report was lost",
        ),
        sa.Column("progress", sa.Text(), nullable=True, comment="Spark's report, JSON as received"),
        sa.PrimaryKeyConstraint("stream", "query_id", "batch_id", name="pk_batches"),
        comment="One row a micro-batch; raw, kept for days",
    )
    op.create_index("ix_batches_stream_at", "batches", ["stream", "at"], unique=False)
    op.create_table(
        "desired_states",
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("desired", sa.String(255), nullable=False),
        sa.Column("changed_by", sa.String(255), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("stream", name="pk_desired_states"),
        comment="What people want of a stream",
    )
    op.create_table(
        "drills",
        sa.Column("run_id", sa.String(255), nullable=False),
        sa.Column("drill", sa.String(255), nullable=False),
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("status", sa.String(255), nullable=False, comment="did the drill complete"),
        sa.Column(
            "deviated", sa.Boolean(), nullable=True, comment="did the system deviate; empty when nobody can tell"
        ),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_drills"),
        comment="Drill runs",
    )
    op.create_index("ix_drills_started_at", "drills", ["started_at"], unique=False)
    op.create_table(
        "driver_events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column(
            "digest", sa.String(255), nullable=False, comment="SHA-256 of the event: the same event is kept once"
        ),
        sa.Column("driver_id", sa.String(255), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(255), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_driver_events"),
        sa.UniqueConstraint("digest", name="uq_driver_events_digest"),
        comment="What happened to a driver: signals sent, stops requested, reattached, …",
    )
    op.create_index("ix_driver_events_driver_id_at", "driver_events", ["driver_id", "at"], unique=False)
    op.create_table(
        "drivers",
        sa.Column("driver_id", sa.String(255), nullable=False),
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("checkpoint", sa.Text(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False, comment="fencing token of its lease"),
        sa.Column("folder", sa.Text(), nullable=False, comment="its log and its files"),
        sa.Column("launched_by", sa.String(255), nullable=False),
        sa.Column("launched_at", sa.Double(), nullable=False),
        sa.Column("host", sa.String(255), nullable=True),
        sa.Column("pid", sa.BigInteger(), nullable=True),
        sa.Column("process_started_at", sa.BigInteger(), nullable=True, comment="clock ticks since boot"),
        sa.Column("query_id", sa.String(255), nullable=True),
        sa.Column("run_id", sa.String(255), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=True, comment="when its query ran"),
        sa.Column("exit_kind", sa.String(255), nullable=True),
        sa.Column("exit_at", sa.Double(), nullable=True),
        sa.Column("exit", sa.Text(), nullable=True, comment="the whole exit record"),
        sa.PrimaryKeyConstraint("driver_id", name="pk_drivers"),
        comment="One row a driver process, from launch to a recorded exit",
    )
    op.create_index("ix_drivers_stream_launched_at", "drivers", ["stream", "launched_at"], unique=False)
    op.create_table(
        "hourly",
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False, comment="start of the hour"),
        sa.Column("name", sa.String(255), nullable=False, comment="a measurement's name, or progress.*"),
        sa.Column("source", sa.String(255), nullable=False, comment="as in measurements; Spark for progress.*"),
        sa.Column("unit", sa.String(255), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.Double(), nullable=False, comment="sum of the samples; mean = total / samples"),
        sa.Column("least", sa.Double(), nullable=False),
        sa.Column("most", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("stream", "hour", "name", "source", name="pk_hourly"),
        comment="Roll-ups of batches and measurements, kept for more than a year",
    )
    op.create_table(
        "incidents",
        sa.Column("incident_id", sa.String(255), nullable=False),
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("check_name", sa.String(255), nullable=False),
        sa.Column("status", sa.String(255), nullable=False),
        sa.Column("peak", sa.String(255), nullable=False, comment="worst status it ever had"),
        sa.Column("good", sa.Integer(), nullable=False, comment="good verdicts in a row since the last bad one"),
        sa.Column("opened_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("resolved_at", sa.Double(), nullable=True),
        sa.Column("notified_at", sa.Double(), nullable=True),
        sa.Column("notified_status", sa.String(255), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("advice", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("incident_id", name="pk_incidents"),
        comment="Open and past problems; at most one open of a stream and a check",
    )
    op.create_index("ix_incidents_stream_opened_at", "incidents", ["stream", "opened_at"], unique=False)
    op.create_index(
        "uq_incidents_open",
        "incidents",
        ["stream", "check_name"],
        unique=True,
        sqlite_where=sa.text("resolved_at IS NULL"),
        postgresql_where=sa.text("resolved_at IS NULL"),
    )
    op.create_table(
        "journal_entries",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("run_id", sa.String(255), nullable=False),
        sa.Column("step", sa.String(255), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(255), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_journal_entries"),
        comment="What a drill saw, in order; only ever added to",
    )
    op.create_index("ix_journal_entries_run_id", "journal_entries", ["run_id"], unique=False)
    op.create_table(
        "leases",
        sa.Column(
            "checkpoint_key",
            sa.String(255),
            nullable=False,
            comment="SHA-256 of the checkpoint: a path may be longer than an index takes",
        ),
        sa.Column(
            "token",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="fencing token: grows with each new holder",
        ),
        sa.Column("checkpoint", sa.Text(), nullable=False),
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("holder", sa.String(255), nullable=False, comment="driver id"),
        sa.Column("host", sa.String(255), nullable=True),
        sa.Column("pid", sa.BigInteger(), nullable=True),
        sa.Column("process_started_at", sa.BigInteger(), nullable=True, comment="clock ticks since boot"),
        sa.Column("acquired_at", sa.Double(), nullable=False),
        sa.Column("renewed_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("released_at", sa.Double(), nullable=True),
        sa.Column(
            "superseded_at",
            sa.Double(),
            nullable=True,
            comment="when the next holder took over; empty in the one current lease of a checkpoint",
        ),
        sa.PrimaryKeyConstraint("checkpoint_key", "token", name="pk_leases"),
        comment="Every lease that was ever granted",
    )
    op.create_index(
        "uq_leases_current",
        "leases",
        ["checkpoint_key"],
        unique=True,
        sqlite_where=sa.text("superseded_at IS NULL"),
        postgresql_where=sa.text("superseded_at IS NULL"),
    )
    op.create_table(
        "measurements",
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("source", sa.String(255), nullable=False, comment="where the number came from"),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("unit", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("stream", "at", "name", "source", name="pk_measurements"),
        comment="Numbers that no progress report holds: resident memory, bytes under state/, …; raw, kept for days",
    )
    op.create_table(
        "retention",
        sa.Column("what", sa.String(255), nullable=False),
        sa.Column(
            "before",
            sa.Double(),
            nullable=False,
            comment="older rows were pruned, and late ones are not taken any more",
        ),
        sa.PrimaryKeyConstraint("what", name="pk_retention"),
        comment="How far pruning has come",
    )
    op.create_table(
        "state_operators",
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("query_id", sa.String(255), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("operator", sa.Integer(), autoincrement=False, nullable=False, comment="position in the report"),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("rows_total", sa.BigInteger(), nullable=False),
        sa.Column("rows_updated", sa.BigInteger(), nullable=False),
        sa.Column("rows_removed", sa.BigInteger(), nullable=False),
        sa.Column("rows_dropped", sa.BigInteger(), nullable=False, comment="rows later than the watermark"),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column(
            "sst_bytes",
            sa.BigInteger(),
            nullable=True,
            comment="RocksDB's SST files; empty in a batch without a flush, where Spark reports 0",
        ),
        sa.Column("update_ms", sa.BigInteger(), nullable=False, comment="sum over tasks"),
        sa.Column("removal_ms", sa.BigInteger(), nullable=False, comment="sum over tasks"),
        sa.Column("commit_ms", sa.BigInteger(), nullable=False, comment="sum over tasks"),
        sa.Column("partitions", sa.Integer(), nullable=True, comment="state store instances that took part"),
        sa.PrimaryKeyConstraint("stream", "query_id", "batch_id", "operator", name="pk_state_operators"),
        comment="One row a stateful operator and micro-batch; lives as long as its batch",
    )
    op.create_table(
        "stop_requests",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("driver_id", sa.String(255), nullable=False),
        sa.Column("requested_by", sa.String(255), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("requested_at", sa.Double(), nullable=False),
        sa.Column("batch_deadline", sa.Double(), nullable=False, comment="SIGTERM is due"),
        sa.Column("kill_deadline", sa.Double(), nullable=False, comment="SIGKILL is due"),
        sa.Column("restart", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_stop_requests"),
        comment="Every stop that was asked for; the latest of a driver counts",
    )
    op.create_index(
        "ix_stop_requests_driver_id_requested_at", "stop_requests", ["driver_id", "requested_at"], unique=False
    )
    op.create_table(
        "unrolled_hours",
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False, comment="start of the hour"),
        sa.PrimaryKeyConstraint("stream", "hour", name="pk_unrolled_hours"),
        comment="Hours whose rows changed since they were last rolled up",
    )
    op.create_table(
        "verdict_changes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("check_name", sa.String(255), nullable=False),
        sa.Column("status", sa.String(255), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("unit", sa.String(255), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("advice", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_verdict_changes"),
        comment="A verdict each time its status changed",
    )
    op.create_index("ix_verdict_changes_stream_at", "verdict_changes", ["stream", "at"], unique=False)
    op.create_table(
        "verdicts",
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("check_name", sa.String(255), nullable=False),
        sa.Column("status", sa.String(255), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("unit", sa.String(255), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("advice", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("stream", "check_name", name="pk_verdicts"),
        comment="The newest verdict of each stream and check",
    )
