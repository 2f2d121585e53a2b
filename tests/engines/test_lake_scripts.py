"""Unmodified scripts whose query writes a lakehouse table: a fork captures its rows, the twin judges them, and the
stream's own table stays as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamwarden.adapters.jvm import maven
from streamwarden.adapters.jvm.connectors import connectors
from support.spark.drill_project import run_drill
from support.spark.environments import spark_with
from support.spark.script_project import LOST, SEED, clicks_project, own_files

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(900)]

CATALOG = "spark.sql.catalog.lake"
LAKE = {CATALOG: "org.apache.iceberg.spark.SparkCatalog", f"{CATALOG}.type": "hadoop"}


def spark(connector: str, root: Path) -> str:
    """The `spark` of a stream whose file declares no sink: it names the connector's jars itself."""
    found, given = connectors()[connector], json.loads(spark_with(connector))
    jars = ",".join(map(str, maven.resolve(found.pom)))
    lake = LAKE | {f"{CATALOG}.warehouse": str(root / "var" / "output")} if connector == "iceberg" else {}
    return json.dumps(given | {"conf": {**given["conf"], **found.settings, **lake, "spark.jars": jars}})


@pytest.mark.parametrize(
    ("connector", "start"),
    [
        ("delta", '.format("delta").start("output/by_page")'),
        ("delta", '.toTable("by_page", format="delta")'),
        ("iceberg", '.format("iceberg").toTable("lake.pages.by_page")'),
    ],
)
def test_a_table_of_a_script_is_judged_by_the_rows_that_its_query_hands_over(
    connector: str, start: str, tmp_path: Path
) -> None:
    with clicks_project(tmp_path, by_page=start, spark=spark(connector, tmp_path)) as workspace:
        before = own_files(tmp_path)
        run = run_drill(workspace, "kill")
        assert run.passed, run.reason
        assert own_files(tmp_path) == before
        queries = run.facts["twin"]["outcome"]["notes"]["queries"]
        assert "0 lost, 0 duplicated, 0 unexpected, 0 wrong" in queries["by_page"]
        home = workspace.data / "drills" / run.run_id
        assert list(home.glob("fork/output/by_page/batch_id=*/*.parquet"))


def test_a_row_that_is_lost_on_its_way_to_the_table_is_named(tmp_path: Path) -> None:
    """The negative control."""
    start = '.format("delta").start("output/by_page")'
    with clicks_project(tmp_path, by_page=start, seed=SEED, spark=spark("delta", tmp_path)) as workspace:
        run = run_drill(workspace, "kill")
        assert run.deviated, run.reason
        assert any(f"id={LOST}" in row for row in run.facts["twin"]["outcome"]["samples"]["lost"])
