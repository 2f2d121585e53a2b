"""Kills at a named moment, drivers that are replaced, damaged checkpoints, a store that is away: with real Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from streamwarden.drills.faults.checkpoint_damage import CheckpointTarget, FileDamage
from streamwarden.drills.faults.driver.kill_driver import KillMoment
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.state import RunState
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.driver_folder import read_outcome
from streamwarden.services.replay.replay import replay
from streamwarden.services.workspace import Workspace
from support.spark.drill_project import TWIN_WITH_FULL, drill_project, run_drill

pytestmark = pytest.mark.spark

RECORDS = 4_800
BATCHES = 8


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4,800 flights in 24 files."""
    folder = tmp_path_factory.mktemp("flights")
    replay(folder, rows_per_file=200, limit=RECORDS)
    return folder


@pytest.fixture(scope="module", autouse=True)
def replaced(tmp_path_factory: pytest.TempPathFactory, flights: Path) -> Iterator[tuple[Workspace, Future[DrillRun]]]:
    """A drill that waits most of its time, for a lease to expire: it runs beside the first tests of this file."""
    root = tmp_path_factory.mktemp("replaced")
    project = {"fault": "freeze_driver", "batches": BATCHES, "min_records": RECORDS}
    with drill_project(root, inputs=flights, **project) as workspace, ThreadPoolExecutor(1) as beside:
        yield workspace, beside.submit(run_drill, workspace)


def assert_right(run: DrillRun) -> None:
    assert run.passed, run.reason
    counts = run.facts["reconciliation"]
    assert [counts[kind] for kind in ("lost", "duplicated", "unexpected", "wrong")] == [0, 0, 0, 0]
    assert counts["records"] == RECORDS
    assert counts["expected"] > 500


@pytest.mark.full  # in the first tier spark/proofs/test_crash_matrix starts from what a kill at each moment leaves
def test_a_kill_between_two_files_of_a_batch_loses_nothing(tmp_path: Path, flights: Path) -> None:
    """After the state's files and before the sink's: the shortest of the moments."""
    with drill_project(
        tmp_path,
        inputs=flights,
        fault="kill_driver",
        options={"moment": KillMoment.AFTER_STATE},
        state="{shuffle_partitions: 2}",
        batches=BATCHES,
        min_records=RECORDS,
    ) as workspace:
        run = run_drill(workspace)
        assert_right(run)
        traces = run.facts["fault"]["evidence"]["traces"]
        assert (traces["state"] > 0, traces["files"], traces["listed"], traces["committed"]) == (True, 0, False, False)


def test_a_night_of_a_restart_a_damaged_delta_a_lost_input_file_and_a_sink_that_is_slow_and_then_fails(
    tmp_path: Path, flights: Path
) -> None:
    """One after the other, on the HDFS-backed store; nothing is lost or doubled.

    1. The driver is restarted at a batch boundary.
    2. A bit of a delta is flipped. Exit, supervision and check report it, the refused start leaves nothing behind, and
       the copy brings everything back.
    3. The input file of a planned batch is gone: the stream refuses to run it. Spark alone would commit it without the
       rows of that file.
    4. The driver goes on after two slow batches of the sink.
    5. It fails when the sink takes no files, its successor fails too, and the third one goes on.
    """
    damage = f"{{kind: checkpoint_damage, target: {CheckpointTarget.DELTA}, damage: {FileDamage.FLIPPED}}}"
    slow, failing = "{kind: sink_slow, times: 2, lasts: 2s}", "{kind: sink_failing, times: 2}"
    with drill_project(
        tmp_path,
        inputs=flights,
        source="{{path: {inputs}, format: json, max_files_per_trigger: 1}}",
        faults=f"faults: [{{kind: controlled_restart}}, {damage}, {{kind: input_gone}}, {slow}, {failing}]",
        state="{backend: hdfs, shuffle_partitions: 2}",
        batches=24,
        steady=1,
        min_records=RECORDS,
    ) as workspace:
        run = run_drill(workspace)
        assert_right(run)
        fork = workspace.data / "drills" / run.run_id / "fork"
        assert not (fork / "checkpoint-copy").exists()
    restarted, damaged, gone, slowed, failed = RunState.of(run).results
    assert restarted.recovery.restarted

    (harmed,) = damaged.landed.evidence["harmed"]
    assert harmed["path"].endswith(".delta")
    assert harmed["after"] == harmed["before"] > 0
    assert damaged.landed.evidence["foretold"] == "refuses"
    assert damaged.refusal.holds
    assert damaged.refusal.error_class.startswith("CANNOT_LOAD_STATE_STORE")
    assert "streamwarden inspect" in damaged.refusal.next_step

    (file,) = gone.landed.evidence["files_gone"]
    assert gone.refusal.error_class == "InputGone"
    assert file in gone.refusal.message

    assert [each["listed_at"] - each["files_at"] >= 2 for each in slowed.landed.evidence["slow"]] == [True, True]
    assert not slowed.recovery.restarted
    assert [each["exit"] for each in failed.landed.evidence["failures"]] == ["failed", "failed"]
    assert failed.recovery.restarted


HOLD = """\
import os, sqlite3, sys, time
ready, done = os.pipe()
if os.fork():
    os.close(done)
    os.read(ready, 1)
    os._exit(0)
os.setsid()
store = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
store.execute("BEGIN EXCLUSIVE")
open("holder", "w").write(str(os.getpid()))
os.write(done, b"1")
os.close(done)
time.sleep(120)
"""


@pytest.mark.full  # in the first tier spark/drivers/test_driver_life locks the store, and drills have two other outages
def test_a_stream_goes_on_without_the_store(tmp_path: Path, flights: Path) -> None:
    """Another process holds the only lock of the SQLite store, in which the drill keeps its journal."""
    (tmp_path / "hold.py").write_text(HOLD)
    down = f"[{sys.executable}, hold.py, {tmp_path / 'var' / 'streamwarden.db'}]"
    up = "[sh, -c, 'kill $(cat holder) || true']"
    with drill_project(
        tmp_path,
        inputs=flights,
        fault="service_outage",
        options={"outage": f"{{service: store, down: {down}, up: {up}, lasts: 6s}}"},
        batches=12,
        min_records=RECORDS,
    ) as workspace:
        run = run_drill(workspace)
        assert_right(run)
        proof, recovery = run.facts["fault"], run.facts["recovery"]
        assert proof["evidence"]["went_on"]
        assert not recovery["restarted"]


@TWIN_WITH_FULL
def test_input_that_is_doubled_late_and_out_of_order_is_read_as_it_comes(tmp_path: Path, oracle: str) -> None:
    """One after the other, in an order that is drawn from a seed. The job drops what is repeated: its output is that of
    the input without the copy."""
    replay(tmp_path / "flights", rows_per_file=192, limit=RECORDS)
    doubled, late, disordered = "input_doubled", "input_late", "input_out_of_order"
    with drill_project(
        tmp_path,
        inputs=tmp_path / "flights",
        faults=f"seed: 16\nfaults: [{{kind: {doubled}, deduplicates: true}}, {{kind: {late}}}, {{kind: {disordered}}}]",
        job="flight_dedup",
        batches=25,
        min_records=RECORDS,
        oracle=oracle,
    ) as workspace:
        run = run_drill(workspace)
        assert run.passed, run.reason
        results = RunState.of(run).results
        assert [result.spec.kind for result in results] == [doubled, disordered, late]
        assert all(result.landed and result.recovery and result.recovery.restarted for result in results)
        notes = run.facts["reconciliation"]["notes"]
        assert notes["rows_changed_by_copies"] == 0
        assert notes["repeats"] > 0, "some rows of the copy were not late, and were dropped as repeated"
        assert notes["late_rows"] > 0
        assert run.facts["reconciliation"]["records"] == RECORDS + 192, "the copy was read"
        assert oracle == "job" or run.facts["twin"]["outcome"]["exactly_once"]


def test_a_driver_that_goes_on_after_it_was_replaced_writes_nothing_twice(
    replaced: tuple[Workspace, Future[DrillRun]],
) -> None:
    """It stands still in mid-batch until the lease has expired and another driver has committed that batch."""
    workspace, drill = replaced
    run = drill.result()
    assert_right(run)
    proof, recovery = run.facts["fault"], run.facts["recovery"]
    assert proof["evidence"]["stood_still"]
    assert proof["evidence"]["redone"]
    assert proof["evidence"]["successor"]["driver_id"] == recovery["driver_id"] != proof["driver_id"]
    assert proof["evidence"]["successor"]["token"] > proof["evidence"]["token"]
    outcome = read_outcome(Path(workspace.store.drivers.get(proof["driver_id"]).folder))
    assert outcome is not None
    assert outcome.kind is ExitKind.FENCED
