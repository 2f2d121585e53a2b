"""A real standalone cluster whose worker, and then whose master, goes away under a drill's fork and comes back.

In the first tier spark/drivers/test_standalone_cluster kills a worker and a master under a stream, and drills have
outages of the store, of a database and of the disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.drills.records.journal import DrillRun
from streamwarden.services.replay.replay import replay
from support.servers.spark_cluster import Cluster, cluster
from support.spark.drill_project import drill_project, run_drill
from support.spark.drivers import QUICK

pytestmark = [pytest.mark.spark, pytest.mark.full]

RECORDS = 6_000


@pytest.fixture(scope="module")
def spark() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6,000 flights in 24 files."""
    folder = tmp_path_factory.mktemp("flights")
    replay(folder, rows_per_file=250, limit=RECORDS)
    return folder


def drilled(spark: Cluster, root: Path, flights: Path, service: str, *, lasts: str, batches: int) -> DrillRun:
    """Also checks that the output is right, by the job's oracle."""
    down, up = spark.worker_commands() if service == "worker" else spark.master_commands()
    conf = {**QUICK, "spark.executor.memory": "700m"}
    with drill_project(
        root,
        inputs=flights,
        fault="service_outage",
        batches=batches,
        min_records=RECORDS,
        spark=json.dumps({"master": spark.url, "driver_memory": "1 GB", "conf": conf}),
        options={"outage": json.dumps({"service": service, "down": down, "up": up, "lasts": lasts})},
    ) as workspace:
        run = run_drill(workspace)
    assert run.passed, run.reason
    counts = run.facts["reconciliation"]
    assert (counts["records"], counts["exactly_once"]) == (RECORDS, True)
    assert counts["expected"] == counts["actual"] > 500
    assert spark.url in run.facts["fault"]["evidence"]["service"]
    assert run.facts["healing"]["clean"]
    return run


def test_a_batch_waits_for_the_workers_and_the_same_driver_commits_it(
    spark: Cluster, tmp_path: Path, flights: Path
) -> None:
    """The only worker is killed, and its executor ends. The next executor loads the state from the checkpoint."""
    launched = spark.launched()
    run = drilled(spark, tmp_path, flights, "worker", lasts="2s", batches=8)
    seen = run.facts["fault"]["evidence"]
    assert seen["hung"]
    assert run.facts["recovery"]["first_new_batch"] == seen["planned"] == seen["committed"] + 1
    assert not run.facts["recovery"]["restarted"]
    assert spark.launched() >= launched + 2


def test_batches_are_committed_without_a_master(spark: Cluster, tmp_path: Path, flights: Path) -> None:
    """The master comes back without its memory, and its worker ends the executor. That takes up to 15 s, so the driver
    usually has input left, and the next one reads it."""
    run = drilled(spark, tmp_path, flights, "master", lasts="3s", batches=24)
    seen = run.facts["fault"]["evidence"]
    assert seen["went_on"]
    assert "Connection refused" in seen["said"]
