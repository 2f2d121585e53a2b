"""A sink whose folder is slow: what lands, what is a miss, and that the driver always goes on."""

from __future__ import annotations

from typing import Any

import pytest

from streamwarden.drills.faults.sink.sink_slow import LASTS
from streamwarden.drills.records.journal import FORK_STEPS, DrillRun, DrillStatus, DrillStep
from streamwarden.errors import InvalidValue
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import Killed, World

KIND = "sink_slow"


def run(world: World, **options: Any) -> DrillRun:
    return world.engine(drill(KIND, fault=fault_of(KIND, **options))).run(KIND)


def test_slow_batches_are_committed_by_the_same_driver() -> None:
    world = World(total_batches=20)
    result = run(world, times=3)
    assert result.passed, result.reason
    slow = result.facts["fault"]["evidence"]["slow"]
    first, second, third = (each["batch"] for each in slow)
    assert f"the output of batches {first}, {second}, {third} was slow: up to 5." in result.facts["fault"]["message"]
    assert first < second < third
    assert all(each["listed_at"] - each["files_at"] >= LASTS for each in slow)
    assert list(world.drivers) == ["d1"]
    assert not result.facts["recovery"]["restarted"]
    assert result.facts["recovery"]["first_new_batch"] == slow[-1]["batch"], "the recovery counts from the last"


def test_a_driver_that_goes_on_by_itself_is_a_miss() -> None:
    result = run(World(stands_still=False, total_batches=60), attempts=1)
    assert (result.status, result.deviated) == (DrillStatus.FAILED, None)
    assert "do not show it" in result.reason


def test_fewer_slow_batches_than_wanted_are_a_miss() -> None:
    result = run(World(total_batches=9), attempts=1, times=10)
    assert result.status is DrillStatus.FAILED
    assert "of 10 batches were held up" in result.reason


def test_a_driver_that_dies_of_it_is_a_deviation() -> None:
    """A slow folder is no reason to fail."""

    class Impatient(World):
        def thaw(self, driver_id: str) -> bool:
            self.drivers[driver_id].doomed = True
            return super().thaw(driver_id)

    result = run(Impatient(total_batches=30), attempts=1)
    assert not result.passed
    assert "was not committed" in result.reason


@pytest.mark.parametrize(("sink", "instead"), [("postgresql", "sink_locked"), ("script", "kill_driver")])
def test_a_sink_without_a_manifest_shows_no_slow_folder(sink: str, instead: str) -> None:
    result = run(World(sink=sink))
    assert result.status is DrillStatus.ABORTED
    assert "which has no manifest" in result.reason
    assert f"`{instead}`" in result.reason


def test_a_driver_that_would_be_replaced_meanwhile_is_refused() -> None:
    with pytest.raises(InvalidValue, match="a driver that stands still for longer is replaced"):
        drill(KIND, fault=fault_of(KIND, lasts=16.0))


def test_a_strike_that_died_leaves_no_driver_standing() -> None:
    world = World(die_at="after_freeze", total_batches=30)
    wanted = drill(KIND)
    run_id = world.engine(wanted).begin(KIND)
    world.engine(wanted).step(run_id, DrillStep.STEADY_STATE, park=False)
    with pytest.raises(Killed):
        world.engine(wanted).step(run_id, DrillStep.FAULT)
    for step in FORK_STEPS[1:]:
        result = world.engine(wanted).step(run_id, step)
    assert result.passed, result.reason
    assert list(world.drivers) == ["d1"]
