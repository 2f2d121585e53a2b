"""Each step runs in its own process, may be killed at any point, and is tried again: nothing breaks twice."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from streamwarden.drills.faults import FAULTS, Course, ExpectedEnd
from streamwarden.drills.records.journal import FORK_STEPS, DrillRun, DrillStatus, DrillStep
from streamwarden.errors import DrillError, StoreError
from streamwarden.lifecycle.forks.topic_copy import Feed
from support.simulated.drill_specs import drill
from support.simulated.drill_world import Killed, World

STRIKES = ("controlled restart", "its checkpoint is to be damaged")
"""How the reason of a stop ends that is the strike itself, or its beginning."""


UNTOUCHED = ("service_outage", "sink_locked", "clock_step", "table_conflict")
"""Faults that send the driver no signal."""

PAUSED_TO_LOOK = ("table_cleanup", "table_log_file_lost", "table_schema_changed")
"""Faults that pause the driver, and again if it had planned a batch by then."""

STRUCK_ONCE = [
    kind
    for kind, fault in FAULTS.items()
    if fault.feed is Feed.ORIGIN and fault.course is Course.STRUCK and kind != "input_gone"
]
"""A killed strike of `input_gone` is made again from its beginning: see tests/unit/drills/faults/test_input_gone.py."""


def run_in_processes(world: World, kind: str, *, pause: float = 0.0, retry_after: float = 1.0) -> DrillRun:
    """A new engine for each step, as Airflow's tasks have it; a killed step is tried again."""
    run_id = world.engine(drill(kind)).begin(kind, run_id="scheduled-1")
    for step in FORK_STEPS:
        try:
            world.engine(drill(kind)).step(run_id, step)
        except Killed:
            world.sleep(retry_after)
            world.engine(drill(kind)).step(run_id, step)
        world.sleep(pause)
    return world.journals.runs[run_id]


@pytest.mark.parametrize("kind", [kind for kind in FAULTS if FAULTS[kind].expected_end is ExpectedEnd.ENDS])
def test_the_steps_work_in_separate_processes_however_long_the_pauses(kind: str) -> None:
    """Between two steps ten minutes pass: the fork is parked, so its bounded input does not run out."""
    world = World(health_after=None)
    result = run_in_processes(world, kind, pause=600.0)
    assert result.facts["fault"]["landed"], result.reason
    assert "recovery took 6" in result.reason  # the pause before the restart is part of what a user waited
    assert result.facts["recovery"]["restart_seconds"] < 20
    assert result.facts["reconciliation"]["exactly_once"]


@pytest.mark.parametrize("kind", ["kill_executor", "service_outage"])
def test_a_driver_that_lives_on_is_judged_by_its_logs_however_late(kind: str) -> None:
    """It has read its whole input before the recovery's process starts."""
    result = run_in_processes(World(), kind, pause=600.0)
    assert result.passed, result.reason
    assert result.facts["recovery"]["recovery_seconds"] < 5


TOPIC_FAULTS = [kind for kind in FAULTS if FAULTS[kind].feed is not Feed.ORIGIN]

PLACES = (
    *("make", "before_start", "after_start", "after_stop", "before_kill", "after_kill", "reconcile", "clear"),
    *("before_down", "after_down", "before_up", "before_executor_kill"),
    *("before_other_commit", "before_clean", "before_loss", "before_column"),
)
PLACES_OF_A_TOPIC = (
    *("make", "before_start", "after_start", "after_stop", "before_grow", "after_grow", "before_forget"),
    *("after_forget", "before_remake", "after_remake", "before_renew", "reconcile", "clear"),
)


@cache
def passed(kind: str, places: tuple[str, ...], **settings: Any) -> list[str]:
    """The places that a drill with this fault passes, in which it can be killed."""
    world = World(**settings)
    assert run_in_processes(world, kind).passed
    return [where for where in places if where in world.passed]


@pytest.mark.parametrize("kind", STRUCK_ONCE)
def test_a_step_killed_anywhere_is_taken_up_where_it_stood(kind: str) -> None:
    for where in passed(kind, PLACES):
        world = World(die_at=where)
        result = run_in_processes(world, kind)
        assert world.die_at is None, where
        assert result.passed, (where, result.reason)
        assert world.forks_made == 1, where
        ends = FAULTS[kind].expected_end is ExpectedEnd.ENDS
        signals = "kill" if kind == "kill_driver" else ("kill", "freeze")  # it is paused first, and then killed
        strikes = [each for each in world.signals if each.startswith(signals) or each.endswith(STRIKES)]
        assert kind in PAUSED_TO_LOOK or len(strikes) == (0 if kind in UNTOUCHED else 1), where
        followed = ends or FAULTS[kind].expected_end is ExpectedEnd.REPLACED or kind == "sink_failing"
        assert len(world.drivers) == (3 if followed else 2), where  # parked, struck, and the one that follows, if any
        assert world.service.down_since is world.table.locked_at is None, where
        assert (world.service.commands[-1:] == ["up"]) is (kind == "service_outage"), where


def test_each_place_is_passed_by_a_fault() -> None:
    """Otherwise nothing would be killed there."""
    assert {where for kind in STRUCK_ONCE for where in passed(kind, PLACES)} == set(PLACES)
    of_topics = [passed(kind, PLACES_OF_A_TOPIC, total_batches=24) for kind in TOPIC_FAULTS]
    assert {where for places in of_topics for where in places} == set(PLACES_OF_A_TOPIC)


@pytest.mark.parametrize("kind", TOPIC_FAULTS)
def test_a_topic_is_broken_once_however_often_its_drill_is_killed(kind: str) -> None:
    """A strike that died between the stop and what comes after it did nothing: it is a miss, and is done again."""
    for where in passed(kind, PLACES_OF_A_TOPIC, total_batches=24):
        world = World(die_at=where, total_batches=24)
        result = run_in_processes(world, kind)
        assert world.die_at is None, where
        assert result.passed, (where, result.reason)
        assert world.forks_made == 1, where
        assert world.input.grown is (kind == "partitions_added"), where
        assert (world.input.recreated is not None) is (kind == "topic_recreated"), where
        assert any(world.input.first.values()) is (kind == "retention_passed"), where
        assert all(driver.exit for driver in world.drivers.values()), where


@pytest.mark.parametrize("where", ["before_grow", "after_grow"])
def test_the_recovery_counts_from_the_new_partitions_whichever_try_reports_them(where: str) -> None:
    """The new records are read long before the next try starts; if that try adds them, it counts again."""
    world = World(die_at=where, total_batches=24)
    result = run_in_processes(world, "partitions_added", retry_after=40.0)
    assert result.passed, result.reason
    recovery = result.facts["recovery"]
    assert world.input.grown_at is not None
    assert recovery["recovery_seconds"] == pytest.approx(recovery["first_commit_at"] - world.input.grown_at)
    assert recovery["recovery_seconds"] > 2.0, "the batch alone takes as long"


def test_partitions_that_an_attempt_before_had_added_in_part_are_a_miss() -> None:
    """The driver died with the process that was adding them: it is unknown which of the records that it reads then are
    new."""
    world = World(die_at="after_grow", total_batches=24)
    engine = world.engine(drill("partitions_added"))
    run_id = engine.begin("partitions_added")
    engine.step(run_id, DrillStep.STEADY_STATE)
    with pytest.raises(Killed):
        engine.step(run_id, DrillStep.FAULT)
    world.kill("d2")
    world.input.sent = 0.5
    result = engine.step(run_id, DrillStep.FAULT)
    assert "an earlier attempt had already added the partitions" in result.facts["halt"]["reason"]


def test_restart_counts_from_the_first_request_of_any_process() -> None:
    """The driver takes a batch's time to obey, and the next try asks once more."""
    world = World(batch_seconds=30.0)
    engine = world.engine(drill("controlled_restart"))
    run_id = engine.begin("controlled_restart")
    engine.step(run_id, DrillStep.STEADY_STATE)
    world.die_at = "after_stop"
    with pytest.raises(Killed):
        engine.step(run_id, DrillStep.FAULT)
    world.sleep(10.0)
    for step in FORK_STEPS:
        result = engine.step(run_id, step)
    asked_at = world.drivers[result.facts["fault"]["driver_id"]].stop_asked_at
    assert result.facts["fault"]["moment"] == asked_at
    recovery = result.facts["recovery"]
    assert recovery["recovery_seconds"] == pytest.approx(recovery["first_commit_at"] - asked_at)


def test_a_fork_is_never_made_twice_and_a_finished_step_is_not_repeated() -> None:
    world = World()
    engine = world.engine(drill())
    run_id = engine.begin("kill_driver")
    for step in FORK_STEPS:
        first = engine.step(run_id, step)
        before = (len(world.journals.lines), len(world.drivers), list(world.signals))
        assert engine.step(run_id, step) == first
        assert (len(world.journals.lines), len(world.drivers), list(world.signals)) == before
    assert world.forks_made == 1


def test_a_retry_of_the_first_task_begins_no_second_run() -> None:
    world = World()
    engine = world.engine(drill())
    assert engine.begin("kill_driver", "nightly-7") == engine.begin("kill_driver", "nightly-7") == "nightly-7"
    assert len(world.journals.runs) == 1


def test_the_drill_is_the_one_that_was_begun_even_if_its_file_changes() -> None:
    world = World()
    run_id = world.engine(drill()).begin("kill_driver")
    changed = drill("controlled_restart")
    engine = world.engine(changed)
    for step in FORK_STEPS:
        engine.step(run_id, step)
    assert world.journals.runs[run_id].facts["fault"]["kind"] == "kill_driver"


def test_two_processes_do_not_work_on_one_run() -> None:
    world = World()
    engine = world.engine(drill())
    run_id = engine.begin("kill_driver")
    world.archive.locked = True
    with pytest.raises(DrillError, match="another process"):
        engine.step(run_id, DrillStep.STEADY_STATE)
    assert world.forks_made == 0


def test_a_store_that_is_down_decides_nothing_and_a_retry_goes_on() -> None:
    world = World()
    engine = world.engine(drill())
    run_id = engine.begin("kill_driver")
    world.journals.down = True
    with pytest.raises(StoreError):
        engine.step(run_id, DrillStep.STEADY_STATE)
    world.journals.down = False
    for step in FORK_STEPS:
        engine.step(run_id, step)
    assert world.journals.runs[run_id].passed


def test_a_step_that_never_finished_fails_the_drill_and_is_healed() -> None:
    """The fault's task was killed for good: heal and report run all the same and say so."""
    world = World(die_at="before_kill")
    engine = world.engine(drill())
    run_id = engine.begin("kill_driver")
    engine.step(run_id, DrillStep.STEADY_STATE)
    with pytest.raises(Killed):
        engine.step(run_id, DrillStep.FAULT)
    for step in (DrillStep.RECOVERY, DrillStep.VERIFICATION, DrillStep.HEAL, DrillStep.REPORT):
        result = engine.step(run_id, step)
    assert result.status is DrillStatus.FAILED
    assert "the step fault did not finish" in result.reason
    assert result.facts["steps"]["recovery"]["outcome"] == "skipped"
    assert all(driver.exit for driver in world.drivers.values())


def test_after_an_abort_the_other_steps_are_skipped_by_name() -> None:
    world = World(total_batches=3)
    engine = world.engine(drill())
    run_id = engine.begin("kill_driver")
    for step in FORK_STEPS:
        result = engine.step(run_id, step)
    outcomes = {step: result.facts["steps"][step]["outcome"] for step in FORK_STEPS}
    assert outcomes == {
        DrillStep.STEADY_STATE: "failed",
        DrillStep.FAULT: "skipped",
        DrillStep.RECOVERY: "skipped",
        DrillStep.VERIFICATION: "skipped",
        DrillStep.HEAL: "passed",
        DrillStep.REPORT: "failed",
    }
    assert result.status is DrillStatus.ABORTED
    assert [each for each in FORK_STEPS[:4] if each not in outcomes] == []


def test_a_healing_that_did_not_pass_is_done_again() -> None:
    """The broker was unavailable for seconds; a failure of the first healing says nothing about the drill."""
    world = World(clear_failures=1)
    engine = world.engine(drill())
    run_id = engine.begin("kill_driver")
    for step in FORK_STEPS[:4]:
        engine.step(run_id, step)
    first = engine.step(run_id, DrillStep.HEAL)
    assert first.facts["steps"]["heal"]["outcome"] == "failed"
    assert "the broker does not answer" in first.facts["healing"]["message"]
    engine.step(run_id, DrillStep.HEAL)
    result = engine.step(run_id, DrillStep.REPORT)
    assert world.cleared == 1
    assert result.passed, result.reason


def test_a_run_that_was_reported_before_it_was_healed_is_healed_and_reported_again() -> None:
    """The store was unavailable during all tries of the healing, and available for the report."""
    world = World(total_batches=500)
    engine = world.engine(drill())
    run_id = engine.begin("kill_driver")
    engine.step(run_id, DrillStep.STEADY_STATE, park=False)
    world.journals.down = True
    with pytest.raises(StoreError):
        engine.step(run_id, DrillStep.HEAL)
    world.journals.down = False
    reported = engine.step(run_id, DrillStep.REPORT)
    assert world.drivers["d1"].exit is None
    assert "| healing | not done |" in world.archive.summaries[run_id]
    world.sleep(60.0)
    healed = engine.step(run_id, DrillStep.HEAL)
    assert world.drivers["d1"].exit is not None
    assert world.cleared == 1
    assert healed.ended_at == reported.ended_at, "the drill was over then"
    assert "| healing | the driver d1 was ended; removed: fork/input" in world.archive.summaries[run_id]
    assert world.archive.documents[run_id]["facts"]["healing"]["clean"]
    assert engine.step(run_id, DrillStep.REPORT) == engine.step(run_id, DrillStep.HEAL) == healed


def test_a_verdict_that_lacked_the_healing_is_given_again_after_it() -> None:
    """Also if the process died between the two: the next one finds that the report is of before."""
    world = World(clear_failures=2)
    engine = world.engine(drill())
    run_id = engine.begin("kill_driver")
    for step in FORK_STEPS:
        reported = engine.step(run_id, step)
    assert reported.status is DrillStatus.FAILED
    assert "healing is incomplete: the broker does not answer" in reported.reason
    assert engine.step(run_id, DrillStep.HEAL).status is DrillStatus.FAILED, "it is still unavailable"
    write, world.archive.write = world.archive.write, _dies  # type: ignore[method-assign]
    with pytest.raises(Killed):
        engine.step(run_id, DrillStep.HEAL)
    world.archive.write = write  # type: ignore[method-assign]
    result = engine.step(run_id, DrillStep.HEAL)
    assert world.cleared == 1
    assert result.passed, result.reason
    assert world.archive.documents[run_id]["verdict"] == "PASSED"


def _dies(*_: object) -> str:
    raise Killed("write")


def test_what_a_run_left_is_healed_by_the_next_run_of_its_drill() -> None:
    world = World(clear_failures=1)
    engine = world.engine(drill())
    left = engine.run("kill_driver")
    assert left.status is DrillStatus.FAILED
    for of_the_first in (world.drivers, world.planned, world.committed):
        of_the_first.clear()
    assert engine.run("kill_driver").passed
    assert world.journals.runs[left.run_id].facts["healing"]["clean"]
    assert world.cleared == 2


def test_an_abandoned_run_is_healed_by_the_run_that_follows() -> None:
    """Somebody marked the DAG run as failed between `down` and `up`: no task of it runs any more."""
    world = World(total_batches=500)
    spec = drill("service_outage")
    engine = world.engine(spec)
    left = engine.begin(spec.name, "scheduled-1")
    engine.step(left, DrillStep.STEADY_STATE)
    world.die_at = "before_up"
    with pytest.raises(Killed):
        engine.step(left, DrillStep.FAULT)
    assert world.service.down_since is not None
    assert engine.heal_abandoned(spec.name) == [], "who cannot know that it is over leaves it alone"
    assert engine.heal_abandoned(spec.name, running=left) == []
    assert [each.run_id for each in engine.heal_abandoned(spec.name, running="scheduled-2")] == [left]
    assert world.service.down_since is world.table.locked_at is None
    assert world.cleared == 1
    assert "the step fault did not finish" in world.journals.runs[left].reason
    assert engine.heal_abandoned(spec.name, running="scheduled-2") == []


def test_a_run_in_another_process_is_no_abandoned_one() -> None:
    world = World()
    engine = world.engine(drill())
    running = engine.begin("kill_driver", "by-hand-1")
    with world.archive.tenure(running):
        assert engine.heal_abandoned("kill_driver", running="scheduled-2") == []
    assert world.journals.runs[running].ended_at is None


def test_a_run_that_has_begun_needs_no_file_any_more() -> None:
    """The drill's YAML broke, or was deleted, in the middle of it."""
    world = World()
    run_id = world.engine(drill()).begin("kill_driver", "nightly-7")
    world.engine(drill()).step(run_id, DrillStep.STEADY_STATE)
    without = world.engine()
    assert without.begin("kill_driver", "nightly-7") == run_id
    for step in FORK_STEPS:
        result = without.step(run_id, step)
    assert result.passed, result.reason


@pytest.mark.parametrize("run_id", ["../../etc", "", "a/b", "a b", ".hidden"])
def test_an_id_that_is_no_safe_path_is_refused(run_id: str) -> None:
    with pytest.raises(DrillError, match="is not the id of a drill run"):
        World().engine(drill()).begin("kill_driver", run_id)


def test_run_that_was_never_begun_is_an_error_with_a_next_step() -> None:
    with pytest.raises(DrillError, match="drill list"):
        World().engine(drill()).step("no-run-1", DrillStep.HEAL)
