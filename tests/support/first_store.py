"""A store as version 0.1.0 made it, written out: the revisions have to bring it to the tables of any later version."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from alembic.migration import MigrationContext
from alembic.operations import Operations

_NAME = sa.String(255)
_TEXT = sa.Text()
_NUMBER: sa.Double[float] = sa.Double()
_COUNT = sa.BigInteger()
_SMALL = sa.Integer()
_FLAG = sa.Boolean()
_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite numbers only an INTEGER by itself


def make_first_store(url: str) -> None:
    """Make the tables of version 0.1.0 in an empty database."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        with Operations.context(MigrationContext.configure(connection)):
            _create_tables()
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        connection.execute(sa.text("INSERT INTO alembic_version VALUES ('v0001')"))
    engine.dispose()


def _required(name: str, kind: Any, comment: str | None = None) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, comment=comment)


def _optional(name: str, kind: Any, comment: str | None = None) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True, comment=comment)


def _unique_while_empty(index: str, table: str, columns: list[str], empty: str) -> None:
    where = sa.text(f"{empty} IS NULL")
    op.create_index(index, table, columns, unique=True, sqlite_where=where, postgresql_where=where)


def _create_tables() -> None:
    op.create_table(
        "batches",
        _required("stream", _NAME),
        _required("query_id", _NAME),
        _required("batch_id", _COUNT),
        _optional("run_id", _NAME, "run that reported the batch; empty when known from the logs only"),
        _required("at", _NUMBER, "orders the batches of a stream: committed, else started, else planned"),
        _optional("planned_at", _NUMBER, "modification time of offsets/N"),
        _optional("committed_at", _NUMBER, "modification time of commits/N"),
        _optional("started_at", _NUMBER, "start of the trigger, as Spark reported it"),
        _required("executed", _FLAG, "a report of a batch that ran, not of an idle trigger"),
        _optional("duration_ms", _COUNT, "wall time of the trigger"),
        _optional("planning_ms", _COUNT, "wall time of latestOffset, getBatch and queryPlanning"),
        _optional(
            "execution_ms", _COUNT, "wall time of addBatch: the batch itself, its sink and the commit of its state"
        ),
        _optional("logs_ms", _COUNT, "wall time of walCommit and commitOffsets"),
        _optional("rows", _COUNT, "input rows"),
        _optional(
            "malformed",
            _COUNT,
            "of these, rows that could not be used; they go to the quarantine, if the stream declares one",
        ),
        _optional("watermark", _NUMBER, "event-time watermark in force"),
        _required("origin", _NAME, "progress: Spark reported the batch; logs: its report was lost"),
        _optional("progress", _TEXT, "Spark's report, JSON as received"),
        sa.PrimaryKeyConstraint("stream", "query_id", "batch_id", name="pk_batches"),
        comment="One row a micro-batch; raw, kept for days",
    )
    op.create_index("ix_batches_stream_at", "batches", ["stream", "at"])
    op.create_table(
        "state_operators",
        _required("stream", _NAME),
        _required("query_id", _NAME),
        _required("batch_id", _COUNT),
        _required("operator", _SMALL, "position in the report"),
        _required("name", _NAME),
        _required("rows_total", _COUNT),
        _required("rows_updated", _COUNT),
        _required("rows_removed", _COUNT),
        _required("rows_dropped", _COUNT, "rows later than the watermark"),
        _required("memory_bytes", _COUNT),
        _optional("sst_bytes", _COUNT, "RocksDB's SST files; empty in a batch without a flush, where Spark reports 0"),
        _required("update_ms", _COUNT, "sum over tasks"),
        _required("removal_ms", _COUNT, "sum over tasks"),
        _required("commit_ms", _COUNT, "sum over tasks"),
        _optional("partitions", _SMALL, "state store instances that took part"),
        sa.PrimaryKeyConstraint("stream", "query_id", "batch_id", "operator", name="pk_state_operators"),
        comment="One row a stateful operator and micro-batch; lives as long as its batch",
    )
    op.create_table(
        "measurements",
        _required("stream", _NAME),
        _required("at", _NUMBER),
        _required("name", _NAME),
        _required("source", _NAME, "where the number came from"),
        _required("value", _NUMBER),
        _required("unit", _NAME),
        sa.PrimaryKeyConstraint("stream", "at", "name", "source", name="pk_measurements"),
        comment="Numbers that no progress report holds: resident memory, bytes under state/, …; raw, kept for days",
    )
    op.create_table(
        "hourly",
        _required("stream", _NAME),
        _required("hour", _COUNT, "start of the hour"),
        _required("name", _NAME, "a measurement's name, or progress.*"),
        _required("source", _NAME, "as in measurements; Spark for progress.*"),
        _required("unit", _NAME),
        _required("samples", _COUNT),
        _required("total", _NUMBER, "sum of the samples; mean = total / samples"),
        _required("least", _NUMBER),
        _required("most", _NUMBER),
        sa.PrimaryKeyConstraint("stream", "hour", "name", "source", name="pk_hourly"),
        comment="Roll-ups of batches and measurements, kept for more than a year",
    )
    op.create_table(
        "unrolled_hours",
        _required("stream", _NAME),
        _required("hour", _COUNT, "start of the hour"),
        sa.PrimaryKeyConstraint("stream", "hour", name="pk_unrolled_hours"),
        comment="Hours whose rows changed since they were last rolled up",
    )
    op.create_table(
        "retention",
        _required("what", _NAME),
        _required("before", _NUMBER, "older rows were pruned, and late ones are not taken any more"),
        sa.PrimaryKeyConstraint("what", name="pk_retention"),
        comment="How far pruning has come",
    )
    op.create_table(
        "leases",
        _required("checkpoint_key", _NAME, "SHA-256 of `checkpoint`: a path may be longer than an index takes"),
        _required("token", _COUNT, "fencing token: grows with each new holder"),
        _required("checkpoint", _TEXT, "what is claimed: a checkpoint, or `stream:NAME`"),
        _required("stream", _NAME),
        _required("holder", _NAME, "driver id"),
        _optional("host", _NAME),
        _optional("pid", _COUNT),
        _optional("process_started_at", _COUNT, "clock ticks since boot"),
        _required("acquired_at", _NUMBER),
        _required("renewed_at", _NUMBER),
        _required("expires_at", _NUMBER),
        _optional("released_at", _NUMBER),
        _optional("superseded_at", _NUMBER, "when the next holder took over; empty in the one current row of a claim"),
        sa.PrimaryKeyConstraint("checkpoint_key", "token", name="pk_leases"),
        comment="Every claim of every lease that was ever granted: a driver claims its stream and each checkpoint",
    )
    _unique_while_empty("uq_leases_current", "leases", ["checkpoint_key"], "superseded_at")
    op.create_table(
        "drivers",
        _required("driver_id", _NAME),
        _required("stream", _NAME),
        _required("checkpoint", _TEXT),
        _required("token", _COUNT, "fencing token of its lease"),
        _required("folder", _TEXT, "its log and its files"),
        _required("launched_by", _NAME),
        _required("launched_at", _NUMBER),
        _optional("host", _NAME),
        _optional("pid", _COUNT),
        _optional("process_started_at", _COUNT, "clock ticks since boot"),
        _optional("query_id", _NAME),
        _optional("run_id", _NAME),
        _optional("started_at", _NUMBER, "when its query ran"),
        _optional("exit_kind", _NAME),
        _optional("exit_at", _NUMBER),
        _optional("exit", _TEXT, "the whole exit record"),
        sa.PrimaryKeyConstraint("driver_id", name="pk_drivers"),
        comment="One row a driver process, from launch to a recorded exit",
    )
    op.create_index("ix_drivers_stream_launched_at", "drivers", ["stream", "launched_at"])
    op.create_table(
        "queries",
        _required("stream", _NAME),
        _required("name", _NAME, "within the stream; empty for its only query"),
        _required("checkpoint", _TEXT),
        _required("trigger", _TEXT, "as the query itself has it"),
        _required("driver_id", _NAME, "driver of the newest run"),
        _required("query_id", _NAME),
        _required("run_id", _NAME),
        _required("first_at", _NUMBER, "when the query was first seen"),
        _required("started_at", _NUMBER, "when the newest run started"),
        _optional("ended_at", _NUMBER, "when that run ended; a killed driver could not tell"),
        _optional("error", _TEXT, "why it ended; empty if it was stopped or came to its end"),
        sa.PrimaryKeyConstraint("stream", "name", name="pk_queries"),
        comment="One row a query of a stream, as its newest run has it",
    )
    op.create_table(
        "driver_events",
        _required("id", _SERIAL),
        _required("digest", _NAME, "SHA-256 of the event: the same event is kept once"),
        _required("driver_id", _NAME),
        _required("at", _NUMBER),
        _required("kind", _NAME),
        _required("detail", _TEXT),
        sa.PrimaryKeyConstraint("id", name="pk_driver_events"),
        sa.UniqueConstraint("digest", name="uq_driver_events_digest"),
        comment="What happened to a driver: signals sent, stops requested, reattached, …",
    )
    op.create_index("ix_driver_events_driver_id_at", "driver_events", ["driver_id", "at"])
    op.create_table(
        "stop_requests",
        _required("id", _SERIAL),
        _required("driver_id", _NAME),
        _required("requested_by", _NAME),
        _required("reason", _TEXT),
        _required("requested_at", _NUMBER),
        _required("batch_deadline", _NUMBER, "SIGTERM is due"),
        _required("kill_deadline", _NUMBER, "SIGKILL is due"),
        _required("restart", _FLAG),
        sa.PrimaryKeyConstraint("id", name="pk_stop_requests"),
        comment="Every stop that was asked for; the latest of a driver counts",
    )
    op.create_index("ix_stop_requests_driver_id_requested_at", "stop_requests", ["driver_id", "requested_at"])
    op.create_table(
        "desired_states",
        _required("stream", _NAME),
        _required("desired", _NAME),
        _required("changed_by", _NAME),
        _required("reason", _TEXT),
        _required("changed_at", _NUMBER),
        _optional("begin_anew", _TEXT, "why the next launch may begin anew"),
        sa.PrimaryKeyConstraint("stream", name="pk_desired_states"),
        comment="What people want of a stream",
    )
    op.create_table(
        "airflow_servers",
        _required("url", _NAME, "address of the API server; it holds no account"),
        _required("seen_at", _NUMBER, "when a task of that installation last recorded it"),
        sa.PrimaryKeyConstraint("url", name="pk_airflow_servers"),
        comment="Airflow installations that run the streams of this store",
    )
    op.create_table(
        "verdicts",
        _required("stream", _NAME),
        _required("check_name", _NAME),
        _required("status", _NAME),
        _required("at", _NUMBER),
        _optional("value", _NUMBER),
        _required("unit", _NAME),
        _required("reason", _TEXT),
        _required("advice", _TEXT),
        _required("evidence", _TEXT),
        sa.PrimaryKeyConstraint("stream", "check_name", name="pk_verdicts"),
        comment="The newest verdict of each stream and check",
    )
    op.create_table(
        "verdict_changes",
        _required("id", _SERIAL),
        _required("stream", _NAME),
        _required("check_name", _NAME),
        _required("status", _NAME),
        _required("at", _NUMBER),
        _optional("value", _NUMBER),
        _required("unit", _NAME),
        _required("reason", _TEXT),
        _required("advice", _TEXT),
        _required("evidence", _TEXT),
        sa.PrimaryKeyConstraint("id", name="pk_verdict_changes"),
        comment="A verdict each time its status changed",
    )
    op.create_index("ix_verdict_changes_stream_at", "verdict_changes", ["stream", "at"])
    op.create_table(
        "incidents",
        _required("incident_id", _NAME),
        _required("stream", _NAME),
        _required("check_name", _NAME),
        _required("status", _NAME),
        _required("peak", _NAME, "worst status it ever had"),
        _required("good", _SMALL, "good verdicts in a row since the last bad one"),
        _required("opened_at", _NUMBER),
        _required("updated_at", _NUMBER),
        _optional("resolved_at", _NUMBER),
        _required("reason", _TEXT),
        _required("advice", _TEXT),
        _optional("evidence", _TEXT, "of the newest verdict that was not good; empty if it had none"),
        _optional(
            "consequence_of",
            _NAME,
            "the incident that caused this one; empty for a root incident: only root incidents notify",
        ),
        sa.PrimaryKeyConstraint("incident_id", name="pk_incidents"),
        comment="Open and past problems; at most one open of a stream and a check",
    )
    op.create_index("ix_incidents_stream_opened_at", "incidents", ["stream", "opened_at"])
    _unique_while_empty("uq_incidents_open", "incidents", ["stream", "check_name"], "resolved_at")
    op.create_table(
        "incident_actions",
        _required("id", _SERIAL),
        _required("incident_id", _NAME),
        _required("kind", _NAME, "acknowledged, withdrawn or commented"),
        _required("who", _NAME),
        _required("at", _NUMBER),
        _required("status", _NAME, "of the incident with its consequences at that time"),
        _required("text", _TEXT, "the comment; empty if none was given"),
        sa.PrimaryKeyConstraint("id", name="pk_incident_actions"),
        comment="What people did about incidents, in order; only ever added to",
    )
    op.create_index("ix_incident_actions_incident_id", "incident_actions", ["incident_id"])
    op.create_table(
        "mutes",
        _required("mute_id", _NAME),
        _required("who", _NAME),
        _required("reason", _TEXT),
        _required("created_at", _NUMBER),
        _required("starts_at", _NUMBER),
        _required("until", _NUMBER),
        _required("streams", _TEXT, "streams and queries; empty: the whole fleet"),
        _required("checks", _TEXT, "names of checks; empty: every check"),
        _required("tag", _NAME, "the tag by which the streams were chosen; empty if they were named"),
        _required("planned", _FLAG, "a maintenance window"),
        _optional("ended_at", _NUMBER, "when a person ended it before its time"),
        _optional("ended_by", _NAME),
        _optional("ended_reason", _TEXT),
        sa.PrimaryKeyConstraint("mute_id", name="pk_mutes"),
        comment="Mutes and maintenance windows: nothing is sent of what they cover",
    )
    op.create_index("ix_mutes_until", "mutes", ["until"])
    op.create_table(
        "drills",
        _required("run_id", _NAME),
        _required("drill", _NAME),
        _required("stream", _NAME),
        _required("started_at", _NUMBER),
        _optional("ended_at", _NUMBER),
        _required("status", _NAME, "did the drill complete"),
        _optional("deviated", _FLAG, "did the system deviate; empty if the run could not decide it"),
        _required("reason", _TEXT),
        _required("facts", _TEXT),
        sa.PrimaryKeyConstraint("run_id", name="pk_drills"),
        comment="Drill runs",
    )
    op.create_index("ix_drills_started_at", "drills", ["started_at"])
    op.create_table(
        "trials",
        _required("run_id", _NAME),
        _required("number", _COUNT, "of the fault in its run, from 0"),
        _required("drill", _NAME),
        _required("stream", _NAME),
        _required("fault", _NAME, "its kind"),
        _required("variant", _NAME, "the options that make it another experiment; empty if there are none"),
        _required("started_at", _NUMBER, "of the run"),
        _required("verdict", _NAME, "of the run"),
        _optional("recovery_seconds", _NUMBER, "from the fault; empty if the stream did not come back"),
        _optional("measured_seconds", _NUMBER, "what the formulas predict: from the launch, or from the fault"),
        _required("predicted", _TEXT, "formula -> seconds"),
        _required("phase", _NAME, "of the batch that the fault cut, in words; empty: none"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_trials"),
        comment="The faults of the drill runs that ended, without the facts of the runs",
    )
    op.create_index("ix_trials_stream_drill_started_at", "trials", ["stream", "drill", "started_at"])
    op.create_table(
        "journal_entries",
        _required("id", _SERIAL),
        _required("run_id", _NAME),
        _required("step", _NAME),
        _required("at", _NUMBER),
        _required("kind", _NAME),
        _required("message", _TEXT),
        _required("data", _TEXT),
        sa.PrimaryKeyConstraint("id", name="pk_journal_entries"),
        comment="What a drill saw, in order; only ever added to",
    )
    op.create_index("ix_journal_entries_run_id", "journal_entries", ["run_id"])
    op.create_table(
        "evaluations",
        _required("evaluator", _NAME, "dag, watch or shell"),
        _required("host", _NAME),
        _required("at", _NUMBER, "when the evaluation was completed"),
        _required("seconds", _NUMBER, "how long it took"),
        _required("streams", _COUNT, "streams that were judged"),
        _required("failures", _COUNT, "files and services that could not be read"),
        sa.PrimaryKeyConstraint("evaluator", "host", name="pk_evaluations"),
        comment="The newest evaluation of each kind of process and host; a round that fails leaves no row",
    )
    op.create_table(
        "deliveries",
        _required("subject", _NAME, "an incident's id, `crash:DRIVER`, or `run:` with a digest of DAG and run"),
        _required("channel", _NAME),
        _optional("sent_at", _NUMBER, "empty if no message was accepted yet"),
        _optional("sent_status", _NAME, "status of the incident in that message"),
        _optional("failed_at", _NUMBER, "when the channel refused the newest message"),
        _required("attempts", _COUNT, "grows with each claim"),
        sa.PrimaryKeyConstraint("subject", "channel", name="pk_deliveries"),
        comment="What each channel was sent last of each incident and event; a row is claimed before a message is sent",
    )
    op.create_table(
        "drill_schedules",
        _required("drill", _NAME),
        _required("schedule", _TEXT),
        _required("since", _NUMBER, "when this schedule was first seen not paused"),
        sa.PrimaryKeyConstraint("drill", name="pk_drill_schedules"),
        comment="The drills that Airflow runs on a schedule; a paused drill has no row",
    )
    op.create_table(
        "publications",
        _required("stream", _NAME, "a stream, or STREAM/QUERY"),
        _required("pending", _FLAG, "whether its run published it is not known until the next"),
        _required("query_id", _NAME),
        _required("batch_id", _COUNT, "newest batch that the event covers"),
        _required("batch_at", _NUMBER, "as `at` of that batch"),
        _required("published_at", _NUMBER, "when the event was made"),
        _required("run", _TEXT, "DAG run that publishes it"),
        sa.PrimaryKeyConstraint("stream", "pending", name="pk_publications"),
        comment="What was published last of each stream as an asset event, and what a run is publishing",
    )
