"""A table that another session has locked: what lands, and what is a miss."""

from __future__ import annotations

from typing import Any

import pytest

from streamwarden.drills.records.journal import DrillRun, DrillStatus
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import World

KIND = "sink_locked"


def run(world: World, **options: Any) -> DrillRun:
    spec = drill(KIND, fault=fault_of(KIND, **{"attempts": 1, "within": 200.0, **options}))
    return world.engine(spec).run(KIND)


def test_the_batch_waits_and_is_committed_when_the_table_is_free() -> None:
    world = World(total_batches=30)
    result = run(world)
    assert result.passed, result.reason
    seen = result.facts["fault"]["evidence"]
    assert seen["waited_seconds"] >= 10
    assert (seen["committed"], len(seen["sessions"])) == (seen["committed_before"], 1)
    assert not result.facts["recovery"]["restarted"]
    assert list(world.drivers) == ["d1"]
    assert world.table.locked_at is None


def test_a_lock_beyond_the_time_limit_makes_each_attempt_to_write_fail() -> None:
    result = run(World(total_batches=60), lasts=70.0)
    assert result.passed, result.reason
    assert "writing it was tried in 3 sessions" in result.facts["fault"]["message"]


def test_lock_without_a_waiting_session_is_a_miss() -> None:
    world = World(total_batches=200)
    world.table.has_effect = False
    result = run(world)
    assert (result.status, result.deviated) == (DrillStatus.FAILED, None)
    assert "no session of the driver waited for it" in result.reason
    assert world.table.locked_at is None


def test_a_lock_that_somebody_has_ended_is_a_miss() -> None:
    world = World(total_batches=60)
    world.table.stays_locked = False
    result = run(world)
    assert result.status is DrillStatus.FAILED
    assert "no longer locked at the end" in result.reason


def test_a_wait_that_was_too_short_is_a_miss() -> None:
    result = run(World(total_batches=60), within=20.0, lasts=19.9)
    assert result.status is DrillStatus.FAILED
    assert "and not for the 19.9 s" in result.reason


@pytest.mark.parametrize(
    ("sink", "instead"), [("parquet", "sink_failing"), ("kafka", "service_outage"), ("script", "kill_driver")]
)
def test_only_a_database_has_tables(sink: str, instead: str) -> None:
    result = run(World(sink=sink))
    assert result.status is DrillStatus.ABORTED
    assert "which has no table" in result.reason
    assert f"`{instead}`" in result.reason
