"""The table of a window, or the verdict of a check that has none to judge."""

from streamwarden.health.check import Check
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import TableShape, Window


def table_or_verdict(window: Window, check: Check) -> TableShape | Verdict:
    """The files of the table that the stream writes."""
    if window.log is None or window.log.committed is None:
        return check.verdict(window, Status.UNKNOWN, "no batch is committed yet, or the checkpoint was not read")
    if not window.spec.sink.TABLE_OF_FILES:
        return check.not_applicable(window, "the sink shows no files of a table", 0.0)
    if window.table is None:
        return check.verdict(window, Status.UNKNOWN, "the table could not be read")
    return window.table
