"""Drills that a twin judges alone, with real Spark: no oracle is needed, and each kind of damage is named.

The controls that the job's own oracle judges too are in test_negative_controls.py.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.services.replay.replay import replay
from support.spark.drill_project import drill_project, run_drill
from support.spark.drivers import QUICK

pytestmark = pytest.mark.spark

FEW = 4_800
BATCHES = 8
SECRET = "hunter2-hunter2"
WITH_A_SECRET = json.dumps(
    {"master": "local[2]", "driver_memory": "1 GB", "conf": {**QUICK, "spark.ssl.keyPassword": SECRET}}
)


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4,800 flights in 24 files."""
    folder = tmp_path_factory.mktemp("flights")
    replay(folder, rows_per_file=200, limit=FEW)
    return folder


def drilled(
    tmp_path: Path, flights: Path, job: str = "flight_departures", options: dict[str, str] | None = None
) -> DrillRun:
    """The drill `kill_driver` of a stream whose job has no oracle."""
    few = {"batches": BATCHES, "min_records": FEW, "oracle": "auto", "job": job, "spark": WITH_A_SECRET}
    with drill_project(tmp_path, inputs=flights, fault="kill_driver", options=options, **few) as workspace:
        shutil.rmtree(tmp_path / "spark_jobs" / "oracles")
        return run_drill(workspace)


def test_a_stream_with_two_stateful_operators_and_no_oracle_is_drilled(tmp_path: Path, flights: Path) -> None:
    run = drilled(tmp_path, flights, job="planes_per_day")
    assert run.passed, run.reason
    twin, counts = run.facts["twin"], run.facts["reconciliation"]
    assert twin["outcome"] == counts
    assert [counts[kind] for kind in ("lost", "duplicated", "unexpected", "wrong")] == [0, 0, 0, 0]
    assert counts["expected"] == counts["actual"] > 100
    assert counts["records"] == FEW
    assert (twin["alone"], twin["twins"], twin["left_out"]) == (True, 1, [])
    assert twin["key"] == ["window_start", "origin", "carrier"]
    assert run.facts["judgement"]["success"]
    home = tmp_path / "var" / "drills" / run.run_id / "runs" / "1" / "fork"
    plan = (home / "program" / "plan.txt").read_text()
    assert "Deduplicate" in plan
    assert "Aggregate" in plan
    assert (home / "output" / "_spark_metadata").is_dir(), "the twin's output is evidence"
    for scratch in ("input", "checkpoint/state", "program/tmp"):
        assert not (home / scratch).exists()
    files = [path for path in home.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    private = [path for path in files if path.parent.name == "program"]
    assert {"spec.json", "spark.properties", "twin.log", "twin.json", "plan.txt", "done.json"} == {
        path.name for path in private
    }
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}


@pytest.mark.full  # in the first tier the twin of test_script_drill alone finds a lost row
def test_a_job_that_remembers_in_python_is_caught(tmp_path: Path, flights: Path) -> None:
    """Its batches are numbered from one again after the kill, and the first of them loses a row. Two unbroken twins
    agree with each other, so that nothing is left out."""
    run = drilled(tmp_path, flights, job="remembers_in_python")
    assert verdict_word(run) == "DEVIATED", run.reason
    counts, twin = run.facts["reconciliation"], run.facts["twin"]
    assert (counts["lost"], counts["duplicated"], counts["unexpected"]) == (1, 0, 0)
    assert counts["wrong"] > 100
    assert (twin["twins"], twin["left_out"]) == (2, [])
    assert "1 lost" in run.reason


@pytest.mark.full  # in the first tier the twin of test_script_drill finds a batch that a function appends twice
def test_a_sink_that_appends_without_the_batchs_id_is_caught(tmp_path: Path, flights: Path) -> None:
    run = drilled(tmp_path, flights, job="appends_without_batch", options={"moment": "after_handover"})
    assert verdict_word(run) == "DEVIATED", run.reason
    counts = run.facts["reconciliation"]
    assert counts["duplicated"] > 0
    assert (counts["lost"], counts["unexpected"], counts["wrong"]) == (0, 0, 0)
