"""A stream from one Delta table into another, on the Spark that Delta supports: audited, forked, killed in a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from support.flight_tables import files_of_batch, tables
from support.spark.drill_project import audited, await_commits, drill_project, run_drill
from support.spark.environments import spark_with

# tests/unit/sources/test_delta_source.py holds what is read of a table without Spark.
pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(2400)]

STREAM: dict[str, Any] = {
    "source": "{{kind: delta, path: {inputs}, max_files_per_trigger: 1}}",
    "sink": "{kind: delta, path: output/flights}",
    "min_records": 1000,
    "batches": 12,
    "rewind": 1,
    "oracle": "twin",
}


@pytest.fixture(scope="module")
def spark() -> str:
    return spark_with("delta")


@pytest.fixture
def flights_table(flights: Path, tmp_path: Path) -> Path:
    """A table of 12 commits, in a folder of its own."""
    table = tmp_path / "tables" / "flights"
    for rows in tables(flights):
        write_deltalake(str(table), rows, mode="append")
    return table


def test_a_stream_from_table_to_table_is_audited_and_survives_a_killed_driver(
    spark: str, flights_table: Path, tmp_path: Path
) -> None:
    """The audit balances, and no longer does so when a file of the input has lost a row (negative control)."""
    with drill_project(tmp_path, inputs=flights_table, fault="kill_driver", spark=spark, **STREAM) as workspace:
        spec = workspace.stream("flights")
        workspace.fleet.start(spec, launched_by="test")
        await_commits(Path(spec.checkpoint), 4)
        workspace.fleet.stop("flights", requested_by="test", reason="the test")
        assert audited(workspace).code == 0
        run = run_drill(workspace)
        assert run.passed, run.reason
        assert run.facts["twin"]["outcome"]["exactly_once"]
        (file,) = files_of_batch(workspace, 1)
        pq.write_table(pq.read_table(file).slice(1), file)
        assert audited(workspace).code == 1
