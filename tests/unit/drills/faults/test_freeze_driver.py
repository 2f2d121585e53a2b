"""A driver that stands still until another one has taken over: what lands, what is a miss, and what deviates."""

from __future__ import annotations

import pytest

from streamwarden.drills.records.journal import FORK_STEPS, DrillRun, DrillStatus, DrillStep
from streamwarden.drills.reporting.report import verdict_word
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import Killed, World

KIND = "freeze_driver"


def run(world: World, **changes: object) -> DrillRun:
    return world.engine(drill(KIND, fault=fault_of(KIND, **changes))).run(KIND)  # type: ignore[arg-type]


def test_another_driver_takes_over_and_the_first_one_ends() -> None:
    world = World()
    result = run(world)
    assert result.passed, result.reason
    proof, recovery = result.facts["fault"], result.facts["recovery"]
    assert proof["driver_id"] == "d1"
    assert recovery["driver_id"] == "d2"
    assert recovery["first_new_batch"] == proof["planned"] == proof["committed"] + 1
    assert proof["evidence"]["successor"]["token"] > proof["evidence"]["token"]
    assert recovery["recovery_seconds"] == pytest.approx(57.0, abs=1.0), "45 s of lease, 10 of start-up, the batch"
    assert world.signals == ["freeze d1"]
    assert len(world.drivers) == 2
    assert result.facts["predicted"] == [] if "predicted" in result.facts else True


def test_a_driver_that_lives_on_after_it_was_replaced_deviates_and_is_killed() -> None:
    world = World(fenced=False, total_batches=60)
    result = run(world)
    assert verdict_word(result) == "DEVIATED"
    assert "the replaced driver still ran 60 s after it went on" in result.reason
    assert "kill d1" in world.signals


def test_a_lease_that_does_not_expire_in_time_is_a_miss_and_the_driver_goes_on() -> None:
    world = World(lease=200.0, total_batches=60)
    result = run(world, attempts=1, within=60.0)
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert "no other driver took over" in result.reason
    assert world.drivers["d1"].frozen_at is None


def test_a_successor_without_a_larger_token_is_a_miss() -> None:
    result = run(World(token_grows=False, total_batches=60), attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "driver d2 has no larger fencing token" in result.reason


def test_a_successor_that_commits_nothing_while_the_first_stands_still_is_a_miss() -> None:
    result = run(World(lives_that_commit=1), attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "driver d2 did not commit that batch meanwhile" in result.reason


def test_a_driver_that_does_not_stand_still_is_a_miss() -> None:
    result = run(World(freezes=False, total_batches=30), attempts=2)
    assert result.status is DrillStatus.FAILED
    assert "the driver does not stand still" in result.reason


def test_a_batch_that_was_committed_before_the_driver_stood_still_is_a_miss() -> None:

    class Between(World):
        def freeze(self, driver_id: str, *, supervised: bool = True) -> bool:
            self.planned = {batch: at for batch, at in self.planned.items() if batch in self.committed}
            return super().freeze(driver_id, supervised=supervised)

    result = run(Between(total_batches=30), attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "was committed by then" in result.reason


def test_a_strike_that_died_while_the_driver_stood_still_is_undone_and_made_again() -> None:
    world = World(die_at="before_take_over", total_batches=30)
    wanted = drill(KIND)
    run_id = world.engine(wanted).begin(KIND)
    world.engine(wanted).step(run_id, DrillStep.STEADY_STATE, park=False)
    with pytest.raises(Killed):
        world.engine(wanted).step(run_id, DrillStep.FAULT)
    for step in FORK_STEPS[1:]:
        result = world.engine(wanted).step(run_id, step)
    assert result.passed, result.reason
    assert len(world.drivers) == 2
