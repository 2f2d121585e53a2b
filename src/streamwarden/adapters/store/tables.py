"""The tables of the store. Times are Unix seconds, sizes are bytes; columns named `*_ms` are milliseconds.

The type of a column of text says how its text enters the store; see `text`.
"""

from typing import Any, Final

import sqlalchemy as sa

from streamwarden.adapters.store.sanitize import JsonText, Name, Place, Prose

metadata: Final = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _name(column: str, comment: str = "", **options: Any) -> sa.Column[str]:
    return sa.Column(column, Name, comment=comment or None, **options)


def _time(column: str, comment: str = "", **options: Any) -> sa.Column[float]:
    return sa.Column(column, sa.Double, comment=comment or None, **options)


def _count(column: str, comment: str = "", **options: Any) -> sa.Column[int]:
    return sa.Column(column, sa.BigInteger, comment=comment or None, **options)


def _serial() -> sa.Column[int]:
    """A growing row number: SQLite numbers only a column of type INTEGER by itself."""
    return sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True)


batches: Final = sa.Table(
    "batches",
    metadata,
    _name("stream", primary_key=True),
    _name("query_id", primary_key=True),
    _count("batch_id", primary_key=True, autoincrement=False),
    _name("run_id", "run that reported the batch; empty when known from the logs only"),
    _time("at", "orders the batches of a stream: committed, else started, else planned", nullable=False),
    _time("planned_at", "modification time of offsets/N"),
    _time("committed_at", "modification time of commits/N"),
    _time("started_at", "start of the trigger, as Spark reported it"),
    sa.Column("executed", sa.Boolean, nullable=False, comment="a report of a batch that ran, not of an idle trigger"),
    _count("duration_ms", "wall time of the trigger"),
    _count("planning_ms", "wall time of latestOffset, getBatch and queryPlanning"),
    _count("execution_ms", "wall time of addBatch: the batch itself, its sink and the commit of its state"),
    _count("logs_ms", "wall time of walCommit and commitOffsets"),
    _count("rows", "input rows"),
    _count("malformed", "of these, rows that could not be used; they go to the quarantine, if the stream declares one"),
    _time("watermark", "event-time watermark in force"),
    _name("origin", "progress: Spark reported the batch; logs: its report was lost", nullable=False),
    # Before the report: a database reads a long row only up to the last column that is wanted.
    sa.Column("compact", Prose, comment="what checks and charts read of the report; an older version stores none"),
    _time("compact_at", "`started_at` of the report that `compact` is of: an older version replaces only the report"),
    sa.Column("progress", Prose, comment="Spark's report, JSON as received"),
    sa.Index("ix_batches_stream_at", "stream", "at"),
    comment="One row a micro-batch; raw, kept for days",
)

state_operators: Final = sa.Table(
    "state_operators",
    metadata,
    _name("stream", primary_key=True),
    _name("query_id", primary_key=True),
    _count("batch_id", primary_key=True, autoincrement=False),
    sa.Column("operator", sa.Integer, primary_key=True, autoincrement=False, comment="position in the report"),
    _name("name", nullable=False),
    _count("rows_total", nullable=False),
    _count("rows_updated", nullable=False),
    _count("rows_removed", nullable=False),
    _count("rows_dropped", "rows later than the watermark", nullable=False),
    _count("memory_bytes", nullable=False),
    _count("sst_bytes", "RocksDB's SST files; empty in a batch without a flush, where Spark reports 0"),
    _count("update_ms", "sum over tasks", nullable=False),
    _count("removal_ms", "sum over tasks", nullable=False),
    _count("commit_ms", "sum over tasks", nullable=False),
    sa.Column("partitions", sa.Integer, comment="state store instances that took part"),
    comment="One row a stateful operator and micro-batch; lives as long as its batch",
)

measurements: Final = sa.Table(
    "measurements",
    metadata,
    _name("stream", primary_key=True),
    _time("at", primary_key=True),
    _name("name", primary_key=True),
    _name("source", "where the number came from", primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    _name("unit", nullable=False),
    comment="Numbers that no progress report holds: resident memory, bytes under state/, …; raw, kept for days",
)

hourly: Final = sa.Table(
    "hourly",
    metadata,
    _name("stream", primary_key=True),
    _count("hour", "start of the hour", primary_key=True, autoincrement=False),
    _name("name", "a measurement's name, or progress.*", primary_key=True),
    _name("source", "as in measurements; Spark for progress.*", primary_key=True),
    _name("unit", nullable=False),
    _count("samples", nullable=False),
    sa.Column("total", sa.Double, nullable=False, comment="sum of the samples; mean = total / samples"),
    sa.Column("least", sa.Double, nullable=False),
    sa.Column("most", sa.Double, nullable=False),
    comment="Roll-ups of batches and measurements, kept for more than a year",
)

unrolled_hours: Final = sa.Table(
    "unrolled_hours",
    metadata,
    _name("stream", primary_key=True),
    _count("hour", "start of the hour", primary_key=True, autoincrement=False),
    comment="Hours whose rows changed since they were last rolled up",
)

retention: Final = sa.Table(
    "retention",
    metadata,
    _name("what", primary_key=True),
    _time("before", "older rows were pruned, and late ones are not taken any more", nullable=False),
    comment="How far pruning has come",
)

leases: Final = sa.Table(
    "leases",
    metadata,
    _name("checkpoint_key", "SHA-256 of `checkpoint`: a path may be longer than an index takes", primary_key=True),
    _count("token", "fencing token: grows with each new holder", primary_key=True, autoincrement=False),
    sa.Column("checkpoint", Place, nullable=False, comment="what is claimed: a checkpoint, or `stream:NAME`"),
    _name("stream", nullable=False),
    _name("holder", "driver id", nullable=False),
    _name("host"),
    _count("pid"),
    _count("process_started_at", "clock ticks since boot"),
    _time("acquired_at", nullable=False),
    _time("renewed_at", nullable=False),
    _time("expires_at", nullable=False),
    _time("released_at"),
    _time("superseded_at", "when the next holder took over; empty in the one current row of a claim"),
    comment="Every claim of every lease that was ever granted: a driver claims its stream and each checkpoint",
)
sa.Index(
    "uq_leases_current",
    leases.c.checkpoint_key,
    unique=True,
    sqlite_where=leases.c.superseded_at.is_(None),
    postgresql_where=leases.c.superseded_at.is_(None),
)

drivers: Final = sa.Table(
    "drivers",
    metadata,
    _name("driver_id", primary_key=True),
    _name("stream", nullable=False),
    sa.Column("checkpoint", Place, nullable=False),
    _count("token", "fencing token of its lease", nullable=False),
    sa.Column("folder", Place, nullable=False, comment="its log and its files"),
    _name("launched_by", nullable=False),
    _time("launched_at", nullable=False),
    _name("host"),
    _count("pid"),
    _count("process_started_at", "clock ticks since boot"),
    _name("query_id"),
    _name("run_id"),
    _time("started_at", "when its query ran"),
    _name("exit_kind"),
    _time("exit_at"),
    sa.Column("exit", JsonText, comment="the whole exit record"),
    sa.Index("ix_drivers_stream_launched_at", "stream", "launched_at"),
    comment="One row a driver process, from launch to a recorded exit",
)

queries: Final = sa.Table(
    "queries",
    metadata,
    _name("stream", primary_key=True),
    _name("name", "within the stream; empty for its only query", primary_key=True),
    sa.Column("checkpoint", Place, nullable=False),
    sa.Column("trigger", JsonText, nullable=False, comment="as the query itself has it"),
    _name("driver_id", "driver of the newest run", nullable=False),
    _name("query_id", nullable=False),
    _name("run_id", nullable=False),
    _time("first_at", "when the query was first seen", nullable=False),
    _time("started_at", "when the newest run started", nullable=False),
    _time("ended_at", "when that run ended; a killed driver could not tell"),
    sa.Column("error", Prose, comment="why it ended; empty if it was stopped or came to its end"),
    comment="One row a query of a stream, as its newest run has it",
)

driver_events: Final = sa.Table(
    "driver_events",
    metadata,
    _serial(),
    _name("digest", "SHA-256 of the event: the same event is kept once", unique=True, nullable=False),
    _name("driver_id", nullable=False),
    _time("at", nullable=False),
    _name("kind", nullable=False),
    sa.Column("detail", JsonText, nullable=False),
    sa.Index("ix_driver_events_driver_id_at", "driver_id", "at"),
    comment="What happened to a driver: signals sent, stops requested, reattached, …",
)

stop_requests: Final = sa.Table(
    "stop_requests",
    metadata,
    _serial(),
    _name("driver_id", nullable=False),
    _name("requested_by", nullable=False),
    sa.Column("reason", Prose, nullable=False),
    _time("requested_at", nullable=False),
    _time("batch_deadline", "SIGTERM is due", nullable=False),
    _time("kill_deadline", "SIGKILL is due", nullable=False),
    sa.Column("restart", sa.Boolean, nullable=False),
    sa.Index("ix_stop_requests_driver_id_requested_at", "driver_id", "requested_at"),
    comment="Every stop that was asked for; the latest of a driver counts",
)

desired_states: Final = sa.Table(
    "desired_states",
    metadata,
    _name("stream", primary_key=True),
    _name("desired", nullable=False),
    _name("changed_by", nullable=False),
    sa.Column("reason", Prose, nullable=False),
    _time("changed_at", nullable=False),
    sa.Column("begin_anew", Prose, comment="why the next launch may begin anew"),
    comment="What people want of a stream",
)

airflow_servers: Final = sa.Table(
    "airflow_servers",
    metadata,
    _name("url", "address of the API server; it holds no account", primary_key=True),
    _time("seen_at", "when a task of that installation last recorded it", nullable=False),
    comment="Airflow installations that run the streams of this store",
)


def _verdict_columns() -> tuple[sa.Column[Any], ...]:
    return (
        _name("status", nullable=False),
        _time("at", nullable=False),
        sa.Column("value", sa.Double),
        _name("unit", nullable=False),
        sa.Column("reason", Prose, nullable=False),
        sa.Column("advice", Prose, nullable=False),
        sa.Column("evidence", JsonText, nullable=False),
    )


verdicts: Final = sa.Table(
    "verdicts",
    metadata,
    _name("stream", primary_key=True),
    _name("check_name", primary_key=True),
    *_verdict_columns(),
    comment="The newest verdict of each stream and check",
)

verdict_changes: Final = sa.Table(
    "verdict_changes",
    metadata,
    _serial(),
    _name("stream", nullable=False),
    _name("check_name", nullable=False),
    *_verdict_columns(),
    sa.Index("ix_verdict_changes_stream_at", "stream", "at"),
    comment="A verdict each time its status changed",
)

incidents: Final = sa.Table(
    "incidents",
    metadata,
    _name("incident_id", primary_key=True),
    _name("stream", nullable=False),
    _name("check_name", nullable=False),
    _name("status", nullable=False),
    _name("peak", "worst status it ever had", nullable=False),
    sa.Column("good", sa.Integer, nullable=False, comment="good verdicts in a row since the last bad one"),
    _time("opened_at", nullable=False),
    _time("updated_at", nullable=False),
    _time("resolved_at"),
    sa.Column("reason", Prose, nullable=False),
    sa.Column("advice", Prose, nullable=False),
    sa.Column("evidence", JsonText, comment="of the newest verdict that was not good; empty if it had none"),
    _name("consequence_of", "the incident that caused this one; empty for a root incident: only root incidents notify"),
    sa.Index("ix_incidents_stream_opened_at", "stream", "opened_at"),
    comment="Open and past problems; at most one open of a stream and a check",
)
sa.Index(
    "uq_incidents_open",
    incidents.c.stream,
    incidents.c.check_name,
    unique=True,
    sqlite_where=incidents.c.resolved_at.is_(None),
    postgresql_where=incidents.c.resolved_at.is_(None),
)

incident_actions: Final = sa.Table(
    "incident_actions",
    metadata,
    _serial(),
    _name("incident_id", nullable=False),
    _name("kind", "acknowledged, withdrawn or commented", nullable=False),
    _name("who", nullable=False),
    _time("at", nullable=False),
    _name("status", "of the incident with its consequences at that time", nullable=False),
    sa.Column("text", Prose, nullable=False, comment="the comment; empty if none was given"),
    sa.Index("ix_incident_actions_incident_id", "incident_id"),
    comment="What people did about incidents, in order; only ever added to",
)

mutes: Final = sa.Table(
    "mutes",
    metadata,
    _name("mute_id", primary_key=True),
    _name("who", nullable=False),
    sa.Column("reason", Prose, nullable=False),
    _time("created_at", nullable=False),
    _time("starts_at", nullable=False),
    _time("until", nullable=False),
    sa.Column("streams", JsonText, nullable=False, comment="streams and queries; empty: the whole fleet"),
    sa.Column("checks", JsonText, nullable=False, comment="names of checks; empty: every check"),
    _name("tag", "the tag by which the streams were chosen; empty if they were named", nullable=False),
    sa.Column("planned", sa.Boolean, nullable=False, comment="a maintenance window"),
    _time("ended_at", "when a person ended it before its time"),
    _name("ended_by"),
    sa.Column("ended_reason", Prose),
    sa.Index("ix_mutes_until", "until"),
    comment="Mutes and maintenance windows: nothing is sent of what they cover",
)

drills: Final = sa.Table(
    "drills",
    metadata,
    _name("run_id", primary_key=True),
    _name("drill", nullable=False),
    _name("stream", nullable=False),
    _time("started_at", nullable=False),
    _time("ended_at"),
    _name("status", "did the drill complete", nullable=False),
    sa.Column("deviated", sa.Boolean, comment="did the system deviate; empty if the run could not decide it"),
    sa.Column("reason", Prose, nullable=False),
    sa.Column("facts", JsonText, nullable=False),
    sa.Index("ix_drills_started_at", "started_at"),
    comment="Drill runs",
)

trials: Final = sa.Table(
    "trials",
    metadata,
    _name("run_id", primary_key=True),
    _count("number", "of the fault in its run, from 0", primary_key=True, autoincrement=False),
    _name("drill", nullable=False),
    _name("stream", nullable=False),
    _name("fault", "its kind", nullable=False),
    _name("variant", "the options that make it another experiment; empty if there are none", nullable=False),
    _time("started_at", "of the run", nullable=False),
    _name("verdict", "of the run", nullable=False),
    sa.Column("recovery_seconds", sa.Double, comment="from the fault; empty if the stream did not come back"),
    sa.Column("measured_seconds", sa.Double, comment="what the formulas predict: from the launch, or from the fault"),
    sa.Column("predicted", JsonText, nullable=False, comment="formula -> seconds"),
    _name("phase", "of the batch that the fault cut, in words; empty: none", nullable=False),
    sa.Index("ix_trials_stream_drill_started_at", "stream", "drill", "started_at"),
    comment="The faults of the drill runs that ended, without the facts of the runs",
)

journal_entries: Final = sa.Table(
    "journal_entries",
    metadata,
    _serial(),
    _name("run_id", nullable=False),
    _name("step", nullable=False),
    _time("at", nullable=False),
    _name("kind", nullable=False),
    sa.Column("message", Prose, nullable=False),
    sa.Column("data", JsonText, nullable=False),
    sa.Index("ix_journal_entries_run_id", "run_id"),
    comment="What a drill saw, in order; only ever added to",
)

evaluations: Final = sa.Table(
    "evaluations",
    metadata,
    _name("evaluator", "dag, watch or shell", primary_key=True),
    _name("host", primary_key=True),
    _time("at", "when the evaluation was completed", nullable=False),
    sa.Column("seconds", sa.Double, nullable=False, comment="how long it took"),
    _count("streams", "streams that were judged", nullable=False),
    _count("failures", "files and services that could not be read", nullable=False),
    comment="The newest evaluation of each kind of process and host; a round that fails leaves no row",
)

deliveries: Final = sa.Table(
    "deliveries",
    metadata,
    _name("subject", "an incident's id, `crash:DRIVER`, or `run:` with a digest of DAG and run", primary_key=True),
    _name("channel", primary_key=True),
    _time("sent_at", "empty if no message was accepted yet"),
    _name("sent_status", "status of the incident in that message"),
    _time("failed_at", "when the channel refused the newest message"),
    _count("attempts", "grows with each claim", nullable=False),
    comment="What each channel was sent last of each incident and event; a row is claimed before a message is sent",
)

drill_schedules: Final = sa.Table(
    "drill_schedules",
    metadata,
    _name("drill", primary_key=True),
    sa.Column("schedule", sa.Text, nullable=False),
    _time("since", "when this schedule was first seen not paused", nullable=False),
    comment="The drills that Airflow runs on a schedule; a paused drill has no row",
)

publications: Final = sa.Table(
    "publications",
    metadata,
    _name("stream", "a stream, or STREAM/QUERY", primary_key=True),
    sa.Column(
        "pending", sa.Boolean, primary_key=True, comment="whether its run published it is not known until the next"
    ),
    _name("query_id", nullable=False),
    _count("batch_id", "newest batch that the event covers", nullable=False),
    _time("batch_at", "as `at` of that batch", nullable=False),
    _time("published_at", "when the event was made", nullable=False),
    sa.Column("run", sa.Text, nullable=False, comment="DAG run that publishes it"),
    comment="What was published last of each stream as an asset event, and what a run is publishing",
)

hosts: Final = sa.Table(
    "hosts",
    metadata,
    _name("name", primary_key=True),
    _name("identity", "host name, boot id and pid namespace", nullable=False),
    _time("started_at", "start of the process that reports", nullable=False),
    _time("heartbeat_at", "by the clock of the store's server", nullable=False),
    sa.Column("cores", sa.Integer, nullable=False),
    _count("memory_bytes", nullable=False),
    _count("available_bytes", "memory that programs can still get", nullable=False),
    sa.Column("data", Place, nullable=False, comment="its data folder"),
    _name("storage", "id that is kept in the data folder: hosts that share the folder report the same", nullable=False),
    sa.Column("versions", JsonText, nullable=False, comment="of Streamwarden, Spark, Java, Python and Airflow"),
    comment="The newest report of each host that runs drivers; one that reports no more is removed after a week",
)

drains: Final = sa.Table(
    "drains",
    metadata,
    _name("host", primary_key=True),
    _name("requested_by", nullable=False),
    sa.Column("reason", Prose, nullable=False),
    _time("requested_at", nullable=False),
    comment="Hosts that start no driver until a person resumes them",
)
