"""Another program that writes the table of a stream: commits at the same time, a maintenance without a retention, and a
lost file of the log. Each drill is judged by a twin that nobody disturbs."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.drills.records.journal import DrillRun
from support.spark.drill_project import drill_project, run_drill
from support.spark.environments import spark_with

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(1200)]

KEYED = ", mode: update, key: [window_start, origin, carrier]"


def drilled(root: Path, inputs: Path, connector: str, fault: str, keyed: str = "") -> DrillRun:
    with drill_project(
        root,
        inputs=inputs,
        fault=fault,
        oracle="twin" if keyed else "job",
        spark=spark_with(connector),
        source="{{path: {inputs}, format: json, max_files_per_trigger: 1}}",
        sink=f"{{kind: {connector}, path: output/flights{keyed}}}",
        batches=16,
        min_records=1000,
    ) as workspace:
        return run_drill(workspace)


@pytest.mark.parametrize("keyed", ["", KEYED], ids=["append", "update"])
@pytest.mark.parametrize("connector", ["delta", "iceberg"])
def test_a_batch_is_in_the_table_once_although_another_program_commits_meanwhile(
    connector: str, keyed: str, flights: Path, tmp_path: Path
) -> None:
    run = drilled(tmp_path, flights, connector, "table_conflict", keyed)
    assert run.passed, run.reason
    evidence = run.facts["fault"]["evidence"]
    assert evidence["commit"] is None or evidence["commit"]["others"]


@pytest.mark.parametrize("connector", ["delta", "iceberg"])
def test_a_stream_goes_on_when_only_the_newest_version_of_its_table_is_left(
    connector: str, flights: Path, tmp_path: Path
) -> None:
    run = drilled(tmp_path, flights, connector, "table_cleanup")
    assert run.passed, run.reason
    removed = run.facts["fault"]["evidence"]["removed"]
    assert removed["data"]
    assert removed["versions"]
    assert not run.facts["recovery"]["restarted"]


@pytest.mark.parametrize("connector", ["delta", "iceberg"])
def test_a_stream_goes_on_and_starts_without_a_file_of_its_tables_log(
    connector: str, flights: Path, tmp_path: Path
) -> None:
    run = drilled(tmp_path, flights, connector, "table_log_file_lost")
    assert run.passed, run.reason
    assert run.facts["fault"]["evidence"]["went_on"]


@pytest.mark.parametrize("keyed", ["", KEYED], ids=["append", "update"])
@pytest.mark.parametrize("connector", ["delta", "iceberg"])
def test_a_stream_goes_on_when_its_table_gets_a_column(
    connector: str, keyed: str, flights: Path, tmp_path: Path
) -> None:
    """The comparison leaves the column out as long as it has only nulls."""
    run = drilled(tmp_path, flights, connector, "table_schema_changed", keyed)
    assert run.passed, run.reason
    assert not run.facts["recovery"]["restarted"]
