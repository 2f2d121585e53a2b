"""A sink whose folder takes no files: what lands, what is a miss, and that the folder always comes back."""

from __future__ import annotations

import pytest

from streamwarden.drills.records.journal import FORK_STEPS, DrillRun, DrillStatus, DrillStep
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import Killed, World

KIND = "sink_failing"


def run(world: World, **changes: object) -> DrillRun:
    return world.engine(drill(KIND, fault=fault_of(KIND, **changes))).run(KIND)  # type: ignore[arg-type]


def test_the_driver_fails_and_a_restart_cures_it() -> None:
    world = World()
    result = run(world)
    assert result.passed, result.reason
    proof = result.facts["fault"]
    assert "the driver failed: the folder is not a directory" in proof["message"]
    assert proof["evidence"]["exit"] == "failed"
    assert list(world.drivers) == ["d1", "d2"]
    assert not world.blocked
    assert world.signals == ["freeze d1"]


def test_a_sink_that_fails_three_times_fails_three_drivers_and_the_fourth_goes_on() -> None:
    world = World()
    result = run(world, times=3)
    assert result.passed, result.reason
    proof = result.facts["fault"]
    assert "3 drivers failed" in proof["message"]
    assert [each["exit"] for each in proof["evidence"]["failures"]] == ["failed"] * 3
    assert proof["driver_id"] == "d3"
    assert list(world.drivers) == ["d1", "d2", "d3", "d4"]
    assert result.facts["recovery"]["driver_id"] == "d4"
    assert not world.blocked


def test_a_second_failure_that_does_not_come_is_a_miss() -> None:
    world = World(lives_that_commit=1, total_batches=40)
    result = run(world, times=2, attempts=1, within=60.0)
    assert result.status is DrillStatus.FAILED
    assert "but driver 2 of 2 did not fail: it runs on" in result.reason
    assert not world.blocked


def test_a_driver_that_does_not_notice_is_a_miss_and_the_folder_is_back() -> None:
    world = World(block_works=False, total_batches=80)
    result = run(world, attempts=1, within=20.0)
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert "but the driver did not fail: it runs on" in result.reason
    assert not world.blocked


def test_a_driver_that_does_not_stand_still_keeps_its_folder() -> None:
    world = World(freezes=False, total_batches=30)
    result = run(world, attempts=1)
    assert result.status is DrillStatus.FAILED
    assert not world.blocked


@pytest.mark.parametrize(
    ("sink", "instead"), [("postgresql", "service_outage"), ("kafka", "service_outage"), ("script", "kill_driver")]
)
def test_a_sink_without_a_folder_fails_otherwise(sink: str, instead: str) -> None:
    world = World(sink=sink)
    result = run(world)
    assert result.status is DrillStatus.ABORTED
    assert f"the sink of flights is of the kind {sink}, which has no folder" in result.reason
    assert f"`{instead}`" in result.reason


@pytest.mark.parametrize("where", ["before_block", "after_block"])
def test_a_strike_that_died_is_undone_and_made_again(where: str) -> None:
    world = World(die_at=where, total_batches=30)
    wanted = drill(KIND)
    run_id = world.engine(wanted).begin(KIND)
    world.engine(wanted).step(run_id, DrillStep.STEADY_STATE, park=False)
    with pytest.raises(Killed):
        world.engine(wanted).step(run_id, DrillStep.FAULT)
    for step in FORK_STEPS[1:]:
        result = world.engine(wanted).step(run_id, step)
    assert result.passed, result.reason
    assert not world.blocked
