"""A kill at a named moment of a batch: what lands, what is a miss, and where it is not applicable."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.batch_progress import BatchTraces, manifest_output, read_traces
from streamwarden.drills.faults import Fault
from streamwarden.drills.faults.driver.kill_driver import KillMoment, moment_in
from streamwarden.drills.records.journal import FORK_STEPS, DrillRun, DrillStatus, DrillStep
from streamwarden.drills.records.types import ForkView
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import Killed, World


def spec(moment: KillMoment, **changes: object) -> Fault:
    return fault_of("kill_driver", moment=moment, **changes)  # type: ignore[arg-type]


def run(world: World, moment: KillMoment, **changes: object) -> DrillRun:
    return world.engine(drill(fault=spec(moment, **changes))).run("kill_driver")


@pytest.mark.parametrize("moment", KillMoment)
def test_the_driver_is_killed_at_each_moment_and_the_files_of_the_batch_prove_it(moment: KillMoment) -> None:
    handed_over = moment is KillMoment.AFTER_HANDOVER
    world = World(sink="parquet", batch_seconds=1.0, functions=handed_over)
    result = run(world, moment)
    assert result.passed, result.reason
    proof = result.facts["fault"]
    assert proof["planned"] == proof["committed"] + 1 == proof["evidence"]["aimed_at_batch"]
    shown = KillMoment.AFTER_MANIFEST if handed_over else moment  # the simulated function writes a manifest, too
    assert moment_in(BatchTraces(**proof["evidence"]["traces"])) is shown
    assert world.signals == ["freeze d1", "kill d1"], "it stands still while its files are read"


def test_a_stream_without_a_function_has_no_moment_after_it() -> None:
    result = run(World(sink="parquet"), KillMoment.AFTER_HANDOVER)
    assert result.status is DrillStatus.ABORTED
    assert "no function of foreachBatch gets the rows of flights" in result.reason


def test_a_driver_that_has_moved_on_before_it_stands_still_goes_on_and_is_not_killed() -> None:
    """SIGSTOP takes effect a quarter of a batch later each time: the moment is over, in each batch."""
    world = World(sink="parquet", batch_seconds=1.0, freeze_delay=0.26, total_batches=30)
    result = run(world, KillMoment.AFTER_STATE, attempts=1)
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert "the driver was already over: completed" in result.reason
    assert "no batch was caught after_state" in [entry.message for _, entry in world.journals.lines]
    assert len(world.signals) > 5
    assert not any(signal.startswith("kill") for signal in world.signals)


def test_a_death_at_another_moment_is_a_miss() -> None:
    """The traces that count are those after the death."""
    world = World(sink="parquet", batch_seconds=1.0, total_batches=60)
    world.kill_delay, thaw = 0.3, world.kill

    def kill(driver_id: str) -> bool:
        world.thaw(driver_id)
        return thaw(driver_id)

    world.kill = kill  # type: ignore[method-assign]
    result = run(world, KillMoment.AFTER_STATE, attempts=2)
    assert result.status is DrillStatus.FAILED
    assert "not after_state, but 2 state files, 1 whole data file, no manifest entry" in result.reason


def test_a_driver_that_does_not_stand_still_is_a_miss() -> None:
    world = World(sink="parquet", freezes=False, total_batches=30)
    result = run(world, KillMoment.AFTER_FILES, attempts=2)
    assert result.status is DrillStatus.FAILED
    assert "did not land in 2 attempts" in result.reason


def test_a_step_that_dies_while_the_driver_stands_still_lets_it_go_on() -> None:
    world = World(sink="parquet", die_at="after_freeze", total_batches=30)
    engine = world.engine(drill(fault=spec(KillMoment.AFTER_OFFSETS)))
    run_id = engine.begin("kill_driver")
    engine.step(run_id, DrillStep.STEADY_STATE, park=False)
    with pytest.raises(Killed):
        engine.step(run_id, DrillStep.FAULT)
    for step in FORK_STEPS[1:]:
        result = engine.step(run_id, step)
    assert result.passed, result.reason
    assert "the driver was stopped and goes on" in [entry.message for _, entry in world.journals.lines]


@pytest.mark.parametrize(
    ("sink", "instead"), [("postgresql", "kill_after_database_commit"), ("kafka", "kill_after_topic_write")]
)
@pytest.mark.parametrize("moment", [KillMoment.AFTER_FILES, KillMoment.AFTER_MANIFEST])
def test_a_sink_without_a_manifest_has_no_such_moment(sink: str, instead: str, moment: KillMoment) -> None:
    world = World(sink=sink)
    result = run(world, moment)
    assert result.status is DrillStatus.ABORTED
    assert f"the moment {moment} is not applicable: the sink of flights is of the kind {sink}" in result.reason
    assert f"`{instead}`" in result.reason
    assert not world.drivers


def test_a_fork_in_an_object_store_shows_no_moment() -> None:
    class Away(World):
        def make(self, *args: Any, **options: Any) -> ForkView:
            return replace(super().make(*args, **options), checkpoint="s3a://bucket/drills/checkpoint")

    result = run(Away(sink="parquet"), KillMoment.AFTER_STATE)
    assert result.status is DrillStatus.ABORTED
    assert "the moments of a batch, which the times of files show, need a fork on this host" in result.reason


@pytest.mark.parametrize(
    ("traces", "moment"),
    [
        (BatchTraces(planned_at=None, state=2), None),
        (BatchTraces(planned_at=1.0), KillMoment.AFTER_OFFSETS),
        (BatchTraces(planned_at=1.0, state=1), KillMoment.AFTER_STATE),
        (BatchTraces(planned_at=1.0, files=1), KillMoment.AFTER_FILES),
        (BatchTraces(planned_at=1.0, state=1, files=2, listed=True), KillMoment.AFTER_MANIFEST),
        (BatchTraces(planned_at=1.0, state=1, files=2, listed=True, committed=True), None),
    ],
)
def test_the_last_file_that_a_batch_wrote_names_its_moment(traces: BatchTraces, moment: KillMoment | None) -> None:
    assert moment_in(traces) is moment


def test_the_traces_of_a_batch_are_read_from_its_files(tmp_path: Path) -> None:
    """Neither the files of other batches, nor those that are not whole, nor temporary ones count."""
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "output"

    def put(file: Path, content: bytes = b"x") -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def read(batch: int = 1) -> BatchTraces:
        found = read_traces(open_path(str(checkpoint)), manifest_output(open_path(str(output))), batch)
        return replace(found, planned_at=None if found.planned_at is None else 1.0)

    def at(*names: str) -> float:
        return min((output / name).stat().st_mtime for name in names)

    assert read() == BatchTraces(planned_at=None)
    put(output / "part-0.json")
    put(checkpoint / "offsets" / "0")
    put(checkpoint / "commits" / "0")
    put(checkpoint / "offsets" / "1")
    moved = (output / "part-0.json").stat().st_mtime - 10

    os.utime(output / "part-0.json", (moved, moved))
    assert read() == BatchTraces(planned_at=1.0)
    put(checkpoint / "state/0/0/1.changelog")
    put(checkpoint / "state/0/0/.2.changelog.tmp")
    put(output / "part-1.parquet", b"PAR1")
    put(output / "part-2.json", b"")
    assert read() == BatchTraces(planned_at=1.0)
    put(checkpoint / "state/0/0/2.changelog")
    put(checkpoint / "state/0/1/2.zip")
    put(output / "part-1.parquet", b"PAR1" + bytes(20) + b"PAR1")
    put(output / "part-2.json")
    files_at = at("part-1.parquet", "part-2.json")
    assert read() == BatchTraces(planned_at=1.0, state=2, files=2, files_at=files_at)
    put(output / "_spark_metadata/1.compact")
    put(checkpoint / "commits" / "1")
    listed_at = at("_spark_metadata/1.compact")
    assert read() == BatchTraces(
        planned_at=1.0, state=2, files=2, files_at=files_at, listed=True, listed_at=listed_at, committed=True
    )
    assert read_traces(open_path(str(checkpoint)), None, 1).files == 0
