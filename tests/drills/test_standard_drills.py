"""The standard drills with real Spark: a killed driver, and with `--full` 100,000 real flights and a controlled restart
in separate processes. Nothing is lost, nothing is there twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from streamwarden.drills.records.journal import FORK_STEPS, DrillRun, DrillStep
from streamwarden.drills.reporting.report import build_report, verdict_word
from streamwarden.drills.state import RunState
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.services.auditing.auditing import audit
from streamwarden.services.replay.replay import replay
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.verifying import verify
from streamwarden.services.workspace import Workspace
from streamwarden.verification.comparing.balance import Outcome
from support.spark.drill_project import await_commits, drill_project, restore_newest_savepoint, run_drill
from support.spark.twins import assert_both_agree

pytestmark = pytest.mark.spark

RECORDS = 100_000
FEW = 4_800
TWO = "{shuffle_partitions: 2}"
PAIRS: dict[str, Any] = {
    "source": "{{path: {inputs}, format: json, max_files_per_trigger: 2}}",
    "rewind": 10,
    "state": TWO,
}
"""Of 24 files the stream and its fork read two in each batch, so that their batches can be compared."""


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """105,000 flights in 42 files."""
    folder = tmp_path_factory.mktemp("flights")
    replay(folder, rows_per_file=2500, limit=RECORDS + 2500)
    return folder


def assert_exactly_once(run: DrillRun, records: int = RECORDS) -> None:
    assert run.passed, run.reason
    counts = run.facts["reconciliation"]
    assert {kind: counts[kind] for kind in ("lost", "duplicated", "unexpected", "wrong")} == {
        "lost": 0,
        "duplicated": 0,
        "unexpected": 0,
        "wrong": 0,
    }
    assert counts["records"] >= records
    assert counts["expected"] == counts["actual"] > records / 10
    assert run.facts["judgement"]["success"]
    assert run.facts["judgement"]["judge"].startswith("great_expectations")
    assert run.facts["recovery"]["recovery_seconds"] > 0
    assert run.facts["recovery"]["first_new_batch"] > (run.facts["fault"]["committed"] or -1)
    assert all(prediction["seconds"] is not None for prediction in run.facts["predicted"])


@pytest.mark.full  # in the first tier the next drill kills a driver, and spark/proofs/test_crash_matrix all phases
def test_a_driver_killed_in_each_phase_of_a_batch_loses_nothing(tmp_path: Path, flights: Path) -> None:
    strikes = {"strikes": "3"}
    kills: dict[str, Any] = {"fault": "kill_driver", "options": strikes, "state": TWO}
    with drill_project(tmp_path, inputs=flights, oracle="auto", **kills) as workspace:
        run = run_drill(workspace)
        struck = [result.landed.struck for result in RunState.of(run).results if result.landed]
        assert len([batch for batch in struck if batch and batch.phase and batch.usual]) == 3
        assert_exactly_once(run)
        assert_both_agree(run, of="flight_departures")
        proof = run.facts["fault"]
        assert proof["evidence"]["signal"] == signal.SIGKILL
        assert proof["planned"] == proof["committed"] + 1
        start = run.facts["reconciliation"]["notes"]["starts"][-1]
        assert (start["planned"], start["committed"]) == (proof["planned"], proof["committed"]), "the recovery's"
        assert_a_stranger_can_check(workspace, run)


# In the first tier spark/proofs/test_audit reads the books beside a running stream.
@pytest.mark.parametrize(
    "audited", [pytest.param(False, id="alone"), pytest.param(True, marks=pytest.mark.full, id="and its books balance")]
)
def test_a_drill_starts_in_the_past_of_a_stream_that_runs_on(tmp_path: Path, audited: bool) -> None:
    """The fork takes over state, logs and output of a stream that runs, and has its last batches to do again. The
    batch that the kill cut is written again: each row is once in the files that the manifest lists. The drill breaks
    the fork alone, so an audit of the stream beside it finds all that the stream has read."""
    replay(tmp_path / "flights", rows_per_file=200, limit=FEW)
    few: dict[str, Any] = {"inputs": tmp_path / "flights", "min_records": FEW}
    sink = "{kind: files, format: json, path: output/flights, options: {compression: gzip}}"
    with drill_project(tmp_path, fault="kill_driver", sink=sink, oracle="auto", **PAIRS, **few) as workspace:
        spec = workspace.stream("flights")
        driver = workspace.fleet.start(spec, launched_by="test").record.driver_id
        await_commits(Path(spec.checkpoint), 12)
        with ThreadPoolExecutor(1) as beside:
            books = beside.submit(audit, spec) if audited else None
            run = run_drill(workspace)
        assert run.passed, run.reason
        if books is not None:
            assert books.result().outcome is Outcome.BALANCED, books.result().to_dict()
            assert books.result().totals["output"]["flights"]
        assert workspace.fleet.observe(driver).alive
        workspace.fleet.stop("flights", requested_by="test", reason="it has read its input")
        fork, counts = run.facts["fork"], run.facts["reconciliation"]
        assert fork["batch"] >= 0
        assert fork["unseen"] >= 12
        assert run.facts["fault"]["planned"] > fork["batch"]
        assert counts["expected"] == counts["actual"] > 100, "the output of the fork's own batches"
        assert (counts["records"], counts["wrong"]) == (FEW, 0), "judged by the whole input all the same"
        assert list((workspace.data / "drills" / run.run_id / "fork" / "output").glob("*.json.gz"))
        twin = run.facts["twin"]
        assert (twin["first"], twin["twins"], twin["alone"]) == (fork["batch"] + 1, 1, False)
        assert twin["outcome"]["expected"] == twin["outcome"]["actual"] > 100
        assert twin["third"].startswith("the stream itself wrote the same "), twin["third"]
        assert not (workspace.data / "drills" / run.run_id / "runs" / "start").exists()
        assert_a_stranger_can_check(workspace, run)
        assert_the_savepoint_is_proven(workspace, create(spec, 5, Author(by="ann", reason="a test")))


def assert_the_savepoint_is_proven(workspace: Workspace, saved: Savepoint) -> None:
    """A fork of the savepoint executes the stream's next batches again, and writes the same rows."""
    run = restore_newest_savepoint(workspace)
    assert run.passed, run.reason
    twin = run.facts["twin"]
    assert (twin["first"], twin["outcome"]["records"]) == (saved.batch + 1, 6 * 400)
    assert twin["outcome"]["expected"] == twin["outcome"]["actual"] > 100
    assert (
        f"compared: only the rows of the batches {saved.batch + 1} to {twin['last']}" in build_report(run, ()).sentence
    )
    folder = workspace.data / "drills" / run.run_id
    assert not any((folder / left).exists() for left in ("stream-logs", "fork/checkpoint/state", "fork/input"))
    assert verify(Savepoints.of(workspace.stream("flights")), saved) == ()


@pytest.mark.full  # what is compared is in unit/services/proofs/test_third_witness
def test_a_job_that_loses_rows_in_each_restart_is_caught_by_what_the_stream_itself_wrote(tmp_path: Path) -> None:
    """The first life of a rewound fork is a restart, and so is its twin's: both lose the same rows."""
    replay(tmp_path / "flights", rows_per_file=200, limit=FEW)
    few: dict[str, Any] = {"inputs": tmp_path / "flights", "min_records": FEW // 2, "job": "drops_rows_after_restart"}
    with drill_project(tmp_path, fault="kill_driver", oracle="twin", **PAIRS, **few) as workspace:
        spec = workspace.stream("flights")
        workspace.fleet.start(spec, launched_by="test")
        await_commits(Path(spec.checkpoint), 12)
        workspace.fleet.stop("flights", requested_by="test", reason="it has read its input")
        run = run_drill(workspace)
    twin = run.facts["twin"]
    assert (twin["outcome"]["lost"], twin["outcome"]["wrong"]) == (0, 0), "fork and twin agree"
    assert verdict_word(run) == "DEVIATED", run.reason
    assert "the stream itself wrote other rows" in run.reason


def assert_a_stranger_can_check(workspace: Workspace, run: DrillRun) -> None:
    """The journal and what lies beside it: verdict, proof, logs and output, but no state and no copy of the input."""
    folder = workspace.data / "drills" / run.run_id
    journal = json.loads((folder / "journal.json").read_text())
    assert journal["verdict"] == "PASSED"
    assert journal["facts"]["fault"]["landed"]
    assert len(journal["facts"]["fork"]["input_digest"]) == 64
    assert journal["facts"]["judgement"]["result"]["output"]["success"]
    assert [entry["kind"] for entry in journal["entries"]].count("landed") == len(journal["facts"]["plan"]["order"])
    checkpoint = folder / "fork" / "checkpoint"
    assert (checkpoint / "offsets" / str(journal["facts"]["fault"]["planned"])).is_file()
    assert (folder / "fork" / "output" / "_spark_metadata").is_dir()
    assert not (checkpoint / "state").exists()
    assert not (folder / "fork" / "input").exists()
    assert "PASSED" in (folder / "report.md").read_text()


STEP = """
import sys
from streamwarden.services.workspace import Workspace
from streamwarden.drills.records.journal import DrillStep
with Workspace.open(project=sys.argv[1], data=sys.argv[2]) as workspace:
    engine = workspace.drill_engine()
    run_id = engine.begin("drill", "stepwise-1")
    engine.step(run_id, DrillStep(sys.argv[3]))
"""


@pytest.mark.full  # in the first tier a night's drill restarts a driver, and a live drill runs as tasks
def test_a_controlled_restart_in_separate_processes_one_of_them_killed(tmp_path: Path) -> None:
    """Each step is a process, as in Airflow. The recovery is killed with -9 right after it launched the driver, and
    tried again: it finds that driver and starts no second one."""
    replay(tmp_path / "flights", rows_per_file=200, limit=FEW)
    few = {"inputs": tmp_path / "flights", "min_records": FEW}
    with drill_project(tmp_path, fault="controlled_restart", **few) as workspace:
        for step in FORK_STEPS:
            process = start_step(workspace, step)
            if step is DrillStep.RECOVERY:
                await_drivers(workspace, 3, process)
                process.kill()
                process.wait()
                process = start_step(workspace, step)
            assert process.wait(timeout=300) == 0
        run = workspace.store.journals.get("stepwise-1")
        assert run is not None
        assert_exactly_once(run, FEW)
        proof = run.facts["fault"]
        assert proof["evidence"]["exit"] == "stopped"
        assert proof["planned"] == proof["committed"]
        exits = [driver.exit.kind.value for driver in drivers(workspace) if driver.exit]
        assert exits == ["stopped", "stopped", "completed"]  # parked, restarted, done


def start_step(workspace: Workspace, step: DrillStep) -> subprocess.Popen[bytes]:
    script = workspace.project / "step.py"
    script.write_text(STEP)
    return subprocess.Popen([sys.executable, str(script), str(workspace.project), str(workspace.data), step.value])


def drivers(workspace: Workspace) -> list:
    run = workspace.store.journals.get("stepwise-1")
    assert run is not None
    return list(workspace.store.drivers.history(run.facts["fork"]["stream"], 0.0))


def await_drivers(workspace: Workspace, count: int, process: subprocess.Popen[bytes]) -> None:
    """Until that many were launched, the last of them with its supervisor process: from then on it runs without its
    launcher."""
    deadline = time.monotonic() + 300
    while len(found := drivers(workspace)) < count or not (Path(found[-1].folder) / files.SUPERVISOR).exists():
        assert process.poll() is None, "the step ended before it launched a driver"
        assert time.monotonic() < deadline
        time.sleep(0.05)
