"""A kill after the sink has written a batch and before Spark's commit: what lands, and what is a miss."""

from __future__ import annotations

import pytest

from streamwarden.drills.records.journal import DrillRun, DrillStatus
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import World

DATABASE = "kill_after_database_commit"
TOPIC = "kill_after_topic_write"
PLACES = pytest.mark.parametrize(("kind", "place"), [(DATABASE, "database"), (TOPIC, "topic")])


def run(world: World, kind: str = DATABASE, **changes: object) -> DrillRun:
    spec = fault_of(kind, **changes)  # type: ignore[arg-type]
    wanted = drill(kind, fault=spec)
    return world.engine(wanted).run(wanted.name)


@PLACES
def test_a_kill_in_the_window_lands_and_the_proof_names_the_batch(kind: str, place: str) -> None:
    result = run(World(), kind)
    assert result.passed, result.reason
    proof = result.facts["fault"]
    batch = proof["planned"]
    assert proof["committed"] == batch - 1
    assert proof["evidence"][f"{place}_batch"] == batch == proof["evidence"]["aimed_at_batch"]
    assert f"commits/{batch} absent, and batch {batch} in the {place}" in proof["message"]


@pytest.mark.parametrize(
    ("kind", "sink", "place", "instead"),
    [
        (DATABASE, "kafka", "database", "kill_after_topic_write"),
        (DATABASE, "parquet", "database", "kill_driver"),
        (TOPIC, "postgresql", "topic", "kill_after_database_commit"),
        (TOPIC, "script", "topic", "kill_driver"),
    ],
)
def test_another_sink_has_no_such_window_and_nothing_starts(kind: str, sink: str, place: str, instead: str) -> None:
    world = World(sink=sink)
    result = run(world, kind)
    assert result.status is DrillStatus.ABORTED
    assert f"{kind} is not applicable: the sink of flights is of the kind {sink}, which has no {place}" in result.reason
    assert f"`{instead}`" in result.reason
    assert not world.drivers
    assert world.cleared == 1


def test_a_kill_that_comes_after_sparks_commit_is_a_miss_and_tried_again() -> None:
    world = World(total_batches=40, kill_delay=0.4, batch_seconds=0.3, database_lead=0.1, startup=1.0)
    result = run(world, attempts=2)
    assert result.status is DrillStatus.FAILED
    assert len(result.facts["misses"]) == 2
    assert "the database's newest batch is" in result.reason


@PLACES
def test_a_sink_that_has_not_the_batch_is_a_miss(kind: str, place: str) -> None:
    result = run(World(database_keeps=False, total_batches=40), kind, attempts=1)
    assert result.status is DrillStatus.FAILED
    assert f"but the {place}'s newest batch is None" in result.reason


def test_a_driver_that_ends_before_any_commit_leaves_nothing_to_strike() -> None:
    result = run(World(database_lead=-1.0), attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "the driver was already over" in result.reason
