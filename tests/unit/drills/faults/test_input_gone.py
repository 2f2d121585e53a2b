"""A file of a planned batch is gone: what lands, what is a miss, and what deviates."""

from __future__ import annotations

import pytest

from streamwarden.drills.records.journal import FORK_STEPS, DrillRun, DrillStatus, DrillStep
from streamwarden.drills.reporting.report import verdict_word
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import Killed, World

KIND = "input_gone"


def run(world: World, **changes: object) -> DrillRun:
    return world.engine(drill(KIND, fault=fault_of(KIND, **changes))).run(KIND)  # type: ignore[arg-type]


def test_the_stream_refuses_without_the_file_and_goes_on_with_it() -> None:
    world = World(source="files")
    result = run(world)
    assert result.passed, result.reason
    proof, recovery = result.facts["fault"], result.facts["recovery"]
    batch = proof["planned"]
    assert proof["committed"] == batch - 1
    assert proof["evidence"]["files_gone"] == [f"flights-{batch:03d}-0.json"]
    assert f"flights-{batch:03d}-0.json is not in the input" in proof["message"]
    assert result.facts["refusal"]["holds"]
    assert (recovery["driver_id"], recovery["first_new_batch"]) == ("d3", batch)
    assert world.inputs.gone is None


def test_a_batch_that_is_committed_without_its_file_deviates() -> None:
    """Even if the output that is compared afterwards should be right."""
    world = World(source="files")
    world.inputs.ignored = True
    result = run(world)
    assert verdict_word(result) == "DEVIATED"
    assert "the stream went on in silence" in result.reason


def test_an_exit_that_does_not_name_the_file_deviates() -> None:
    world = World(source="files")
    world.inputs.named = False
    result = run(world)
    assert verdict_word(result) == "DEVIATED"
    assert "without the file flights-" in result.reason


def test_a_file_that_is_still_there_is_a_miss() -> None:
    world = World(source="files", total_batches=30)
    world.inputs.effect = False
    result = run(world, attempts=1)
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert "every file of the batch is in the input" in result.reason


def test_a_kill_that_came_too_late_takes_no_file_out() -> None:
    world = World(source="files", kill_works=False, total_batches=30)
    result = run(world, attempts=1, within=10.0)
    assert result.status is DrillStatus.FAILED
    assert "the driver is still alive" in result.reason


@pytest.mark.parametrize("kind", ["kafka", "delta"])
def test_a_topic_and_a_table_have_no_files_of_their_own(kind: str) -> None:
    world = World(source=kind)
    result = run(world)
    assert result.status is DrillStatus.ABORTED
    assert f"the source of flights is of the kind {kind}, which reads no folder of files" in result.reason
    assert "`retention_passed`" in result.reason
    assert not world.drivers


def test_a_healing_puts_the_file_back() -> None:
    world = World(source="files", die_at="after_take_out")
    wanted = drill(KIND)
    run_id = world.engine(wanted).begin(KIND)
    world.engine(wanted).step(run_id, DrillStep.STEADY_STATE)
    with pytest.raises(Killed):
        world.engine(wanted).step(run_id, DrillStep.FAULT)
    assert world.inputs.gone
    world.engine(wanted).step(run_id, DrillStep.HEAL)
    assert world.inputs.gone is None


@pytest.mark.parametrize("where", ["before_kill", "after_kill", "after_take_out"])
def test_a_strike_that_died_is_made_again_with_the_file_back(where: str) -> None:
    world = World(source="files", die_at=where, total_batches=20)
    wanted = drill(KIND)
    run_id = world.engine(wanted).begin(KIND)
    world.engine(wanted).step(run_id, DrillStep.STEADY_STATE)
    with pytest.raises(Killed):
        world.engine(wanted).step(run_id, DrillStep.FAULT)
    for step in FORK_STEPS[1:]:
        result = world.engine(wanted).step(run_id, step)
    assert result.passed, result.reason
    assert world.inputs.gone is None
