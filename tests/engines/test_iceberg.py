"""Streams into Iceberg tables, on the Spark that Iceberg supports: killed in mid-batch, and judged by a reader that is
not Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamwarden.adapters.jvm import maven
from streamwarden.adapters.jvm.connectors import connectors
from streamwarden.checkpoint.spark_support import parsed
from streamwarden.services.replay.replay import replay
from streamwarden.sinks.iceberg.table import table_of
from support.command_line import in_process
from support.spark.drill_project import await_commits, drill_project, run_drill
from support.spark.drivers import QUICK
from support.spark.environments import RELEASES, environment, key_of

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(1200)]

RECORDS = 6_000


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6,000 flights in 12 files."""
    folder = tmp_path_factory.mktemp("flights")
    replay(folder, rows_per_file=500, limit=RECORDS)
    return folder


@pytest.fixture(scope="module")
def spark() -> str:
    """The `spark` of a stream's file: an environment with the Spark of Iceberg's jars, which are fetched here."""
    connector = connectors()["iceberg"]
    maven.resolve(connector.pom)
    (release,) = (release for release in RELEASES if parsed(release) == connector.spark)
    given = {"master": "local[2]", "driver_memory": "1 GB", "conf": QUICK}
    return json.dumps(given | key_of(environment(release)))


@pytest.mark.parametrize(
    "sink",
    [
        "{kind: iceberg, path: output/flights}",
        "{kind: iceberg, path: output/flights, mode: update, key: [window_start, origin, carrier]}",
    ],
    ids=["append", "update"],
)
def test_a_killed_driver_writes_each_batch_once(sink: str, spark: str, flights: Path, tmp_path: Path) -> None:
    with drill_project(
        tmp_path,
        inputs=flights,
        fault="kill_driver",
        oracle="twin",
        spark=spark,
        sink=sink,
        batches=12,
        min_records=1000,
        options={"strikes": 2},
    ) as workspace:
        run = run_drill(workspace)
    assert run.passed, run.reason
    assert run.facts["twin"]["outcome"]["exactly_once"]


def test_a_stream_is_audited_and_its_fork_goes_on_with_its_rows(spark: str, flights: Path, tmp_path: Path) -> None:
    """It begins two batches before the newest one of a stream that stopped in the middle of its input. The job's oracle
    knows every row of the whole input, so that those of the origin have to be in the fork's table."""
    with drill_project(
        tmp_path,
        inputs=flights,
        fault="kill_driver",
        spark=spark,
        source="{{path: {inputs}, format: json, max_files_per_trigger: 1}}",
        sink="{kind: iceberg, path: output/flights}",
        rewind=2,
        batches=12,
        min_records=1000,
    ) as workspace:
        spec = workspace.stream("flights")
        workspace.fleet.start(spec, launched_by="test")
        await_commits(Path(spec.checkpoint), 5)
        workspace.fleet.stop("flights", requested_by="test", reason="the origin of a fork")
        audit = in_process(workspace.project, "audit", "flights", "--share", "1", "--json")
        assert audit.code == 0, audit
        before = table_of(spec)
        run = run_drill(workspace)
        assert table_of(spec) == before
    assert before is not None
    assert run.passed, run.reason
