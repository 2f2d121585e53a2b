"""Another program that writes the table of a fork: what lands, and what is a miss."""

from __future__ import annotations

from typing import Any

import pytest

from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.tables import ADDED_COLUMN
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import World
from support.simulated.lake_table import CONFLICT, OF_TABLES

CONFLICTS, CLEANUP, LOST, COLUMN = "table_conflict", "table_cleanup", "table_log_file_lost", "table_schema_changed"


def run(kind: str, world: World, **options: Any) -> DrillRun:
    spec = drill(kind, fault=fault_of(kind, **{"attempts": 1, "within": 60.0, **options}))
    return world.engine(spec).run(kind)


def test_commits_of_another_writer_stand_between_the_version_that_a_batch_read_and_its_own() -> None:
    world = World()
    result = run(CONFLICTS, world)
    assert result.passed, result.reason
    assert (
        "between version 1, which the batch had read, and its own version 9 the table has"
        in result.facts["fault"]["message"]
    )
    assert len(world.lake.others) > 10
    assert world.lake.compactions == 1
    assert list(world.drivers) == ["d1"]


def test_a_batch_that_was_not_disturbed_is_a_miss_and_another_one_is_tried() -> None:
    world = World(total_batches=30)
    world.lake.lands_between = False
    result = run(CONFLICTS, world, attempts=2)
    assert (result.status, result.deviated) == (DrillStatus.FAILED, None)
    assert "but none between what the batch had read and its own commit" in result.reason
    assert len(result.facts["misses"]) == 2


def test_a_driver_that_a_conflict_ends_is_started_again() -> None:
    world = World()
    world.lake.conflict = CONFLICT
    result = run(CONFLICTS, world)
    assert result.passed, result.reason
    assert "the driver failed: files changed" in result.facts["fault"]["message"]
    assert list(world.drivers) == ["d1", "d2"]


def test_a_driver_that_fails_for_another_reason_is_no_conflict() -> None:
    world = World()
    world.lake.conflict = "disk_full"
    result = run(CONFLICTS, world)
    assert result.status is DrillStatus.FAILED
    assert "the driver failed otherwise: files changed" in result.reason


def test_the_table_is_cleaned_while_no_batch_is_being_written() -> None:
    world = World()
    result = run(CLEANUP, world)
    assert result.passed, result.reason
    assert "the table lost 2 data files and 2 versions, while no batch was" in result.facts["fault"]["message"]
    assert world.lake.cleaned_at is not None
    assert not any(planned < world.lake.cleaned_at < world.committed[batch] for batch, planned in world.planned.items())
    assert list(world.drivers) == ["d1"]


def test_a_driver_that_plans_a_batch_before_it_stands_still_goes_on_and_is_stopped_later() -> None:
    """The pause comes 1 s late, and a batch takes 2 s: the first one finds it in mid-batch."""
    world = World(total_batches=60, freeze_delay=1.0)
    result = run(CLEANUP, world, within=20.0)
    assert result.status is DrillStatus.FAILED
    assert "did not stand still between two batches" in result.reason
    assert world.lake.cleaned_at is None
    assert world.drivers["d1"].exit is not None


def test_a_table_with_nothing_to_remove_is_a_miss() -> None:
    world = World(total_batches=30)
    world.lake.has_old_versions = False
    result = run(CLEANUP, world)
    assert result.status is DrillStatus.FAILED
    assert "there was nothing to remove" in result.reason


def test_a_file_of_the_log_is_lost_under_a_driver_and_before_the_next_one() -> None:
    world = World()
    result = run(LOST, world)
    assert result.passed, result.reason
    assert "the driver went on; log/hint was lost again" in result.facts["fault"]["message"]
    assert world.lake.lost == 2
    assert list(world.drivers) == ["d1", "d2"]


def test_a_driver_that_does_not_go_on_without_the_file_is_a_deviation() -> None:
    world = World()
    world.lake.survives_loss = False
    result = run(LOST, world)
    assert result.deviated, result.reason
    assert "the driver did not go on: TimeoutException" in result.reason


def test_a_log_that_needs_the_file_keeps_it() -> None:
    world = World(total_batches=30)
    world.lake.log_is_whole = False
    result = run(LOST, world)
    assert result.status is DrillStatus.FAILED
    assert "the log cannot be read without the file" in result.reason


def test_a_column_is_added_while_no_batch_is_being_written() -> None:
    world = World()
    result = run(COLUMN, world)
    assert result.passed, result.reason
    assert result.facts["fault"]["evidence"]["after"] == ["id", "flights", ADDED_COLUMN]
    assert list(world.drivers) == ["d1"]


def test_a_column_that_the_table_does_not_have_is_a_miss() -> None:
    world = World(total_batches=30)
    world.lake.takes_columns = False
    result = run(COLUMN, world)
    assert result.status is DrillStatus.FAILED
    assert "but the table does not have it" in result.reason


@pytest.mark.parametrize("kind", sorted(OF_TABLES))
@pytest.mark.parametrize(
    ("sink", "instead"), [("parquet", "sink_failing"), ("postgresql", "service_outage"), ("script", "kill_driver")]
)
def test_only_a_table_of_files_has_other_writers(kind: str, sink: str, instead: str) -> None:
    result = run(kind, World(sink=sink))
    assert result.status is DrillStatus.ABORTED
    assert "which has no table of files" in result.reason
    assert f"`{instead}`" in result.reason
