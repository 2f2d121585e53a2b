"""A restart on another Spark: which driver runs on it, what is a miss, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streamwarden.drills.faults.driver.upgrade_spark import UpgradeSpark
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep
from streamwarden.errors import DrillAborted
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.ports.driver_spark import ForkSpark
from streamwarden.stream.spark import SparkSpec
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import Killed, World
from support.streams.health_windows import spec

KIND = "upgrade_spark"
NEW = "/opt/envs/spark43/bin/python"


def run(world: World, python: str | None = NEW) -> DrillRun:
    return world.engine(drill(KIND, fault=fault_of(KIND, python=python))).run(KIND)


def stops(world: World) -> list[str]:
    """The requests to stop that the fault made; others come from healing."""
    return [signal for signal in world.signals if signal.endswith("controlled restart")]


def test_the_driver_that_follows_the_stop_runs_on_the_other_spark() -> None:
    world = World()
    result = run(world)
    assert result.passed, result.reason
    assert world.spark.lives == {"d1": None, "d2": NEW}
    assert len(stops(world)) == 1
    assert "from Spark 4.1.4 to 4.3.0" in result.facts["fault"]["message"]
    assert result.facts["recovery"]["driver_id"] == "d2"


def test_a_new_spark_that_does_not_go_on_from_the_checkpoint_deviates() -> None:
    result = run(World(lives_that_start=1))
    assert result.deviated
    assert "the second start is refused" in result.reason


def test_a_step_that_dies_between_the_stop_and_the_choice_strikes_again() -> None:
    world = World(die_at="before_choice", total_batches=30)
    engine = world.engine(drill(KIND, fault=fault_of(KIND, python=NEW, attempts=2)))
    run_id = engine.begin(KIND)
    engine.step(run_id, DrillStep.STEADY_STATE)
    with pytest.raises(Killed):
        engine.step(run_id, DrillStep.FAULT)
    result = engine.run(KIND, run_id)
    assert result.passed, result.reason
    *before, last = world.spark.lives.values()
    assert last == NEW
    assert not any(before), "until the choice is recorded, each restart is one on the old Spark"


def test_a_stream_that_cannot_run_there_is_refused_before_it_is_stopped() -> None:
    world = World()
    world.spark.refusal = DrillAborted("flights cannot run on Spark 3.5.9: state encoded as Avro is not in it")
    result = run(world)
    assert result.status is DrillStatus.ABORTED
    assert "state encoded as Avro" in result.reason
    assert not stops(world)


def test_without_an_interpreter_nothing_is_started() -> None:
    world = World()
    result = run(world, python=None)
    assert result.status is DrillStatus.ABORTED
    assert "no other Spark is named" in result.reason
    assert not world.drivers


def test_the_executors_of_a_cluster_have_the_spark_of_the_cluster() -> None:
    with pytest.raises(DrillAborted, match="on the Spark that is installed there"):
        UpgradeSpark(python=NEW).require("flights", spec(spark=SparkSpec(master="yarn")))
    UpgradeSpark(python=NEW).require("flights", spec(spark=SparkSpec(master="local[2]")))


def test_the_drivers_of_a_run_are_started_on_the_chosen_interpreter(tmp_path: Path) -> None:
    chosen, fork = ForkSpark(DrillArchive(tmp_path)), spec()
    assert chosen.of_run(fork, "kill-1") is fork
    chosen.choose("kill-1", NEW)
    assert chosen.of_run(fork, "kill-1").spark.python == NEW
    assert chosen.of_run(fork, "kill-2") is fork


def test_the_same_spark_is_no_upgrade(tmp_path: Path) -> None:
    with pytest.raises(DrillAborted, match="runs on it already"):
        ForkSpark(DrillArchive(tmp_path)).versions(spec(), sys.executable)


def test_an_interpreter_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DrillAborted, match="there is no such file"):
        ForkSpark(DrillArchive(tmp_path)).versions(spec(), str(tmp_path / "bin" / "python"))
