"""An executor killed in mid-batch: what lands, what is a miss, what is not applicable, and what deviates."""

from __future__ import annotations

import pytest

from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep
from streamwarden.drills.reporting.report import verdict_word
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import World


def run(world: World, **changes: object) -> DrillRun:
    spec = fault_of("kill_executor", **changes)  # type: ignore[arg-type]
    return world.engine(drill("kill_executor", fault=spec)).run("kill_executor")


def test_the_driver_lives_through_it_and_the_cut_batch_commits() -> None:
    world = World()
    result = run(world)
    assert result.passed, result.reason
    proof, recovery = result.facts["fault"], result.facts["recovery"]
    batch = proof["planned"]
    assert proof["committed"] == batch - 1 == recovery["first_new_batch"] - 1
    assert proof["evidence"]["executor"]["process"]["pid"] == 7000
    assert proof["evidence"]["gone"]
    assert f"offsets/{batch} written and commits/{batch} absent" in proof["message"]
    assert recovery["driver_id"] == proof["driver_id"] == "d1"
    assert not recovery["restarted"]
    assert world.signals == ["kill executor 0"]
    assert "by the struck driver" in world.archive.summaries[result.run_id]


def test_the_prediction_is_that_of_a_new_executor_without_a_start_of_the_driver() -> None:
    """10 MB at 100 MB/s + 500 rows of each committed batch since version 1 + the first batch of this life, of 2 s."""
    result = run(World())
    theorem, replaced = result.facts["predicted"]
    committed = result.facts["fault"]["committed"]
    assert theorem["seconds"] == pytest.approx((committed + 1) * 2.0)
    assert replaced["seconds"] == pytest.approx(0.1 + 500 * committed * 24e-6 + 2.0)
    assert [term["name"] for term in replaced["terms"]] == ["snapshot copy", "state replay", "batch on a new executor"]


@pytest.mark.parametrize("master", ["local", "local[2]", "local-cluster[1,1,512]"])
def test_in_local_mode_it_is_not_applicable_and_nothing_starts(master: str) -> None:
    world = World(master=master)
    result = run(world)
    assert result.status is DrillStatus.ABORTED
    assert result.deviated is None
    assert f"not applicable: flights runs on the master {master}, which has no executors" in result.reason
    assert "`kill_driver`" in result.reason
    assert not world.drivers
    assert world.cleared == 1


def test_a_host_without_executors_of_the_driver_is_reported() -> None:
    world = World(executors_here=0, total_batches=400)
    result = run(world, within=20.0)
    assert result.status is DrillStatus.ABORTED
    assert "this host has no executor of the driver d1" in result.reason
    assert world.signals == ["kill d1"], "the healing's"


def test_a_signal_that_ends_nothing_is_a_miss() -> None:
    world = World(executor_dies=False, total_batches=60)
    result = run(world, attempts=2)
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert "did not land in 2 attempts" in result.reason
    assert "still alive 10 s after SIGKILL" in result.reason


def test_an_executor_that_dies_after_the_commit_is_a_miss() -> None:
    result = run(World(executor_dies_late=True, total_batches=30), attempts=2)
    assert result.status is DrillStatus.FAILED
    assert "was committed by then" in result.reason
    assert len(result.facts["misses"]) == 2


def test_a_driver_that_does_not_live_through_it_deviates_and_is_not_started_again() -> None:
    world = World(driver_survives_executor=False)
    result = run(world)
    assert verdict_word(result) == "DEVIATED"
    assert "the stream never came back" in result.reason
    assert "SparkException: no executor left" in result.reason
    assert len(world.drivers) == 1
    assert result.facts["steps"][DrillStep.HEAL]["outcome"] == "passed"


def test_a_kill_whose_process_died_is_not_a_proof_and_another_executor_is_struck() -> None:
    """Batch N commits soon after: what is left cannot show that it had not when the executor died."""
    world = World(die_at="after_executor_kill", total_batches=30)
    engine = world.engine(drill("kill_executor"))
    run_id = engine.begin("kill_executor")
    engine.step(run_id, DrillStep.STEADY_STATE)
    with pytest.raises(BaseException, match="after_executor_kill"):
        engine.step(run_id, DrillStep.FAULT)
    for step in (DrillStep.FAULT, DrillStep.RECOVERY, DrillStep.VERIFICATION, DrillStep.HEAL, DrillStep.REPORT):
        result = engine.step(run_id, step)
    assert result.passed, result.reason
    assert world.signals[-2:] == ["kill executor 0", "kill executor 1"]
    assert result.facts["fault"]["evidence"]["executor"]["id"] == "1"
