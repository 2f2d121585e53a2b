"""Every way in which a drill can end, each named correctly. The world is simulated, the engine is the real one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.drills.faults import FAULTS, Course, ExpectedEnd
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep
from streamwarden.drills.records.sections import RecoverySpec, SteadyStateSpec
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.errors import CheckpointError, ConfigError, DrillAborted, DrillError, ProcessError, VerificationError
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.verification.comparing.columns import ColumnReport, Role
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import PERFECT, World

STRIKING = [kind for kind in FAULTS if FAULTS[kind].course is Course.STRUCK]
EVERY = pytest.mark.parametrize("kind", STRIKING)
ENDING = [kind for kind in STRIKING if FAULTS[kind].expected_end is ExpectedEnd.ENDS]
"""Faults after which the fork is started again."""

LIVES = {
    ExpectedEnd.ENDS: 2,
    ExpectedEnd.LIVES: 1,
    ExpectedEnd.MAY_END: 1,
    ExpectedEnd.REFUSES: 3,
    ExpectedEnd.REPLACED: 2,
}
"""Drivers of a fork that behaves; one of those after a refusal applies the remediation."""


def run(world: World, kind: str = "kill_driver", **changes: object) -> DrillRun:
    spec = drill(kind, **changes)
    return world.engine(spec).run(spec.name)


def assert_healed(world: World, result: DrillRun) -> None:
    assert all(driver.exit for driver in world.drivers.values()), "a driver is still running"
    assert result.facts["steps"][DrillStep.HEAL]["outcome"] == "passed"
    assert world.cleared == 1
    assert world.archive.documents[result.run_id]["verdict"] == verdict_word(result)
    assert result.reason in world.archive.summaries[result.run_id]


@EVERY
def test_a_stream_that_recovers_and_loses_nothing_passes(kind: str) -> None:
    world = World()
    result = run(world, kind)
    assert result.passed, result.reason
    assert verdict_word(result) == "PASSED"
    assert result.facts["fault"]["landed"]
    assert result.facts["recovery"]["first_commit_at"] > result.facts["fault"]["moment"]
    gave_up = kind == "sink_failing"
    assert len(world.drivers) == LIVES[FAULTS[kind].expected_end] + gave_up
    assert_healed(world, result)


def test_a_drill_that_cannot_work_is_refused_before_anything_is_made() -> None:
    world = World(refusal=DrillAborted("the job has no oracle", next_step="write one"))
    result = run(world)
    assert verdict_word(result) == "ABORTED"
    assert "the job has no oracle" in result.reason
    assert world.forks_made == 0
    assert world.drivers == {}


def test_a_fault_that_cannot_hit_the_stream_is_refused_before_anything_is_made() -> None:
    world = World(sink="parquet")
    result = run(world, "kill_after_topic_write")
    assert verdict_word(result) == "ABORTED"
    assert "which has no topic" in result.reason
    assert world.forks_made == 0


def test_a_sink_that_is_at_least_once_says_how_much_it_repeated() -> None:
    """In the verdict, the report and the journal; a sink that repeats nothing says nothing of it."""
    delivery = "at-least-once: 17 records were written again, and dropped by event id"
    world = World(reconciliation=replace(PERFECT, repeated=17))
    result = run(world)
    assert result.passed, result.reason
    assert result.reason.endswith(delivery)
    assert f"| delivery | {delivery} |" in world.archive.summaries[result.run_id]
    assert world.archive.documents[result.run_id]["facts"]["reconciliation"]["repeated"] == 17
    assert "at-least-once" not in run(World()).reason


def test_a_kill_lands_between_the_plan_of_a_batch_and_its_commit() -> None:
    result = run(World())
    proof = result.facts["fault"]
    assert proof["planned"] == proof["committed"] + 1
    assert proof["evidence"]["signal"] == 9
    assert proof["evidence"]["offsets_written"]
    assert not proof["evidence"]["commits_written"]


def test_a_controlled_restart_cuts_no_batch() -> None:
    result = run(World(), "controlled_restart")
    proof = result.facts["fault"]
    assert proof["planned"] == proof["committed"]
    assert proof["evidence"]["exit"] == "stopped"


def test_both_predictions_are_reported_with_the_measured_recovery() -> None:
    """start-up 10 s + 10 MB at 100 MB/s + 500 rows of each committed batch since version 1 + one batch of 2 s."""
    world = World()
    result = run(world)
    theorem, restart = result.facts["predicted"]
    committed = result.facts["fault"]["committed"]
    assert theorem["seconds"] == pytest.approx((committed + 1) * 2.0)
    assert restart["seconds"] == pytest.approx(10.0 + 0.1 + 500 * committed * 24e-6 + 2.0)
    assert result.facts["recovery"]["restart_seconds"] == pytest.approx(12.0, abs=0.2)
    assert all(term["source"] for prediction in result.facts["predicted"] for term in prediction["terms"])


@pytest.mark.parametrize("count", ["lost", "duplicated", "unexpected", "wrong"])
def test_one_row_out_of_order_deviates_and_is_named(count: str) -> None:
    world = World(reconciliation=replace(PERFECT, **{count: 1}))
    result = run(world)
    assert result.status is DrillStatus.COMPLETED
    assert result.deviated
    assert f"1 {count}" in result.reason
    assert result.facts["steps"][DrillStep.VERIFICATION]["outcome"] == "failed"
    assert_healed(world, result)


def test_a_problem_of_the_output_deviates_although_every_row_agrees() -> None:
    world = World(reconciliation=replace(PERFECT, problems=("the manifest has no entry for the committed batch 3",)))
    result = run(world)
    assert verdict_word(result) == "DEVIATED"
    assert "no entry for the committed batch 3" in result.reason


def test_problems_are_reported_with_the_rows_that_they_cost() -> None:
    problem = "the data file part-3.parquet cannot be read, and its rows are lost: cut"
    world = World(reconciliation=replace(PERFECT, lost=7, problems=(problem,)))
    result = run(world)
    assert verdict_word(result) == "DEVIATED"
    assert "7 lost" in result.reason
    assert problem in result.reason
    assert f"| problem | {problem} |" in world.archive.summaries[result.run_id]


def test_columns_that_no_oracle_judged_are_named_in_verdict_journal_and_report() -> None:
    said = "not judged, since the oracle does not name them: salt, uuid"
    columns = tuple(ColumnReport(name=name, role=Role.NOT_JUDGED, actual=("string",)) for name in ("salt", "uuid"))
    world = World(reconciliation=replace(PERFECT, columns=columns))
    result = run(world)
    assert result.passed, result.reason
    assert result.reason.endswith(said)
    assert f"| columns | {said} |" in world.archive.summaries[result.run_id]
    assert world.archive.documents[result.run_id]["facts"]["reconciliation"]["not_judged"] == ["salt", "uuid"]
    assert result.facts["reconciliation"]["columns"][0]["role"] == "not judged"
    assert "not judged" not in run(World()).reason


def test_an_oracle_that_expects_nothing_proves_nothing() -> None:
    result = run(World(reconciliation=replace(PERFECT, expected=0, actual=0)))
    assert verdict_word(result) == "DEVIATED"
    assert "expects no row" in result.reason


def test_too_few_records_are_no_evidence() -> None:
    result = run(World(reconciliation=replace(PERFECT, records=99_999)))
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert "99,999 input records were verified, expected >= 100,000" in result.reason


@pytest.mark.parametrize("judge_says", [True, False])
def test_a_judge_that_disagrees_with_the_reconciliation_is_not_overruled(judge_says: bool) -> None:
    counts = replace(PERFECT, lost=1) if judge_says else PERFECT
    result = run(World(reconciliation=counts, judge_says=judge_says))
    assert result.status is DrillStatus.FAILED
    assert "disagree" in result.reason


def test_an_oracle_that_breaks_fails_the_drill_and_says_nothing_of_the_stream() -> None:
    world = World(verifier_error=VerificationError("the input cannot be read"))
    result = run(world)
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert "the input cannot be read" in result.reason
    assert_healed(world, result)


def test_a_recovery_slower_than_its_target_deviates_though_the_output_is_right() -> None:
    result = run(World(), recovery=RecoverySpec(target=5.0, deadline=300.0))
    assert verdict_word(result) == "DEVIATED"
    assert "the target is 5.0 s" in result.reason
    assert result.facts["reconciliation"]["exactly_once"]


@pytest.mark.parametrize("kind", ENDING)
def test_a_stream_that_refuses_to_start_again_never_came_back(kind: str) -> None:
    world = World(lives_that_start=1)
    result = run(world, kind)
    assert result.status is DrillStatus.COMPLETED
    assert result.deviated
    assert "never came back" in result.reason
    assert "start is refused" in result.reason
    assert result.facts["steps"][DrillStep.VERIFICATION]["outcome"] == "failed"
    assert "reconciliation" not in result.facts
    assert_healed(world, result)


def test_a_stream_that_hangs_after_its_restart_never_came_back() -> None:
    world = World(lives_that_commit=1)
    result = run(world, recovery=RecoverySpec(target=30.0, deadline=60.0))
    assert "never came back" in result.reason
    assert "still alive" in result.reason
    assert_healed(world, result)
    assert world.signals[-1] == "kill d2"


def test_a_stream_that_comes_back_and_dies_again_did_not_finish() -> None:
    world = World(exit_after={2: ExitKind.FAILED})
    result = run(world)
    assert verdict_word(result) == "DEVIATED"
    assert "did not finish its bounded input" in result.reason
    assert "the steady state does not hold after the recovery" in result.reason


def test_a_check_that_turns_critical_after_the_recovery_deviates() -> None:
    world = World(health_after={"memory_usage": Status.CRITICAL})
    result = run(world)
    assert verdict_word(result) == "DEVIATED"
    assert "steady state does not hold after the recovery: memory_usage is CRITICAL" in result.reason


def test_nothing_is_broken_when_a_check_is_critical_before_the_fault() -> None:
    world = World(health={"state_size": Status.CRITICAL})
    result = run(world)
    assert result.status is DrillStatus.ABORTED
    assert result.deviated is None
    assert "state_size is CRITICAL" in result.reason
    assert not [each for each in world.signals if each.startswith("stop")]
    assert "strike" not in result.facts
    assert_healed(world, result)


def test_blind_health_is_no_steady_state() -> None:
    every = dict.fromkeys(SteadyStateSpec().checks, Status.UNKNOWN)
    result = run(World(health=every, total_batches=60))
    assert result.status is DrillStatus.ABORTED
    assert "blind" in result.reason


def test_a_misspelt_check_in_the_hypothesis_is_found() -> None:
    result = run(World(total_batches=60), steady_state=SteadyStateSpec(checks=("state_sise",)))
    assert result.status is DrillStatus.ABORTED
    assert "state_sise" in result.reason


def test_a_stream_that_does_not_commit_in_time_is_not_steady() -> None:
    result = run(World(lives_that_commit=0))
    assert result.status is DrillStatus.ABORTED
    assert "batch 1 was not committed within its time" in result.reason


def test_a_stream_that_fails_before_the_fault_aborts_with_its_error() -> None:
    result = run(World(lives_that_start=0))
    assert result.status is DrillStatus.ABORTED
    assert "the second start is refused" in result.reason


def test_too_few_batches_abort_before_anything_starts() -> None:
    world = World(total_batches=8)
    result = run(world)
    assert result.status is DrillStatus.ABORTED
    assert "8 batches left" in result.reason
    assert "at least 9" in result.reason
    assert not world.drivers
    assert_healed(world, result)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DrillAborted("the stream has no checkpoint"), DrillStatus.ABORTED),
        (CheckpointError("offsets/3 is truncated"), DrillStatus.FAILED),
    ],
)
def test_a_fork_that_cannot_be_made(error: Exception, status: DrillStatus) -> None:
    world = World(fork_error=error)  # type: ignore[arg-type]
    result = run(world)
    assert result.status is status
    assert str(error) in result.reason
    assert world.cleared == 1


def test_a_driver_that_cannot_be_launched_fails_the_drill() -> None:
    world = World(start_error=ProcessError("spark-submit is not installed"))
    result = run(world)
    assert result.status is DrillStatus.FAILED
    assert "spark-submit is not installed" in result.reason


def test_a_kill_that_comes_after_the_commit_did_not_land() -> None:
    """The signal is late each time: the batch that was aimed at is committed when the driver dies."""
    world = World(kill_delay=2.0, batch_seconds=2.0, total_batches=20)
    world_kill = world.kill

    def late_kill(driver_id: str) -> bool:
        done = world_kill(driver_id)
        world.committed.update({batch: world.time for batch in world.planned if batch not in world.committed})
        return done

    world.kill = late_kill  # type: ignore[method-assign]
    result = run(world, fault=fault_of("kill_driver", attempts=2))
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert "the fault did not land in 2 attempts" in result.reason
    assert "was committed before it died" in result.reason
    assert "recovery" not in result.facts
    assert_healed(world, result)


def test_a_miss_is_retried_after_a_new_start() -> None:
    world = World(total_batches=30)
    world_kill, kills = world.kill, []

    def first_is_late(driver_id: str) -> bool:
        kills.append(driver_id)
        done = world_kill(driver_id)
        if len(kills) == 1:
            world.committed.update({batch: world.time for batch in world.planned if batch not in world.committed})
        return done

    world.kill = first_is_late  # type: ignore[method-assign]
    result = run(world)
    assert result.passed, result.reason
    assert result.facts["fault"]["attempts"] == 2
    assert kills == ["d1", "d2"]
    assert len(world.drivers) == 3


def test_a_kill_without_effect_did_not_land() -> None:
    world = World(kill_works=False, total_batches=400)
    spec = fault_of("kill_driver", attempts=1, within=20.0)
    result = run(world, fault=spec)
    assert result.status is DrillStatus.FAILED
    assert "still alive" in result.reason
    assert "healing is incomplete" not in result.reason  # the first word is why the drill failed
    assert not result.facts["healing"]["clean"]
    assert "driver d1 is still alive 30 s after SIGKILL" in result.facts["healing"]["message"]
    assert world.cleared == 0, "what it may still write to stays"


def test_a_stop_that_cuts_a_batch_is_no_controlled_restart() -> None:
    world = World(stop_cuts=True, total_batches=40)
    result = run(world, "controlled_restart", fault=fault_of("controlled_restart", attempts=2))
    assert result.status is DrillStatus.FAILED
    assert "the stop cut batch" in result.reason


def test_a_stop_that_is_obeyed_at_the_end_of_the_input_leaves_nothing_to_restart() -> None:
    """Otherwise the restart, with no batch to commit, would look like a stream that never came back."""
    result = run(World(stop_is_late=True), "controlled_restart")
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert "only at the end of the input" in result.reason


def test_input_that_runs_out_before_the_fault_leaves_nothing_to_break() -> None:
    world = World(exit_after={1: ExitKind.COMPLETED})
    result = run(world, steady_state=SteadyStateSpec(min_batches=1))
    assert result.status is DrillStatus.FAILED
    assert "nothing was left to break" in result.reason
    assert world.signals == []


def test_an_unknown_drill_names_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match="one of: kill_driver"):
        World().engine(drill()).begin("kill_drivr")


def test_a_defect_of_the_drill_itself_is_a_failed_drill_that_is_still_healed() -> None:
    world = World()

    def broken(fork: object, **_: object) -> None:
        raise ZeroDivisionError("a defect")

    world.reconcile = broken  # type: ignore[assignment,method-assign]
    result = run(world)
    assert result.status is DrillStatus.FAILED
    assert "ZeroDivisionError" in result.reason
    assert any("Traceback" in entry.message for entry in world.journals.entries(result.run_id))
    assert_healed(world, result)


def test_next_run_heals_the_damage_left_by_a_killed_process() -> None:
    """kill -9 of the one process of a run: no process heals it, and the fork's driver goes on."""
    world = World(total_batches=500)
    engine = world.engine(drill())
    abandoned = engine.begin("kill_driver", "abandoned-1")
    engine.step(abandoned, DrillStep.STEADY_STATE, park=False)
    run_of = world.journals.runs[abandoned]
    world.journals.save(replace(run_of, facts={**run_of.facts, "one_process": True}))
    assert world.drivers["d1"].exit is None
    world.total_batches = 12
    engine.run("kill_driver")
    left = world.journals.runs[abandoned]
    assert left.status is DrillStatus.FAILED
    assert "the step fault did not finish" in left.reason
    assert world.drivers["d1"].exit is not None


def test_a_run_that_another_process_is_at_work_on_is_left_alone() -> None:
    world = World()
    engine = world.engine(drill())
    running = engine.begin("kill_driver", "running-1")
    world.journals.save(replace(world.journals.runs[running], facts={"one_process": True}))
    world.archive.held.add(running)
    engine.run("kill_driver")
    assert world.journals.runs[running].ended_at is None
    with pytest.raises(DrillError, match="another process"):
        engine.run("kill_driver", running)


def test_ctrl_c_heals_and_reports_before_it_ends_the_program() -> None:
    world = World()

    def interrupted(fork: object, **_: object) -> None:
        raise KeyboardInterrupt

    world.reconcile = interrupted  # type: ignore[assignment,method-assign]
    engine = world.engine(drill())
    run_id = engine.begin("kill_driver")
    with pytest.raises(KeyboardInterrupt):
        engine.run("kill_driver", run_id)
    assert_healed(world, world.journals.runs[run_id])


def test_a_replay_has_the_drill_of_the_run_and_not_of_the_file() -> None:
    world = World()
    first = world.engine(drill(recovery=RecoverySpec(target=77.0))).run("kill_driver")
    engine = World.engine(world, drill(recovery=RecoverySpec(target=5.0)))
    world.planned.clear()
    world.committed.clear()
    world.drivers.clear()
    again = engine.run("kill_driver", engine.replay(first.run_id))
    assert again.run_id != first.run_id
    assert again.passed, again.reason
    assert again.facts["drill"] == first.facts["drill"]
    assert again.facts["replays"] == first.run_id
    assert f"| replay of | `{first.run_id}` |" in world.archive.summaries[again.run_id]
    assert "replay of" not in world.archive.summaries[first.run_id]


def test_a_replay_of_no_run_opens_none() -> None:
    world = World()
    with pytest.raises(DrillError, match="there is no drill run 'nope'"):
        world.engine(drill()).replay("nope")
    assert world.journals.runs == {}
