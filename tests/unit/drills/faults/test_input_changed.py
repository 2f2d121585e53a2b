"""Input that is doubled, late or out of order: what lands, what is a miss, and what the verification is told."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from streamwarden.drills.faults.input.input_changed import another_order
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep
from streamwarden.drills.records.sections import OracleKind
from streamwarden.drills.records.types import Copies
from streamwarden.drills.reporting.report import build_report
from streamwarden.drills.state import RunState
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import PERFECT, Killed, World

DOUBLED, LATE, DISORDERED = "input_doubled", "input_late", "input_out_of_order"
EACH = pytest.mark.parametrize("kind", [DOUBLED, LATE, DISORDERED])


def run(world: World, kind: str, *, seed: int | None = None, **options: Any) -> DrillRun:
    spec = drill(kind, fault=fault_of(kind, attempts=1, **options), seed=seed)
    return world.engine(spec).run(kind)


@EACH
def test_the_driver_is_stopped_and_the_next_one_finds_the_input_changed(kind: str) -> None:
    world = World()
    result = run(world, kind)
    assert result.passed, result.reason
    evidence = result.facts["fault"]["evidence"]
    assert evidence["before"] != evidence["next"]
    assert evidence["exit"] == "stopped"
    assert result.facts["recovery"]["restarted"]


@EACH
def test_input_that_is_as_it_was_is_a_miss(kind: str) -> None:
    world = World()
    world.inputs.effect = False
    result = run(world, kind)
    assert (result.status, result.deviated) == (DrillStatus.FAILED, None)
    assert "but the input does not have it so" in result.reason


@EACH
def test_a_driver_that_stopped_at_the_end_of_the_input_is_a_miss(kind: str) -> None:
    result = run(World(stop_is_late=True), kind)
    assert result.status is DrillStatus.FAILED


@EACH
def test_a_topic_has_no_files(kind: str) -> None:
    result = run(World(source="kafka"), kind)
    assert result.status is DrillStatus.ABORTED
    assert "which reads no folder of files" in result.reason


@EACH
@pytest.mark.parametrize("where", ["after_stop", "after_change"])
def test_a_strike_that_died_is_made_again(kind: str, where: str) -> None:
    """It cannot show in which order the files were before."""
    world = World(total_batches=40)
    wanted = drill(kind)
    run_id = world.engine(wanted).begin(kind)
    world.engine(wanted).step(run_id, DrillStep.STEADY_STATE, park=False)
    world.die_at = where
    with pytest.raises(Killed):
        world.engine(wanted).step(run_id, DrillStep.FAULT)
    for step in list(DrillStep)[1:]:
        result = world.engine(wanted).step(run_id, step)
    assert result.passed, result.reason


def test_verification_gets_the_copy() -> None:
    world = World()
    result = run(world, DOUBLED, deduplicates=True)
    (copy,) = result.facts["fault"]["copies"]
    assert copy.endswith("-again.json")
    assert world.copies == Copies(files=(copy,), deduplicated=True)
    assert f"{result.facts['fault']['evidence']['next'][0]}" == copy, "it is read next"


def test_a_copy_that_the_job_need_not_drop_is_counted_all_the_same() -> None:
    world = World(reconciliation=replace(PERFECT, notes={"rows_changed_by_copies": 7, "late_rows": 3}))
    result = run(world, DOUBLED)
    assert result.passed, result.reason
    assert world.copies is not None
    assert not world.copies.deduplicated
    rows = {row.name: row.value for row in build_report(result, ()).rows}
    assert rows["rows of the input"] == (
        "3 input rows were late, and dropped; 7 of 900 expected rows differ from those without the copy of a file"
    )


def test_without_an_oracle_the_output_without_the_copy_is_unknown() -> None:
    class OnlyTwin(World):
        def oracles(self, stream: str, feed: Any, asked: OracleKind) -> tuple[OracleKind, ...]:
            return (OracleKind.TWIN,)

    world = OnlyTwin()
    result = run(world, DOUBLED, deduplicates=True)
    assert result.status is DrillStatus.ABORTED
    assert "no oracle of the job" in result.reason
    assert not world.drivers


def test_a_late_file_is_the_last_one() -> None:
    evidence = run(World(), LATE).facts["fault"]["evidence"]
    assert evidence["next"] == [*evidence["before"][1:], evidence["before"][0]]


def test_one_file_alone_cannot_be_late() -> None:
    world = World()
    world.inputs.only_one_left = True
    result = run(world, LATE)
    assert result.status is DrillStatus.FAILED
    assert "fewer than two files are left" in result.reason


def test_the_seed_of_the_run_decides_the_order() -> None:
    orders = [run(World(total_batches=30), DISORDERED, seed=seed).facts["fault"]["evidence"] for seed in (5, 5, 6)]
    assert orders[0]["wanted"] == orders[1]["wanted"]
    assert sorted(orders[0]["wanted"]) == sorted(orders[0]["before"][-32:])
    assert RunState.of(run(World(total_batches=30), DISORDERED, seed=6)).plan.seed == 6


@pytest.mark.parametrize("seed", range(20))
def test_another_order_is_never_the_same(seed: int) -> None:
    assert another_order(["a", "b"], Random(seed)) == ["b", "a"]
