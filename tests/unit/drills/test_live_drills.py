"""A drill on a live stream: asked first, brought back by supervision, judged by an audit, and nothing removed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.drills.faults import FAULTS, ExpectedEnd
from streamwarden.drills.faults.driver.kill_driver import KillMoment
from streamwarden.drills.live.approval import Answer, body, subject
from streamwarden.drills.production import AllowedHours, ProductionSpec, Weekday
from streamwarden.drills.records.journal import DrillStatus, DrillStep
from streamwarden.drills.records.sections import RecoverySpec, VerificationSpec
from streamwarden.drills.reporting.comparison import compare
from streamwarden.drills.reporting.report import build_report
from streamwarden.drills.state import RunState, StepOutcome
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.supervision.restarter import Restarter
from streamwarden.verification.comparing.balance import Audit, Entry
from support.simulated.drill_live import HOURS, RUN, approved, finished, live_drill, live_world
from support.simulated.drill_specs import fault_of
from support.simulated.drill_world import World
from support.simulated.streams import balanced

LOST = Audit(
    stream="flights",
    range=balanced(12).range,
    amounts=("flights",),
    counts="flights",
    entries=10,
    unbalanced=1,
    worst=[Entry(key={"airport": "LAX"}, sides={"input": {"flights": 3}, "output": {"flights": 2}})],
    totals={"input": {"flights": 120_000}, "output": {"flights": 119_999}},
)
"""The books after a row was removed from the output."""

UNKNOWN = Audit(stream="flights", range=balanced(12).range, impossible="the query is no aggregation")


def test_a_killed_live_driver_is_started_by_its_supervision_and_the_books_balance() -> None:
    world, spec = live_world(), live_drill()
    run = finished(approved(world, spec), spec)
    state = RunState.of(run)
    assert run.passed, run.reason
    assert state.fork is None
    assert state.recovery is not None
    assert world.streams.launches == ["d2"], "supervision launched the one new driver"
    assert state.recovery.driver_id == "d2"
    assert state.recovery.completed
    assert world.drivers["d2"].exit is None, "the stream runs after the drill"
    assert state.landed.committed is not None
    assert world.streams.audited[-1] <= state.landed.committed
    assert "approved by ada" in run.reason


def test_the_report_names_who_approved_and_when() -> None:
    world, spec = live_world(), live_drill()
    run = finished(approved(world, spec), spec)
    assert ("records audited", 120_000) in [(each.name, each.first) for each in compare(run, run).measured]
    report = build_report(run, world.journals.entries(RUN))
    rows = {row.name: row.value for row in report.rows}
    assert rows["approval"].startswith("approved by ada on 1970-01-12 13:")
    assert "fork" not in rows
    assert "balance over" in rows["audit before"]
    assert "balance over" in rows["audit after"]
    assert any("ada approved it" in moment.text for moment in report.timeline)
    assert report.sentence.startswith("A crash in mid-batch loses nothing and duplicates nothing on the live stream")


@pytest.mark.parametrize("moment", KillMoment)
def test_a_moment_of_the_batch_is_hit_on_the_live_driver(moment: KillMoment) -> None:
    spec = live_drill(fault=fault_of("kill_driver", moment=moment))
    world = live_world(functions=moment is KillMoment.AFTER_HANDOVER)
    assert finished(approved(world, spec), spec).passed


@pytest.mark.parametrize(
    ("kind", "sink"),
    [
        ("controlled_restart", "parquet"),
        ("kill_executor", "parquet"),
        ("kill_after_database_commit", "postgresql"),
        ("sink_slow", "parquet"),
    ],
)
def test_the_other_faults_of_a_live_stream(kind: str, sink: str) -> None:
    world, spec = live_world(sink=sink), live_drill(kind)
    run = finished(approved(world, spec), spec)
    assert run.passed, run.reason
    assert len(world.streams.launches) == (1 if FAULTS[kind].expected_end is ExpectedEnd.ENDS else 0)


def test_a_row_that_is_missing_after_the_drill_is_a_deviation() -> None:
    """Negative control: the same drill passes if the books balance."""
    world, spec = live_world(), live_drill()
    world.streams.audits = [balanced(12), LOST]
    run = finished(approved(world, spec), spec)
    assert run.status is DrillStatus.COMPLETED
    assert run.deviated
    assert "1 of 10 groups do not balance" in run.reason
    report = build_report(run, world.journals.entries(RUN))
    assert "damages the output of the live stream" in report.sentence


def test_a_judge_that_accepts_books_that_do_not_balance_is_not_trusted() -> None:
    world, spec = live_world(judge_says=True), live_drill()
    world.streams.audits = [balanced(12), LOST]
    run = finished(approved(world, spec), spec)
    assert run.status is DrillStatus.FAILED
    assert "the judge and the audit disagree" in run.reason


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (UNKNOWN, "cannot be proven: the audit of flights cannot balance its books: the query is no aggregation"),
        (balanced(2), "cannot be proven: the audit covers the batches 0 to 2"),
        (balanced(900, after=500), "cannot be proven: the audit covers the batches 501 to 900"),
        (balanced(900, rows=99), "too little evidence: 99 input records"),
    ],
)
def test_what_the_audit_cannot_prove_is_never_passed(after: Audit, reason: str) -> None:
    world, spec = live_world(), live_drill()
    world.streams.audits = [balanced(12), after]
    run = finished(approved(world, spec), spec)
    assert run.status is DrillStatus.FAILED
    assert run.deviated is None
    assert run.reason.startswith(reason)


@pytest.mark.parametrize("before", [LOST, UNKNOWN])
def test_a_stream_whose_books_do_not_balance_already_is_not_hit(before: Audit) -> None:
    world, spec = live_world(), live_drill()
    world.streams.audits = [before]
    run = finished(approved(world, spec), spec)
    assert run.status is DrillStatus.ABORTED
    assert run.reason.startswith("before the fault, ")
    assert world.signals == []


def test_a_stream_that_its_supervision_leaves_down_is_a_deviation_and_unhealed() -> None:
    world, spec = live_world(), live_drill(recovery=RecoverySpec(target=30, deadline=60))
    engine = approved(world, spec)
    engine.step(RUN, DrillStep.STEADY_STATE)
    engine.step(RUN, DrillStep.FAULT)
    world.streams.restarts_after, world.streams.down = None, "the budget is used up"
    run = finished(engine, spec)
    assert not run.passed
    assert "the stream never came back" in run.reason
    assert "start it with `streamwarden start flights`" in run.reason
    world.streams.restarts_after, world.streams.down = 1.0, None
    run = engine.step(RUN, DrillStep.HEAL)
    assert RunState.of(run).outcome(DrillStep.HEAL) is StepOutcome.PASSED, "healing again finds it running"


def test_an_airflow_that_does_not_answer_for_a_moment_is_no_end_of_the_stream() -> None:
    """Negative control: if nothing starts the stream again, it never came back, and it is not healed."""
    for restarts_after, passes in ((5.0, True), (None, False)):
        world, spec = live_world(), live_drill(recovery=RecoverySpec(target=30, deadline=60))
        engine = approved(world, spec)
        for step in (DrillStep.STEADY_STATE, DrillStep.FAULT):
            engine.step(RUN, step)
        world.streams.restarter, world.streams.restarts_after = Restarter.UNKNOWN, restarts_after
        run = finished(engine, spec)
        assert run.passed is passes, run.reason
        assert ("nothing is known to start it again" in run.reason) is not passes


def test_a_driver_that_has_to_survive_and_was_replaced_is_a_deviation() -> None:
    world, spec = live_world(driver_survives_executor=False), live_drill("kill_executor")
    run = finished(approved(world, spec), spec)
    assert not run.passed
    assert "another driver replaced the struck one" in run.reason


def test_nothing_of_the_live_stream_is_removed_whatever_happens() -> None:
    """The port that removes is not used, and neither is the one that makes forks. Negative control: a drill on a fork
    uses both."""
    for audits in ([], [balanced(12), LOST], [LOST]):
        world, spec = live_world(), live_drill()
        world.streams.audits = list(audits)
        finished(approved(world, spec), spec)
        assert (world.cleared, world.forks_made) == (0, 0)
        assert world.drivers["d1"].exit is None or world.drivers["d1"].exit.kind is ExitKind.KILLED
        assert list(world.drivers.values())[-1].exit is None
    from support.simulated.drill_specs import drill

    forked = World()
    assert forked.engine(drill()).run("kill_driver").passed
    assert (forked.cleared, forked.forks_made) == (1, 1)


# asked first


def asked(world: World, **changes: object) -> tuple[RunState, object]:
    spec = live_drill(**changes)
    engine = world.engine(spec)
    engine.begin(spec.name, RUN)
    engine.step(RUN, DrillStep.PREFLIGHT)
    state = engine.ask(RUN)
    assert state is not None
    return state, engine


def test_approval_question_names_the_effect_and_the_deadline() -> None:
    hours = AllowedHours(start="00:00", end="24:00", days=tuple(Weekday), timezone="Europe/Berlin")
    state, _ = asked(live_world(), production=ProductionSpec(allowed_hours=hours, approval_within=3600.0))
    assert subject(state.drill) == "Hit the live stream flights with kill_driver?"
    text = body(state)
    assert "hits the live stream **flights** itself" in text
    assert "SIGKILL" in text
    assert "none: kill_driver was never drilled on a fork of flights" in text
    assert state.approval is not None
    assert state.approval.until == state.approval.asked_at + 3600.0
    assert f"An answer counts until**: {hours.clock(state.approval.until)}" in text
    assert "Mon 1970-01-12 15:" in hours.clock(state.approval.until), "13:46 UTC, an hour later, in Berlin"


def test_the_question_has_the_last_verdict_of_the_same_fault_on_a_fork() -> None:
    from support.simulated.drill_specs import drill

    world = World(total_batches=40)
    engine = world.engine(drill())
    run = engine.run("kill_driver")
    assert run.passed
    fresh = live_world()
    fresh.journals.runs.update(world.journals.runs)
    state, _ = asked(fresh)
    assert f"PASSED in the run {run.run_id}" in body(state)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(approved=False, by="ada", at=0.0), "ada rejected the drill"),
        (Answer(approved=True, by="ada", at=2e9), "ada answered too late"),
        (None, "nobody approved the drill in time"),
    ],
)
def test_anything_but_an_approval_in_time_aborts_and_touches_nothing(answer: Answer | None, reason: str) -> None:
    world, spec = live_world(), live_drill()
    engine = world.engine(spec)
    engine.begin(spec.name, RUN)
    engine.step(RUN, DrillStep.PREFLIGHT)
    engine.ask(RUN)
    engine.answer(RUN, answer)
    run = finished(engine, spec)
    assert run.status is DrillStatus.ABORTED
    assert run.reason == reason
    assert RunState.of(run).declined
    assert world.signals == []
    assert RunState.of(run).live is None


def test_the_first_answer_counts() -> None:
    world, spec = live_world(), live_drill()
    engine = approved(world, spec)
    engine.answer(RUN, Answer(approved=False, by="bob", at=world.time))
    assert engine.ask(RUN) is None
    assert finished(engine, spec).passed


def test_a_question_that_is_repeated_keeps_its_deadline() -> None:
    world, spec = live_world(), live_drill(production=ProductionSpec(allowed_hours=HOURS, approval_within=60.0))
    engine = world.engine(spec)
    engine.begin(spec.name, RUN)
    engine.step(RUN, DrillStep.PREFLIGHT)
    first = engine.ask(RUN)
    world.sleep(30)
    again = engine.ask(RUN)
    assert first is not None
    assert again is not None
    assert first.approval == again.approval


def test_approval_without_a_request_aborts_the_run() -> None:
    """As if somebody had marked the task of the approval as successful, or called the engine out of turn."""
    world, spec = live_world(), live_drill()
    engine = world.engine(spec)
    engine.begin(spec.name, RUN)
    engine.step(RUN, DrillStep.PREFLIGHT)
    engine.answer(RUN, Answer(approved=True, by="mallory", at=world.time))
    run = finished(engine, spec)
    assert run.status is DrillStatus.ABORTED
    assert world.signals == []


def test_without_an_answer_no_step_touches_the_stream() -> None:
    world, spec = live_world(), live_drill()
    engine = world.engine(spec)
    engine.begin(spec.name, RUN)
    engine.step(RUN, DrillStep.PREFLIGHT)
    for step in spec.steps[2:]:
        run = engine.step(RUN, step)
    assert not run.passed
    assert world.signals == []


def test_shell_that_runs_all_steps_is_referred_to_airflow_for_approval() -> None:
    world, spec = live_world(), live_drill()
    run = world.engine(spec).run(spec.name)
    assert run.status is DrillStatus.ABORTED
    assert "next: trigger the DAG drill_kill_driver in Airflow and approve it there" in run.reason
    assert world.signals == []


def test_a_journal_without_the_approval_is_never_passed() -> None:
    """Negative control of the last rule: the same journal passes with it."""
    from streamwarden.drills.reporting.outcome import decide

    world, spec = live_world(), live_drill()
    state = RunState.of(finished(approved(world, spec), spec))
    assert decide(state).status is DrillStatus.COMPLETED
    without = decide(replace(state, approval=None))
    assert without.status is DrillStatus.FAILED
    assert "does not show that a person approved" in without.reason


def test_a_step_of_another_target_changes_nothing() -> None:
    """The file of a drill may have another target since its run began: the DAG then has other tasks."""
    from support.simulated.drill_specs import drill

    world = World()
    engine = world.engine(drill())
    engine.begin("kill_driver", "fork-1")
    before = world.journals.runs["fork-1"]
    assert engine.step("fork-1", DrillStep.PREFLIGHT) == before
    assert engine.ask("fork-1") is None
    assert engine.answer("fork-1", None).halt is None
    assert world.journals.entries("fork-1") == []


def test_the_least_records_are_those_of_the_file() -> None:
    world, spec = live_world(), live_drill(verification=VerificationSpec(min_records=50))
    world.streams.audits = [balanced(12), balanced(900, rows=50)]
    assert finished(approved(world, spec), spec).passed
