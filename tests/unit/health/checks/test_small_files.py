"""A table with many small files: how many are too many, and what to run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.health.checks.batches import small_files
from streamwarden.health.verdict import Status
from streamwarden.health.window import TableShape
from streamwarden.sinks.delta.sink import DeltaSink
from support.streams.health_windows import judge, log, spec, window

TABLE = replace(window(log=log(3, 3)), spec=spec(sink=DeltaSink(path="/out")))
"""A stream into a table, with a committed batch."""


def shape(small: int) -> TableShape:
    return TableShape(files=small + 5, small=small, bytes=10**9, log=7, compact="OPTIMIZE delta.`file:/out`")


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
    assert "OPTIMIZE delta.`file:/out`" in verdict.reason


def test_a_table_that_was_not_read_is_unknown_and_another_sink_has_none() -> None:
    assert judge(small_files.CHECK, TABLE).status is Status.UNKNOWN
    assert judge(small_files.CHECK, window(log=log(3, 3))).status is Status.OK
