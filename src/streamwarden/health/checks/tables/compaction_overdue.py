"""Compaction overdue: how long the small files of a table have waited for one that makes few of them."""

from typing import Final

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING
from streamwarden.health.checks.tables.readable import table_or_verdict
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, TableShape, Window
from streamwarden.units import format_duration, format_size

_DAY: Final = 86_400.0


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How long so many small files have waited that a compaction is worth it."""
    table = table_or_verdict(window, CHECK)
    if isinstance(table, Verdict):
        return table
    size = format_size(TableShape.SMALL)
    if table.since is None:
        few = f"the table has fewer than {TableShape.MANY} data files with less than {size}"
        return CHECK.verdict(window, Status.OK, few, 0.0)
    age, in_force = max(0.0, window.now - table.since), thresholds.of(CHECK.name)
    reason = (
        f"{TableShape.MANY} data files with less than {size} have waited for a compaction for {format_duration(age)} "
        f"({CHECK.limits_text(in_force)}); run: {table.compact}"
    )
    return CHECK.verdict(window, CHECK.grade(age, in_force), reason, age, {"since": table.since, "small": table.small})


CHECK = Check(
    name="compaction_overdue",
    title="Compaction overdue",
    unit=ValueUnit.SECONDS,
    target="100 small data files wait < 7 days for a compaction",
    thresholds=limits(7 * _DAY, 30 * _DAY, ValueUnit.SECONDS, "time for which 100 small data files have waited"),
    judge=check,
    probes=frozenset({Probed.TABLE}),
    rests=True,
    consequence_of=NOT_RUNNING,
    reads=(
        "The time at which each data file below 16 MB was added, from the log of the table. The value is the age of "
        "the 100th oldest of them; with fewer, no compaction is needed. OPTIMIZE (Delta) and rewrite_data_files "
        "(Iceberg) replace small files, so the value is at most the time since the last one, whoever ran it."
    ),
    unknown=TableShape.UNKNOWN,
    advice=(
        "Run the statement that the verdict names, and schedule it, such as once a day. If there is a schedule: did "
        "its last run fail, or does it leave out partitions?"
    ),
    source="Design of Streamwarden: a weekly compaction that was missed, and one that nobody runs.",
)
