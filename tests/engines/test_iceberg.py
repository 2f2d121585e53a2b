"""Streams into Iceberg tables, on the Spark that Iceberg supports: killed in mid-batch, and judged by a reader that is
not Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.spark.drill_project import drill_project, run_drill
from support.spark.environments import spark_with

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def spark() -> str:
    return spark_with("iceberg")


def test_a_killed_driver_writes_each_batch_once(spark: str, flights: Path, tmp_path: Path) -> None:
    with drill_project(
        tmp_path,
        inputs=flights,
        fault="kill_driver",
        oracle="twin",
        spark=spark,
        sink="{kind: iceberg, path: output/flights}",
        batches=12,
        min_records=1000,
        options={"strikes": 2},
    ) as workspace:
        run = run_drill(workspace)
    assert run.passed, run.reason
    assert run.facts["twin"]["outcome"]["exactly_once"]
