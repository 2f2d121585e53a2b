"""An entry of an older, longer run in the sink's manifest: Spark skips the batches up to it and says nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.errors import LaunchRefused
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.monitoring.health_monitor import HealthMonitor
from streamwarden.stream.spec import TriggerSpec
from support.spark.drivers import project
from support.spark.verdicts import verify

pytestmark = pytest.mark.spark

JOB = """
from streamwarden.spark.sources import read_rows


def build(spark, spec):
    return read_rows(spark, spec, "id BIGINT, key INT", required=["id"]).select("id", "key")
"""

ORACLE = """
import json

from streamwarden.verification.batches import replay_input
from streamwarden.verification.oracle import Expectation, RowCounts


def expected(inputs, facts):
    run = replay_input(inputs, facts, decode=json.loads, at=lambda row: 0, delay=None)
    rows = {(row["id"],): (row["key"],) for each in run.batches.values() for row in each}
    books = RowCounts(
        records=run.records,
        malformed=0,
        pairs=run.records,
        dropped=0,
        emitted=len(rows),
        emitted_before=0,
        open=0,
    )
    return Expectation(
        key_columns=("id",), value_columns=("key",), rows=rows, counts=books, problems=run.problems
    )
"""
FILES, ROWS, OLD = 5, 20, 2
ENTRY = """v1
{"path":"file:///away/part-0.parquet","size":1,"isDir":false,"modificationTime":1700000000000,"blockReplication":1,"blockSize":1,"action":"add"}"""


def test_batches_that_spark_skipped_for_an_older_run_are_lost_and_the_check_names_them(tmp_path: Path) -> None:
    """A launch refuses such an output, so here the entry appears while the driver starts."""
    with project(tmp_path) as made:
        made.publish(FILES, rows=ROWS)
        spec = made.spec("copies", JOB, trigger=TriggerSpec(available_now=True))
        (Path(spec.job).parent / "oracles").mkdir()
        made.job("oracles/copies", ORACLE)
        manifest = Path(str(spec.sink.path), SINK_LOG)
        manifest.mkdir(parents=True)
        (manifest / str(OLD)).write_text(ENTRY)
        with pytest.raises(LaunchRefused, match=f"batches up to {OLD}"):
            made.start(spec)
        refused = made.store.drivers.latest(spec.name)
        assert refused is not None
        assert refused.exit is not None
        assert refused.exit.cause == "launch_refused"
        (manifest / str(OLD)).unlink()
        driver = made.start(spec)
        (manifest / str(OLD)).write_text(ENTRY)
        assert made.await_end(driver).kind is ExitKind.COMPLETED, "Spark takes it for its own"
        outcome = verify(spec)
        assert (outcome.lost, outcome.expected) == ((OLD + 1) * ROWS, FILES * ROWS)
        verdicts = {verdict.check: verdict for verdict in HealthMonitor(made.store).judge(spec, time.time())}
        assert verdicts["batches_skipped"].status is Status.CRITICAL
        assert verdicts["batches_skipped"].evidence["skipped"] == [OLD]
        (manifest / str(FILES + 3)).write_text("v1")
        assert any(f"now, the sink's manifest had the batches {FILES} to" in each for each in verify(spec).problems)
