"""A kill between the database's commit and Spark's: what lands, and what is a miss."""

from __future__ import annotations

from streamwarden.drills.journal import DrillRun, DrillStatus
from streamwarden.drills.spec import FaultKind, FaultSpec
from support.drill_world import World, drill


def run(world: World, **changes: object) -> DrillRun:
    spec = FaultSpec(kind=FaultKind.KILL_AFTER_DATABASE_COMMIT, **changes)  # type: ignore[arg-type]
    wanted = drill(FaultKind.KILL_AFTER_DATABASE_COMMIT, fault=spec)
    return world.engine(wanted).run(wanted.name)


def test_a_kill_in_the_window_lands_and_the_proof_names_the_batch() -> None:
    result = run(World())
    assert result.passed, result.reason
    proof = result.facts["fault"]
    batch = proof["planned"]
    assert proof["committed"] == batch - 1
    assert proof["evidence"]["database_batch"] == batch == proof["evidence"]["aimed_at_batch"]
    assert f"commits/{batch} absent" in proof["message"]


def test_a_kill_that_comes_after_sparks_commit_is_a_miss_and_tried_again() -> None:
    world = World(total_batches=40, kill_delay=0.4, batch_seconds=0.3, database_lead=0.1, startup=1.0)
    result = run(world, attempts=2)
    assert result.status is DrillStatus.FAILED
    assert len(result.facts["misses"]) == 2
    assert "the database's newest batch is" in result.reason


def test_a_database_that_has_not_the_batch_is_a_miss() -> None:
    result = run(World(database_keeps=False, total_batches=40), attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "but the database's newest batch is None" in result.reason


def test_a_driver_that_ends_before_any_commit_leaves_nothing_to_strike() -> None:
    result = run(World(database_lead=-1.0), attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "the driver was already over" in result.reason
