"""A stream that reads an Iceberg table, on the Spark that Iceberg supports: into another table, killed in a batch and
proven by its twin; into files, audited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from support.flight_tables import SCHEMA, files_of_batch, tables
from support.spark.drill_project import audited, drill_project, run_and_stop, run_drill
from support.spark.environments import spark_with

# tests/unit/sources/test_iceberg_source.py holds what is read of a table without Spark.
pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(2400)]

STREAM: dict[str, Any] = {
    "source": "{{kind: iceberg, path: {inputs}, max_files_per_trigger: 1}}",
    "fault": "kill_driver",
    "min_records": 1000,
    "batches": 12,
    "rewind": 1,
    "oracle": "twin",
}


@pytest.fixture(scope="module")
def spark() -> str:
    return spark_with("iceberg")


@pytest.fixture
def flights_table(flights: Path, tmp_path: Path) -> Path:
    """A table of 12 snapshots, as a Hadoop catalog has it."""
    root = tmp_path / "lake"
    (root / "n").mkdir(parents=True)
    catalog = SqlCatalog("c", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
    catalog.create_namespace("n")
    table = catalog.create_table("n.flights", SCHEMA, location=f"file://{root}/n/flights")
    for rows in tables(flights):
        table.append(rows)
    newest = Path(table.metadata_location.removeprefix("file://"))
    newest.with_name("v1.metadata.json").write_bytes(newest.read_bytes())
    newest.with_name("version-hint.text").write_text("1")
    return root / "n" / "flights"


def test_a_killed_driver_reads_each_snapshot_once(spark: str, flights_table: Path, tmp_path: Path) -> None:
    sink = "{kind: iceberg, path: output/flights}"
    with drill_project(tmp_path, inputs=flights_table, spark=spark, sink=sink, **STREAM) as workspace:
        run_and_stop(workspace, 4)
        run = run_drill(workspace)
    assert run.passed, run.reason
    assert run.facts["twin"]["outcome"]["exactly_once"]


def test_an_audit_reads_the_files_of_the_table_again(spark: str, flights_table: Path, tmp_path: Path) -> None:
    """It balances, and no longer does so when a file of the input has lost a row (negative control)."""
    with drill_project(tmp_path, inputs=flights_table, spark=spark, **STREAM) as workspace:
        run_and_stop(workspace, 4)
        assert audited(workspace).code == 0
        (file,) = files_of_batch(workspace, 1)
        pq.write_table(pq.read_table(file).slice(1), file)
        assert audited(workspace).code == 1
