"""A clock that jumps and is set right: what lands, and what is a miss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamwarden.drills.faults import Fault
from streamwarden.drills.faults.driver.clock_step import STEP, ClockStep
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep
from streamwarden.errors import DrillAborted, InvalidValue
from streamwarden.stream.spark import DeployMode, SparkSpec
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import Killed, World
from support.streams.health_windows import spec

KIND = "clock_step"
HOUR = 3600.0


def spec_of(**options: Any) -> Fault:
    return fault_of(KIND, **{"attempts": 1, **options})


def run(world: World, **options: Any) -> DrillRun:
    return world.engine(drill(KIND, fault=spec_of(**options))).run(KIND)


@pytest.mark.parametrize("by", [None, 60.0, -HOUR], ids=["an hour, by default", "a minute", "an hour back"])
def test_a_batch_runs_on_the_wrong_time_and_the_driver_goes_on(by: float | None) -> None:
    world = World()
    result = run(world, by=by)
    assert result.passed, result.reason
    seen = result.facts["fault"]["evidence"]
    step = STEP if by is None else by
    assert seen["difference"] == pytest.approx(step, abs=1)
    assert seen["stepped_batch"] <= seen["committed"]
    assert ("ahead" if step > 0 else "behind") in result.facts["fault"]["message"]
    assert result.facts["recovery"]["first_new_batch"] == seen["committed"] + 1, "with the right time again"
    assert not result.facts["recovery"]["restarted"]
    assert [by for _, by in world.clock.steps] == [step, 0.0]
    assert world.clock_steps == (step,), "the verdict allows for the times that batches claim"
    assert not world.clock.provided, "what the clock takes of the host is freed"


def test_a_clock_that_did_not_step_is_a_miss() -> None:
    world = World()
    world.clock.has_effect = False
    result = run(world)
    assert (result.status, result.deviated) == (DrillStatus.FAILED, None)
    assert "no batch was planned on it and committed" in result.reason
    assert world.clock.off == 0


def test_a_driver_that_ends_before_it_has_planned_a_batch_is_a_miss_too() -> None:
    world = World()
    world.clock.ends_drivers = True
    result = run(world)
    assert result.status is DrillStatus.FAILED
    assert world.clock.off == 0


@pytest.mark.parametrize("next_step", [DrillStep.FAULT, DrillStep.HEAL])
def test_the_clock_is_right_again_after_the_process_of_the_drill_was_killed(next_step: DrillStep) -> None:
    world = World(die_at="after_clock_step", total_batches=20)
    engine = world.engine(drill(KIND, fault=spec_of()))
    run_id = engine.begin(KIND)
    engine.step(run_id, DrillStep.STEADY_STATE)
    with pytest.raises(Killed):
        engine.step(run_id, DrillStep.FAULT)
    assert world.clock.off == STEP
    engine.step(run_id, next_step)
    assert world.clock.off == 0
    assert "the driver's clock is right again" in str([entry.message for _, entry in world.journals.lines])


def test_a_host_that_cannot_step_it_aborts_the_drill_before_anything_is_made() -> None:
    world = World()
    world.clock.refusal = DrillAborted("the clock of a driver cannot be stepped: no libfaketime")
    result = run(world)
    assert result.status is DrillStatus.ABORTED
    assert "no libfaketime" in result.reason
    assert world.forks_made == 0


def test_a_source_that_makes_its_rows_by_the_clock_is_refused() -> None:
    result = run(World(source="rate"))
    assert result.status is DrillStatus.ABORTED
    assert "makes the rows of flights by the clock" in result.reason


def test_a_driver_on_any_host_of_a_cluster_keeps_its_clock() -> None:
    spark = SparkSpec(master="yarn", deploy_mode=DeployMode.CLUSTER)
    with pytest.raises(DrillAborted, match="runs in its cluster, on any host"):
        ClockStep().require("flights", spec(spark=spark))
    ClockStep().require("flights", spec(spark=replace(spark, deploy_mode=DeployMode.CLIENT)))


def test_another_fault_has_the_clock_of_the_host() -> None:
    world = World()
    assert world.engine(drill()).run("kill_driver").passed
    assert not world.clock.provided


@pytest.mark.parametrize("by", [0.0, 59.0, -30.0])
def test_a_step_that_a_slow_disk_could_be_is_refused(by: float) -> None:
    with pytest.raises(InvalidValue, match="by"):
        spec_of(by=by)
