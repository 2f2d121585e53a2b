"""An entry of an older, longer run in the sink's manifest: Spark skips the batches up to it and says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.stream.spec import TriggerSpec
from support.spark.drivers import project
from support.spark.verdicts import recorded, verify

pytestmark = pytest.mark.spark

JOB = """
from streamwarden.spark.sources import read_rows


def build(spark, spec):
    return read_rows(spark, spec, "id BIGINT, key INT", required=["id"]).select("id", "key")
"""

ORACLE = """
import json

from streamwarden.verification.oracles.batches import replay_input
from streamwarden.verification.oracles.oracle import Expectation, RowCounts


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


def test_batches_that_spark_skipped_for_an_older_run_are_lost_and_the_reason_is_named(tmp_path: Path) -> None:
    with project(tmp_path) as made:
        made.publish(FILES, rows=ROWS)
        spec = made.spec("copies", JOB, trigger=TriggerSpec(available_now=True))
        (Path(spec.job).parent / "oracles").mkdir()
        made.job("oracles/copies", ORACLE)
        manifest = Path(str(spec.sink.path), SINK_LOG)
        manifest.mkdir(parents=True)
        (manifest / str(OLD)).write_text("v1")
        assert made.await_end(made.start(spec)).kind is ExitKind.COMPLETED, "Spark takes it for its own"
        outcome = verify(spec)
        assert (outcome.lost, outcome.expected) == ((OLD + 1) * ROWS, FILES * ROWS)
        reason = f"the sink's manifest had the batches 0 to {OLD}, which the checkpoint had not planned"
        assert any(reason in problem for problem in outcome.problems), outcome.problems
        [start] = recorded(spec.name)
        assert (start.planned, start.committed, start.sink) == (None, None, OLD)
        (manifest / str(FILES + 3)).write_text("v1")
        assert any(f"now, the sink's manifest had the batches {FILES} to" in each for each in verify(spec).problems)
