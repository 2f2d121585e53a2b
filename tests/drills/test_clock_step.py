"""The clock of a real driver jumps by an hour and is set right again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streamwarden.services.replay.replay import replay
from support.spark.drill_project import drill_project, run_drill

pytestmark = pytest.mark.spark

FEW = 12_000
TTL_JOB = "forgets_after_ten_minutes"


def test_a_clock_that_jumps_ahead_lets_state_expire_early_and_loses_no_row(tmp_path: Path) -> None:
    """A TTL goes by the time of the batch: at the jump each carrier's count begins again. The driver goes on, and an
    unbroken twin, which is given the times of the batches, writes the same."""
    replay(tmp_path / "flights", rows_per_file=500, limit=FEW)
    few = {"batches": 12, "min_records": FEW, "oracle": "auto", "job": TTL_JOB}
    with drill_project(tmp_path, inputs=tmp_path / "flights", fault="clock_step", **few) as workspace:
        shutil.rmtree(tmp_path / "spark_jobs" / "oracles")
        run = run_drill(workspace)
    assert run.passed, run.reason
    fault, twin = run.facts["fault"], run.facts["twin"]
    assert fault["evidence"]["difference"] == pytest.approx(3600, abs=30)
    assert not run.facts["recovery"]["restarted"]
    assert twin["outcome"]["expected"] == twin["outcome"]["actual"] > 100
    import duckdb

    output = tmp_path / "var" / "drills" / run.run_id / "fork" / "output"
    rows = duckdb.sql(
        f"SELECT at_ms, sum(flights), sum(total) FROM read_parquet('{output}/*.parquet') GROUP BY at_ms ORDER BY at_ms"
    ).fetchall()
    assert sum(flights for _, flights, _ in rows) == FEW
    jumped = [(flights, total) for at, flights, total in rows if at > rows[0][0] + 1_800_000]
    assert jumped[0][0] == jumped[0][1], "nothing is remembered in the first batch after the jump"
    before = [(flights, total) for at, flights, total in rows if at <= rows[0][0] + 1_800_000]
    assert before[1][0] < before[1][1], "in any other batch it is"
