"""Table log: the files that a reader of a table opens before it knows which data files the table has."""

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING
from streamwarden.health.checks.tables.readable import table_or_verdict
from streamwarden.health.verdict import Verdict
from streamwarden.health.window import Probed, TableShape, Window
from streamwarden.units import format_count


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How many files of the log a reader opens."""
    table = table_or_verdict(window, CHECK)
    if isinstance(table, Verdict):
        return table
    in_force = thresholds.of(CHECK.name)
    words = f"a reader of the table opens {format_count(table.log, 'file')} of its log first"
    reason = f"{words} ({CHECK.limits_text(in_force)}); run: {table.summarise}"
    return CHECK.verdict(window, CHECK.grade(table.log, in_force), reason, float(table.log), {"log": table.log})


CHECK = Check(
    name="table_log",
    title="Log of the table",
    unit=ValueUnit.TIMES,
    target="< 500 files of the log for a reader",
    thresholds=limits(500, 5000, ValueUnit.TIMES, "files of the log that a reader opens"),
    judge=check,
    probes=frozenset({Probed.TABLE}),
    rests=True,
    consequence_of=NOT_RUNNING,
    reads=(
        "Delta: the commits in `_delta_log` after its newest checkpoint; any writer makes a checkpoint of the log "
        "after ten commits (`delta.checkpointInterval`), unless it fails. Iceberg: the manifests of the current "
        "snapshot; each batch adds one."
    ),
    unknown=TableShape.UNKNOWN,
    advice=(
        "Run the statement that the verdict names; it changes no row, and the stream may run. If a Delta table has no "
        "checkpoint of its log, look for the failure in the driver's log. Run Iceberg's statement on a schedule, and "
        "expire old snapshots: each commit writes the list of all that are kept."
    ),
    source="Design of Streamwarden: a reader sends a request for each of these files before it reads a row.",
)
