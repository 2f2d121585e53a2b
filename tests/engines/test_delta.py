"""Streams into Delta tables, on the Spark that Delta supports: started, audited, forked, killed in mid-batch, and
judged by a reader that is not Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from streamwarden.errors import LaunchRefused
from support.spark.drill_project import audited, drill_project, run_and_stop, run_drill
from support.spark.environments import spark_with

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(2400)]

SMALL: dict[str, Any] = {
    "source": "{{path: {inputs}, format: json, max_files_per_trigger: 1}}",
    "min_records": 1000,
    "batches": 12,
}


@pytest.fixture(scope="module")
def spark() -> str:
    return spark_with("delta")


def test_a_driver_killed_between_table_and_commit_writes_its_batch_once(
    spark: str, flights: Path, tmp_path: Path
) -> None:
    """The fork begins with a part of the stream's table. Afterwards the checkpoint is lost, and a launch is refused."""
    with drill_project(
        tmp_path,
        inputs=flights,
        fault="kill_driver",
        options={"moment": "after_manifest"},
        rewind=1,
        spark=spark,
        sink="{kind: delta, path: output/flights}",
        **SMALL,
    ) as workspace:
        run_and_stop(workspace, 3)
        run = run_drill(workspace)
        assert run.passed, run.reason
        spec = workspace.stream("flights")
        shutil.rmtree(spec.checkpoint)
        with pytest.raises(LaunchRefused):
            workspace.fleet.start(spec, launched_by="test")


def test_an_audit_balances_what_the_batches_wrote(spark: str, flights: Path, tmp_path: Path) -> None:
    with drill_project(
        tmp_path,
        inputs=flights,
        fault="kill_driver",
        spark=spark,
        sink="{kind: delta, path: output/flights}",
        **SMALL,
    ) as workspace:
        run_and_stop(workspace, 3)
        audit = audited(workspace)
    assert audit.code == 0, audit


def test_a_killed_driver_merges_each_batch_once(spark: str, flights: Path, tmp_path: Path) -> None:
    with drill_project(
        tmp_path,
        inputs=flights,
        fault="kill_driver",
        oracle="twin",
        spark=spark,
        sink="{kind: delta, path: output/flights, mode: update, key: [window_start, origin, carrier]}",
        **SMALL,
    ) as workspace:
        run = run_drill(workspace)
    assert run.passed, run.reason
    assert run.facts["twin"]["outcome"]["exactly_once"]
