"""What each run of a drill has shown about each of its faults, in rows without the run's facts."""

import json
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

from streamwarden.adapters.store.drills.trials import rows_of
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.reporting.resilience import trials_of

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Create the table, and fill it from the runs that the store has."""
    trials = op.create_table(
        "trials",
        sa.Column("run_id", sa.String(255), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False, comment="of the fault in its run, from 0"),
        sa.Column("drill", sa.String(255), nullable=False),
        sa.Column("stream", sa.String(255), nullable=False),
        sa.Column("fault", sa.String(255), nullable=False, comment="its kind"),
        sa.Column(
            "variant",
            sa.String(255),
            nullable=False,
            comment="the options that make it another experiment; empty if there are none",
        ),
        sa.Column("started_at", sa.Double(), nullable=False, comment="of the run"),
        sa.Column("verdict", sa.String(255), nullable=False, comment="of the run"),
        sa.Column(
            "recovery_seconds",
            sa.Double(),
            nullable=True,
            comment="from the fault; empty if the stream did not come back",
        ),
        sa.Column(
            "measured_seconds",
            sa.Double(),
            nullable=True,
            comment="what the formulas predict: from the launch, or from the fault",
        ),
        sa.Column("predicted", sa.Text(), nullable=False, comment="formula -> seconds"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_trials"),
        comment="The faults of the drill runs that ended, without the facts of the runs",
    )
    op.create_index("ix_trials_stream_drill_started_at", "trials", ["stream", "drill", "started_at"])
    for run in _ended(op.get_bind()):
        rows = [{**row, "predicted": json.dumps(row["predicted"])} for row in rows_of(trials_of(run))]
        op.bulk_insert(trials, [{each.name: row[each.name] for each in trials.columns} for row in rows])


def _ended(connection: sa.Connection) -> Iterator[DrillRun]:
    """The runs that ended, one after the other."""
    names = ("run_id", "drill", "stream", "started_at", "ended_at", "status", "deviated", "reason", "facts")
    drills = sa.table("drills", *(sa.column(name) for name in names))
    ended = sa.select(drills.c.run_id).where(drills.c.status != DrillStatus.RUNNING.value)
    for run_id in connection.execute(ended).scalars().all():
        row = connection.execute(sa.select(drills).where(drills.c.run_id == run_id)).one()._mapping
        deviated = None if row["deviated"] is None else bool(row["deviated"])
        read = {"status": DrillStatus(row["status"]), "deviated": deviated, "facts": json.loads(row["facts"])}
        yield DrillRun(**{**row, **read})
