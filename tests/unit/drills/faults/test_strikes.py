"""Kills without a moment: drawn from the whole batch, one strike in each phase, and said in the report."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.drills.fault_order import draw
from streamwarden.drills.faults.driver.batch_instants import Aim, phase_of
from streamwarden.drills.records.exercised import NotExercised
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.records.phases import BatchCourse, BatchPhase, StruckBatch
from streamwarden.drills.reporting.report import build_report
from streamwarden.drills.reporting.resilience import resilience, trials_of
from streamwarden.drills.spec import DrillSpec
from streamwarden.drills.state import RunState
from streamwarden.errors import InvalidValue
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import World

BEFORE = [
    BatchCourse(planned_at=at, writing_at=at + 1, written_at=at + 1.9, committed_at=at + 2, shown=True) for at in (0, 9)
]


def aim_at(share: float, before: list[BatchCourse] = BEFORE) -> Aim:
    return Aim(share, lambda batch: before)


def killing(**options: Any) -> DrillSpec:
    return drill(fault=fault_of("kill_driver", **options))


def struck(run: DrillRun) -> list[StruckBatch]:
    return [result.landed.struck for result in RunState.of(run).results if result.landed and result.landed.struck]


@given(seed=st.integers(0, 2**31))
def test_three_strikes_fall_into_all_three_phases_whatever_the_seed(seed: int) -> None:
    plan = draw((3,), seed, int)
    assert {phase_of(share)[0] for share in plan.shares} == set(BatchPhase)
    assert plan == draw((3,), seed, int)


def test_one_strike_falls_into_each_phase_about_as_often() -> None:
    hits = Counter(phase_of(draw((1,), seed, int).shares[0])[0] for seed in range(3000))
    assert set(hits) == set(BatchPhase)
    assert min(hits.values()) > 900


def test_without_a_seed_each_run_draws_other_instants() -> None:
    numbers = count()
    assert len({draw((3,), None, lambda: next(numbers)).shares for _ in range(20)}) == 20


@given(share=st.floats(0, 1, exclude_max=True))
def test_the_instant_is_within_its_phase(share: float) -> None:
    phase, _ = phase_of(share)
    course = BatchCourse(planned_at=100.0, writing_at=101.0, written_at=101.9, shown=True)
    begin, lasts = [(100, 1), (101, 0.9), (101.9, 0.1)][list(BatchPhase).index(phase)]
    aim = aim_at(share)
    aim.due_at(3, BatchCourse(planned_at=100.0, shown=True))  # it is seen when it has just been planned
    due = aim.due_at(3, course)
    assert due is not None
    assert begin <= due <= begin + lasts + 1e-6


def test_a_phase_that_has_not_begun_is_awaited_and_one_that_is_over_is_left_to_the_next_batch() -> None:
    aim = aim_at(0.9)
    assert aim.due_at(3, BatchCourse(planned_at=100.0, shown=True)) is None
    early = aim_at(0.1)
    over = BatchCourse(planned_at=100.0, writing_at=101.0, shown=True)
    assert early.due_at(3, over) is None
    assert early.due_at(4, BatchCourse(planned_at=102.0, shown=True)) == pytest.approx(102.18)


def test_after_misses_the_strike_comes_closer_to_the_begin_of_the_phase_and_then_in_the_phase_before() -> None:
    aim, written = aim_at(0.99), BatchCourse(planned_at=100.0, writing_at=101.0, written_at=101.9, shown=True)
    dues = [aim.due_at(batch, written) or 0.0 for batch in (3, 4)]
    assert 101.9 < dues[1] < dues[0]
    assert aim.due_at(5, BatchCourse(planned_at=100.0, shown=True)) is None
    assert aim.due_at(5, replace(written, written_at=None)) is not None, "it writes: that phase is aimed at now"


def test_the_first_batch_of_a_driver_shows_no_usual_length_and_another_one_is_awaited_once() -> None:
    cold = [replace(BEFORE[0], warm=False)]
    aim, running = aim_at(0.2, cold), BatchCourse(planned_at=100.0, shown=True)
    assert aim.due_at(1, running) is None
    assert aim.due_at(2, running) is not None


def test_a_stream_that_shows_nothing_is_struck_by_the_time_alone() -> None:
    unseen = [BatchCourse(planned_at=at, committed_at=at + 2.0) for at in (0.0, 9.0)]
    aim = aim_at(0.75, unseen)
    assert aim.due_at(3, BatchCourse(planned_at=100.0)) == pytest.approx(101.5)
    assert BatchCourse(planned_at=100.0).phase is None


def test_a_batch_that_took_longer_than_those_before_is_not_said_to_be_shorter_than_the_time_into_it() -> None:
    late = StruckBatch(batch=3, into=0.233, usual=0.156, phase=BatchPhase.WRITING)
    assert late.words == "233 ms into a batch (usually 156 ms), while the sink wrote"


def test_a_drill_strikes_three_times_and_says_when_and_in_which_phase() -> None:
    world = World(sink="parquet", total_batches=20)
    run = world.engine(killing()).run("kill_driver")
    assert run.passed, run.reason
    batches = struck(run)
    assert {batch.phase for batch in batches} == set(BatchPhase)
    assert len({batch.batch for batch in batches}) == 3
    sentence = build_report(run, []).sentence
    assert sentence.startswith("A crash in mid-batch, three times, loses nothing and duplicates nothing; ")
    assert all(f"{batch.words}" in sentence for batch in batches)
    assert "into a batch of 2.0 s, while the sink wrote" in sentence
    (row,) = resilience({"kill_driver": killing()}, trials_of(run))
    assert row.phases == {str(phase): 1 for phase in BatchPhase}
    assert [trial.verdict for trial in row.trials] == ["PASSED"] * 3


@pytest.mark.parametrize("seed", range(20))
def test_a_sink_that_writes_a_batch_twice_is_struck_between_its_write_and_the_commit_in_every_run(seed: int) -> None:
    """The phase between is 5 % of the batch."""
    world = World(sink="parquet", total_batches=20, batch_seconds=Random(seed).uniform(0.4, 7.0), functions=True)
    run = world.engine(replace(killing(), seed=seed)).run("kill_driver")
    assert any(batch.phase is BatchPhase.WRITTEN and batch.wrote for batch in struck(run)), run.reason


def test_a_fork_with_few_batches_gets_fewer_strikes_and_keeps_those_after_a_write() -> None:
    world = World(sink="parquet", total_batches=8, startup=2.0)
    spec = killing(attempts=1)
    assert spec.strikes_in(8) == 2 < spec.strikes_in(9)
    run = world.engine(spec).run("kill_driver")
    assert run.passed, run.reason
    assert [batch.phase for batch in sorted(struck(run), key=lambda batch: batch.into)][-1] is BatchPhase.WRITTEN
    assert len(struck(run)) == 2
    told = [entry.message for _, entry in world.journals.lines if entry.kind == "shortened"]
    assert told == ["2 strikes in place of 3: the fork has too few batches for more"]


@pytest.mark.parametrize("strikes", [None, 3])
def test_a_fork_that_read_all_its_input_is_judged_by_the_strikes_that_hit_it_unless_the_file_asks_for_more(
    strikes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last batches can be over before a strike finds its phase in one of them, in an object store for example."""
    instants, shares = Aim.due_at, set[float]()

    def due_at(aim: Aim, batch: int, course: BatchCourse) -> float | None:
        shares.add(aim.share)
        return instants(aim, batch, course) if len(shares) == 1 else None

    monkeypatch.setattr(Aim, "due_at", due_at)
    world = World(sink="parquet", total_batches=20)
    run = world.engine(killing(strikes=strikes)).run("kill_driver")
    assert run.passed is (strikes is None), run.reason
    assert len(struck(run)) == 1
    if strikes is None:
        notes = [entry.message for _, entry in world.journals.lines if entry.kind == "ended_early"]
        assert notes == ["the fork ended by itself, all its input read: no strike follows"]
        assert build_report(run, []).sentence.startswith("A crash in mid-batch loses nothing and duplicates nothing; ")
    else:
        assert "nothing was left to break" in run.reason


def test_strikes_that_a_file_asks_for_are_made_or_the_drill_is_refused() -> None:
    run = World(sink="parquet", total_batches=6).engine(killing(strikes=5)).run("kill_driver")
    assert run.status is DrillStatus.ABORTED
    assert "at least 11" in run.reason
    many = World(sink="parquet", total_batches=30).engine(killing(strikes=5)).run("kill_driver")
    assert len(struck(many)) == 5


def test_a_moment_one_of_several_faults_and_a_live_stream_are_struck_once() -> None:
    from streamwarden.drills.faults.driver.kill_driver import KillMoment

    assert killing(moment=KillMoment.AFTER_STATE).repeats == (1,)
    faults = (fault_of("kill_driver"), fault_of("sink_failing"))
    assert drill(fault=None, faults=faults).repeats == (1, 1)


def test_a_function_that_never_ran_again_is_not_said_to_duplicate_nothing() -> None:
    by_id = NotExercised(what="the function that writes the batches")
    world = World(sink="parquet", total_batches=20, not_exercised=(by_id,))
    run = world.engine(killing()).run("kill_driver")
    assert run.passed, run.reason
    sentence = build_report(run, []).sentence
    assert "duplicates nothing" not in sentence
    assert "not exercised: whether the function that writes the batches writes a batch twice" in sentence
    assert "not exercised" in run.reason


@pytest.mark.parametrize(("called", "way"), [(False, "`foreach_batch: run`"), (True, "`moment: after_handover`")])
def test_a_function_that_appends_and_never_ran_again_is_not_proven(called: bool, way: str) -> None:
    appends = NotExercised(what="the function load() (job.py:31)", called=called, appends=True)
    run = World(sink="parquet", total_batches=20, not_exercised=(appends,)).engine(killing()).run("kill_driver")
    assert (run.status, run.deviated) == (DrillStatus.FAILED, None)
    sentence = build_report(run, []).sentence
    assert "exactly-once cannot be proven: not exercised: the function load() (job.py:31), which writes" in sentence
    assert way in sentence


def test_a_number_of_strikes_below_one_is_refused() -> None:
    with pytest.raises(InvalidValue):
        killing(strikes=0)


def test_the_recovery_from_each_strike_is_predicted() -> None:
    """The driver that is struck next began with the batch that the strike before had cut."""
    run = World(sink="parquet", total_batches=20).engine(killing()).run("kill_driver")
    predictions = [result.predicted[-1].seconds for result in RunState.of(run).results]
    assert len(predictions) == 3
    assert all(seconds is not None for seconds in predictions)
