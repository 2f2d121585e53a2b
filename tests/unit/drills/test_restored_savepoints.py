"""The drill that restores the newest savepoint: what passes, what deviates, and what says nothing about the stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from streamwarden.drills.records.journal import DrillRun, DrillStep
from streamwarden.drills.records.sections import ForkSpec, SteadyStateSpec, VerificationSpec
from streamwarden.drills.reporting.report import build_report, verdict_word
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import DrillAborted, InvalidValue, VerificationError
from streamwarden.stream.spec import OutputMode
from support.simulated.drill_savepoints import NEWEST
from support.simulated.drill_specs import declared, drill, fault_of
from support.simulated.drill_world import PERFECT, Killed, World

RESTORE = drill("restore_savepoint", steady_state=SteadyStateSpec(min_batches=3))


def run(world: World, spec: DrillSpec = RESTORE) -> DrillRun:
    return world.engine(spec).run(spec.name)


def test_a_savepoint_from_which_the_streams_own_rows_follow_passes_and_says_what_was_compared() -> None:
    world = World()
    done = run(world)
    assert verdict_word(done) == "PASSED", done.reason
    assert world.savepoints.executed == list(range(8, 20))
    assert world.savepoints.released
    assert world.cleared == 1
    assert not world.drivers, "no driver of the fork was started"
    report = build_report(done, world.journals.entries(done.run_id))
    assert report.sentence.startswith("The restore of its newest savepoint loses nothing and duplicates nothing")
    assert "compared: only the rows of the batches 8 to 19" in report.sentence
    assert any(
        row.name == "not proven" and "keys that the compared batches neither" in row.value for row in report.rows
    )
    assert not any("begin with a restart" in row.value for row in report.rows)


def only(**knobs: object) -> Callable[[World], None]:
    def turn(world: World) -> None:
        for name, value in knobs.items():
            setattr(world.savepoints, name, value)

    return turn


def lost(world: World) -> None:
    world.reconciliation = replace(PERFECT, actual=897, lost=3)


@pytest.mark.parametrize(
    ("turn", "verdict", "reason"),
    [
        (only(there=None), "ABORTED", "run `streamwarden savepoint create flights`"),
        (only(broken=("checkpoint/state/0/1/8.zip is no such file",)), "DEVIATED", "8.zip is no such file"),
        (only(there=replace(NEWEST, batch=None, problem="its manifest is cut off")), "DEVIATED", "manifest is cut off"),
        (only(kept=2), "ABORTED", "keeps 2 batches from 8 on"),
        (only(failure="batch 8 could not be executed: X", executes=0), "DEVIATED", "never came back: batch 8"),
        (only(failure="batch 10 could not be executed: X", executes=2), "DEVIATED", "batch 10 could not be executed"),
        (only(broken_after=("checkpoint/commits/7 is 9 bytes",)), "DEVIATED", "the fork changed the savepoint"),
        (lost, "DEVIATED", "3 lost of 900 expected rows"),
        (only(error=VerificationError("the batches wrote no row")), "FAILED", "the batches wrote no row"),
    ],
)
def test_a_savepoint_that_is_not_proven_does_not_pass(turn: Callable[[World], None], verdict: str, reason: str) -> None:
    world = World()
    turn(world)
    done = run(world)
    assert (verdict_word(done), reason in done.reason) == (verdict, True), done.reason
    assert world.cleared == 1, "it is healed whatever happened"


def test_too_few_records_and_too_slow_a_restore_do_not_pass() -> None:
    few = run(World(), replace(RESTORE, verification=VerificationSpec(min_records=200_000)))
    assert (verdict_word(few), "too little evidence" in few.reason) == ("FAILED", True)
    slow = run(World(), replace(RESTORE, recovery=replace(RESTORE.recovery, target=1.0)))
    assert (verdict_word(slow), "recovery took 2.0 s" in slow.reason) == ("DEVIATED", True)


def test_at_most_the_wanted_batches_are_executed() -> None:
    world = World()
    run(world, replace(RESTORE, fault=fault_of("restore_savepoint", batches=5)))
    assert world.savepoints.executed == [8, 9, 10, 11, 12]


def test_a_step_that_was_killed_is_done_again() -> None:
    world = World()
    engine = world.engine(RESTORE)
    run_id = engine.begin(RESTORE.name)
    for step in (DrillStep.STEADY_STATE, DrillStep.FAULT):
        engine.step(run_id, step)
    world.die_at = "execute"
    with pytest.raises(Killed):
        engine.step(run_id, DrillStep.RECOVERY)
    for step in RESTORE.steps[2:]:
        done = engine.step(run_id, step)
    assert verdict_word(done) == "PASSED"
    assert world.forks_made == 1


@pytest.mark.parametrize(("source", "sink"), [("script", "script"), ("kafka", "script")])
def test_a_script_is_refused(source: str, sink: str) -> None:
    with pytest.raises(DrillAborted, match="script"):
        fault_of("restore_savepoint").require("flights", declared(source=source, sink=sink))


def test_an_output_whose_rows_later_batches_replace_is_refused() -> None:
    stream = declared()
    updating = replace(stream, sink=replace(stream.sink, mode=OutputMode.UPDATE))
    with pytest.raises(DrillAborted, match="later batch replaces rows"):
        fault_of("restore_savepoint").require("flights", updating)


def test_the_fork_of_a_savepoint_begins_where_the_savepoint_does() -> None:
    with pytest.raises(InvalidValue, match="the fork is the newest savepoint"):
        replace(RESTORE, fork=ForkSpec(rewind=5))


def test_a_savepoint_is_restored_alone() -> None:
    with pytest.raises(InvalidValue, match="restored alone"):
        drill(fault=None, faults=(fault_of("restore_savepoint"), fault_of("controlled_restart")))
