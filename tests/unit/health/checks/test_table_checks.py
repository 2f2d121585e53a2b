"""The table that a stream writes: many small files, a long log, small files that no compaction takes; how many are too
many, and what to run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.health.check import Check
from streamwarden.health.checks.tables import compaction_overdue, small_files, table_log
from streamwarden.health.verdict import Status
from streamwarden.health.window import TableShape
from streamwarden.sinks.delta.sink import DeltaSink
from support.streams.health_windows import judge, log, spec, window

TABLE = replace(window(log=log(3, 3)), spec=spec(sink=DeltaSink(path="/out")))
"""A stream into a table, with a committed batch."""

DAY = 86_400.0
SMALL, LARGE = TableShape.SMALL - 1, TableShape.SMALL


def shape(small: int = 0, *, log: int = 7, waiting: float = 0.0) -> TableShape:
    """A table with so many small files that were added `waiting` seconds ago, beside five large and much older ones."""
    files = [(SMALL, TABLE.now - waiting)] * small + [(LARGE, 0.0)] * 5
    return TableShape.of(files, log=log, compact="OPTIMIZE t", summarise="REWRITE MANIFESTS t")


@pytest.mark.parametrize(
    ("small", "status"),
    [
        (999, Status.OK),
        (1000, Status.WARNING),
        (10_000, Status.WARNING),
        (10_001, Status.CRITICAL),
    ],
)
def test_each_small_file_counts_and_the_statement_is_named(small: int, status: Status) -> None:
    verdict = judge(small_files.CHECK, replace(TABLE, table=shape(small)))
    assert (verdict.status, verdict.value) == (status, float(small))
    assert "run: OPTIMIZE t" in verdict.reason


@pytest.mark.parametrize(
    ("files", "status"), [(499, Status.OK), (500, Status.WARNING), (5000, Status.WARNING), (5001, Status.CRITICAL)]
)
def test_each_file_of_the_log_counts_and_the_statement_is_named(files: int, status: Status) -> None:
    verdict = judge(table_log.CHECK, replace(TABLE, table=shape(log=files)))
    assert (verdict.status, verdict.value) == (status, float(files))
    assert "run: REWRITE MANIFESTS t" in verdict.reason


@pytest.mark.parametrize(
    ("small", "waiting", "status"),
    [
        (99, 40 * DAY, Status.OK),
        (100, 7 * DAY - 1, Status.OK),
        (100, 7 * DAY, Status.WARNING),
        (100, 30 * DAY, Status.WARNING),
        (100, 30 * DAY + 1, Status.CRITICAL),
    ],
)
def test_a_hundred_small_files_wait_for_a_compaction(small: int, waiting: float, status: Status) -> None:
    verdict = judge(compaction_overdue.CHECK, replace(TABLE, table=shape(small, waiting=waiting)))
    assert verdict.status is status
    assert ("run: OPTIMIZE t" in verdict.reason) is (small == 100)


def test_the_hundredth_oldest_file_decides_and_not_one_that_a_compaction_left() -> None:
    files = [(SMALL, 1.0)] + [(SMALL, 1000.0 + number) for number in range(150)]
    assert TableShape.of(files, log=1, compact="", summarise="").since == 1098.0


@pytest.mark.parametrize("check", [small_files.CHECK, table_log.CHECK, compaction_overdue.CHECK])
def test_a_table_that_was_not_read_is_unknown_and_another_sink_has_none(check: Check) -> None:
    assert judge(check, TABLE).status is Status.UNKNOWN
    assert judge(check, window(log=log(3, 3))).status is Status.OK
