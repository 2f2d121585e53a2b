"""Small files: the data files of a table that a compaction would make one of."""

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING
from streamwarden.health.checks.tables.readable import table_or_verdict
from streamwarden.health.verdict import Verdict
from streamwarden.health.window import Probed, TableShape, Window
from streamwarden.units import format_count, format_size


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How many small data files the table has."""
    table = table_or_verdict(window, CHECK)
    if isinstance(table, Verdict):
        return table
    evidence = {"files": table.files, "small": table.small, "bytes": table.bytes}
    in_force = thresholds.of(CHECK.name)
    reason = f"{_words(table)} ({CHECK.limits_text(in_force)})"
    return CHECK.verdict(window, CHECK.grade(table.small, in_force), reason, float(table.small), evidence)


def _words(table: TableShape) -> str:
    files = format_count(table.files, "data file")
    return (
        f"{table.small:,} of {files} ({format_size(table.bytes)} in all) have less than "
        f"{format_size(TableShape.SMALL)}; run: {table.compact}"
    )


CHECK = Check(
    name="small_files",
    title="Small files",
    unit=ValueUnit.TIMES,
    target="< 1,000 small data files in the table",
    thresholds=limits(1000, 10_000, ValueUnit.TIMES, "data files below 16 MB"),
    judge=check,
    probes=frozenset({Probed.TABLE}),
    rests=True,
    consequence_of=NOT_RUNNING,
    reads=(
        "The files that the table has now with their sizes, by its log. Nothing of the rows is read. Of an Iceberg "
        "table with more than 1,000 manifests, the files that the newest 1,000 of them name: see `table_log`."
    ),
    unknown=TableShape.UNKNOWN,
    advice=(
        "Run the statement that the verdict names, in any Spark with the table's format, while the stream runs or not: "
        "it changes no row. Then VACUUM (Delta) or expire_snapshots (Iceberg) removes the old files, once no reader, "
        "audit or fork needs them. A longer trigger and fewer partitions before the sink make fewer files."
    ),
    source="Design of Streamwarden: each data file costs a reader a request, and each batch writes at least one.",
)
