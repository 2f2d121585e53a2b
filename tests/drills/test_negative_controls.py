"""Deliberately broken sinks, faults and jobs, with real Spark: the drill must catch each one and name it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamwarden.drills.faults import FaultContext
from streamwarden.drills.faults.driver.kill_driver import KillDriver
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.reporting.report import build_report, verdict_word
from streamwarden.services.replay.replay import replay
from support.spark.drill_project import drill_project, run_drill

pytestmark = pytest.mark.spark

RECORDS = 4_000
BATCHES = 8
"""As few as a drill accepts: nothing here is proven by the batches that follow the second start's first ones."""


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4,800 flights in 24 files: enough to be caught, little enough to be quick."""
    folder = tmp_path_factory.mktemp("flights")
    replay(folder, rows_per_file=200, limit=4_800)
    return folder


JOBS = ("blind_after_restart",)
FURTHER = ("drops_a_row", "doubles_on_replay", "changes_its_columns")
"""Of the second tier."""


@pytest.fixture(scope="module")
def deviating(
    tmp_path_factory: pytest.TempPathFactory, flights: Path, pytestconfig: pytest.Config
) -> dict[str, DrillRun]:
    """The drills `kill_driver` of streams with these jobs, two at a time; none may pass. The job's own oracle and a
    twin judge each."""
    jobs = JOBS + FURTHER if pytestconfig.getoption("--full") else JOBS

    def drilled(job: str) -> DrillRun:
        few = {"batches": BATCHES, "min_records": RECORDS, "oracle": "auto"}
        root = tmp_path_factory.mktemp(job)
        with drill_project(root, inputs=flights, fault="kill_driver", job=job, **few) as workspace:
            return run_drill(workspace)

    with ThreadPoolExecutor(2) as threads:
        runs = dict(zip(jobs, threads.map(drilled, jobs), strict=True))
    assert {job: verdict_word(run) for job, run in runs.items()} == dict.fromkeys(jobs, "DEVIATED"), runs
    return runs


@pytest.mark.full  # in the first tier test_script_drill names one row that is lost, and a job below loses many
def test_a_sink_that_drops_one_row_is_caught(deviating: dict[str, DrillRun]) -> None:
    run = deviating["drops_a_row"]
    counts = run.facts["reconciliation"]
    assert (counts["lost"], counts["duplicated"], counts["unexpected"], counts["wrong"]) == (1, 0, 0, 0)
    assert "1 lost" in run.reason
    assert "; due from " in counts["samples"]["lost"][0], "the input that should have made the row"
    sentence = build_report(run, ()).sentence
    assert f"was survived, but the job itself loses rows: 1 of {counts['expected']:,}" in sentence
    assert not run.facts["judgement"]["success"]
    assert run.facts["twin"]["outcome"]["exactly_once"], "each run of the job loses it"
    assert "the two oracles disagree" in run.reason
    assert "so that the fault is not the cause" in run.reason


@pytest.mark.full  # in the first tier test_script_drill has a batch that is appended twice, by a function
def test_a_sink_that_doubles_a_replayed_batch_is_caught(deviating: dict[str, DrillRun]) -> None:
    run = deviating["doubles_on_replay"]
    counts = run.facts["reconciliation"]
    assert counts["duplicated"] > 0
    assert (counts["lost"], counts["unexpected"], counts["wrong"]) == (0, 0, 0)
    assert f"{counts['duplicated']:,} duplicated" in run.reason
    assert not run.facts["judgement"]["success"]
    twin = run.facts["twin"]["outcome"]
    assert (twin["duplicated"], twin["lost"], twin["unexpected"], twin["wrong"]) == (counts["duplicated"], 0, 0, 0)


def test_a_job_that_reads_nothing_after_its_restart_is_caught(deviating: dict[str, DrillRun]) -> None:
    """Its own offset log would excuse it: the watermark does not advance, so that every later window would count as
    open."""
    run = deviating["blind_after_restart"]
    counts = run.facts["reconciliation"]
    assert counts["lost"] > counts["expected"] / 4
    assert f"{counts['lost']:,} lost" in run.reason
    assert any("watermark that the input does not explain" in problem for problem in counts["problems"])
    assert not run.facts["judgement"]["success"]
    twin = run.facts["twin"]["outcome"]
    assert any("watermark that the batch's rows do not explain" in problem for problem in twin["problems"])
    assert not twin["exactly_once"]


@pytest.mark.full  # in the first tier the tests of verification and of the twin's comparison judge such columns
def test_a_column_more_and_a_type_that_changed_are_caught_although_every_value_is_equal(
    deviating: dict[str, DrillRun],
) -> None:
    run = deviating["changes_its_columns"]
    counts = run.facts["reconciliation"]
    assert (counts["lost"], counts["duplicated"], counts["unexpected"], counts["wrong"]) == (0, 0, 0, 0)
    assert "the column flights is double in the output; the oracle expects bigint" in run.reason
    assert "the output has the additional column uuid (string); the oracle declares window_start, " in run.reason
    assert not run.facts["judgement"]["success"]
    (shown,) = [each for each in run.facts["judgement"]["expectations"] if each["suite"] == "columns"]
    assert (shown["success"], shown["unexpected_count"]) == (False, 2)
    twin = run.facts["twin"]
    assert (twin["twins"], twin["left_out"]) == (2, ["uuid"]), "random values: two unbroken runs differ in them"
    assert twin["outcome"]["exactly_once"]


@dataclass(frozen=True, slots=True)
class TooSlow(KillDriver):
    """Aims at a batch, and fires when the driver has long ended by itself."""

    def aim(self, context: FaultContext, *, deadline: float) -> int | None:
        batch = KillDriver.aim(self, context, deadline=deadline)
        context.ports.drivers.thaw(context.driver_id)
        context.await_exit(deadline=deadline)
        return batch


@pytest.mark.full  # what the engine makes of it is in unit/drills
def test_a_kill_that_misses_fails_the_drill_and_says_nothing_of_the_stream(tmp_path: Path, flights: Path) -> None:
    with drill_project(
        tmp_path, inputs=flights, fault="kill_driver", batches=BATCHES, min_records=RECORDS
    ) as workspace:
        run = run_drill(workspace, kill_driver=TooSlow)
        assert run.status is DrillStatus.FAILED
        assert run.deviated is None
        assert "the fault did not land" in run.reason
        assert "the driver was already over: completed" in run.reason
        assert "recovery" not in run.facts
        assert run.facts["healing"]["clean"]


@pytest.mark.full  # what the engine makes of it is in unit/drills
def test_a_stream_that_never_comes_back_is_caught(tmp_path: Path, flights: Path) -> None:
    with drill_project(
        tmp_path, inputs=flights, fault="kill_driver", job="starts_once", batches=BATCHES, min_records=RECORDS
    ) as workspace:
        run = run_drill(workspace)
        assert verdict_word(run) == "DEVIATED", run.reason
        assert "the stream never came back" in run.reason
        assert "the licence is used up" in run.reason
        assert "reconciliation" not in run.facts
        assert run.facts["healing"]["clean"]
