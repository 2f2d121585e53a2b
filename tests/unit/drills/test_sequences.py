"""Several faults in one drill: each lands and is over before the next strikes; what is drawn, kept and repeated."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.config.loading import load_drill
from streamwarden.drills.fault_order import LONGEST_PAUSE, draw
from streamwarden.drills.records.codec import decode, encode
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep
from streamwarden.drills.reporting.comparison import compare
from streamwarden.drills.reporting.outcome import decide
from streamwarden.drills.reporting.report import build_report, markdown, verdict_word
from streamwarden.drills.reporting.resilience import resilience, trials_of
from streamwarden.drills.reporting.timeline import timeline
from streamwarden.drills.spec import DrillSpec
from streamwarden.drills.state import FaultResult, RunState
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.driver import ExitKind
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import Killed, World

KILL, SINK, GONE = "kill_driver", "sink_failing", "input_gone"


def several(*kinds: str, attempts: int = 1, **changes: Any) -> DrillSpec:
    faults = tuple(fault_of(kind, attempts=attempts) for kind in kinds)
    return drill(fault=None, faults=faults, **{"name": "several", **changes})


def results_of(run: DrillRun) -> tuple[FaultResult, ...]:
    return RunState.of(run).results


def test_each_fault_lands_and_the_stream_is_back_before_the_next_one_strikes() -> None:
    world = World(total_batches=30)
    run = world.engine(several(KILL, GONE, SINK)).run("several")
    assert run.passed, run.reason
    results = results_of(run)
    assert [result.spec.kind for result in results] == [KILL, GONE, SINK]
    for before, after in itertools.pairwise(results):
        assert before.recovery
        assert after.landed
        assert before.recovery.first_commit_at
        assert before.recovery.first_commit_at <= after.landed.moment
    assert [result.refusal is not None for result in results] == [False, True, False]
    assert [result.recovery.completed for result in results if result.recovery] == [False, False, True]
    assert len(world.drivers) == 5, "the first, one after each fault, and the one that refused"


def test_a_second_fault_that_misses_fails_the_drill_and_says_nothing_about_the_stream() -> None:
    """Although the first one landed, and the stream survived it."""
    world = World(block_works=False, total_batches=80)
    run = world.engine(several(KILL, SINK)).run("several")
    assert (run.status, run.deviated) == (DrillStatus.FAILED, None)
    assert "the fault sink_failing did not land in 1 attempt" in run.reason
    landed, missed = results_of(run)
    assert landed.recovery
    assert missed.misses


def test_a_stream_that_does_not_come_back_from_the_first_fault_deviates_and_is_not_struck_again() -> None:
    world = World(lives_that_start=1, total_batches=30)
    run = world.engine(several(KILL, SINK)).run("several")
    assert verdict_word(run) == "DEVIATED"
    assert "kill_driver: the stream never came back" in run.reason
    assert [result.spec.kind for result in results_of(run)] == [KILL]


def test_a_stream_that_does_not_refuse_the_first_fault_deviates() -> None:
    world = World(total_batches=30)
    world.inputs.ignored = True
    run = world.engine(several(GONE, SINK)).run("several")
    assert verdict_word(run) == "DEVIATED"
    assert "input_gone: the stream went on in silence" in run.reason


def test_a_recovery_from_the_first_fault_that_is_too_slow_is_a_deviation_at_the_end() -> None:
    spec = several(KILL, SINK)
    world = World(startup=20.0, total_batches=30)
    slow = drill(fault=None, faults=spec.faults, name="several", recovery=type(spec.recovery)(target=15.0))
    run = world.engine(slow).run("several")
    assert verdict_word(run) == "DEVIATED"
    assert run.reason.count("the target is 15.0 s") == 2
    assert "kill_driver: recovery took" in run.reason


def test_a_journal_that_ends_before_the_last_fault_is_no_pass() -> None:
    """Whatever else it says."""
    world = World(total_batches=30)
    run = world.engine(several(KILL, SINK)).run("several")
    state = RunState.of(run)
    first = state.results[0]
    assert first.landed
    cut = replace(state, earlier=(), fault=first.landed, refusal=None)
    assert decide(cut).status is DrillStatus.FAILED
    assert "every fault landed" in decide(cut).reason


@pytest.mark.parametrize("where", ["before_kill", "after_kill", "before_start", "after_start", "after_block"])
@pytest.mark.parametrize("park", [True, False])
def test_a_step_that_is_killed_between_two_faults_goes_on_where_it_was(where: str, park: bool) -> None:
    world = World(total_batches=60)
    wanted = several(KILL, SINK)
    run_id = world.engine(wanted).begin("several")
    world.engine(wanted).step(run_id, DrillStep.STEADY_STATE, park=park)
    world.die_at = where
    with pytest.raises(Killed):
        world.engine(wanted).step(run_id, DrillStep.FAULT)
    for step in list(DrillStep)[1:]:
        run = world.engine(wanted).step(run_id, step)
    assert run.passed, run.reason
    assert [result.spec.kind for result in results_of(run)] == [KILL, SINK]


def test_replay_of_a_run_with_a_new_seed_repeats_its_plan() -> None:
    """Whatever the file says now."""
    world = World(total_batches=60)
    engine = world.engine(several(KILL, GONE, SINK, seed="new"))
    first = engine.begin("several")
    plan = RunState.of(world.journals.runs[first]).plan
    again = RunState.of(world.journals.runs[world.engine(several(KILL)).replay(first)])
    assert (again.plan, again.replays) == (plan, first)
    other = RunState.of(world.journals.runs[engine.begin("several", "another")]).plan
    assert other.seed != plan.seed


def test_the_drawn_batches_are_committed_before_the_strike() -> None:
    seed = next(seed for seed in range(99) if draw((1,), seed, int).pauses == (2,))
    world = World(total_batches=30)
    run = world.engine(drill(seed=seed)).run("kill_driver")
    plain = World(total_batches=30)
    usual = plain.engine(drill()).run("kill_driver")
    assert run.facts["fault"]["planned"] == usual.facts["fault"]["planned"] + 2


def test_a_seed_always_draws_the_same_order_and_pauses() -> None:
    plans = [draw((1, 1, 1), seed, int) for seed in range(50)]
    assert plans == [draw((1, 1, 1), seed, int) for seed in range(50)]
    assert {plan.order for plan in plans} == set(itertools.permutations(range(3)))
    assert {pause for plan in plans for pause in plan.pauses} == set(range(LONGEST_PAUSE + 1))
    unseeded = draw((1, 1, 1), None, int)
    assert (unseeded.seed, unseeded.order, unseeded.pauses) == (0, (0, 1, 2), (0, 0, 0))
    assert draw((1, 1), "new", lambda: 17) == draw((1, 1), 17, int)


def test_the_report_shows_every_fault_with_its_recovery() -> None:
    world = World(total_batches=30)
    run = world.engine(several(KILL, GONE)).run("several")
    report = build_report(run, world.journals.entries(run.run_id))
    named = [row.name for row in report.rows]
    assert (named.count("fault"), named.count("recovery measured"), named.count("refusal")) == (2, 2, 1)
    assert report.sentence.startswith(
        "After a crash in mid-batch followed by the loss of a file that a batch was about to read the stream stopped"
    )
    assert "the stream was back after" in report.sentence
    text = markdown(report)
    assert "| sequence | kill_driver, then input_gone; in the order of the file |" in text


def test_a_moment_of_the_timeline_counts_from_the_fault_before_it() -> None:
    world = World(total_batches=30)
    run = world.engine(several(KILL, SINK)).run("several")
    moments = timeline(run, RunState.of(run))
    assert [moment.since for moment in moments if moment.text.startswith("The fault: ")] == [0.0, 0.0]
    assert moments[0].since is not None
    assert moments[0].since < 0
    back = [moment.since for moment in moments if moment.text.startswith("The stream was back")]
    assert back == [result.recovery.recovery_seconds for result in results_of(run) if result.recovery]


def test_a_run_counts_for_each_fault_that_had_its_turn() -> None:
    world = World(total_batches=30)
    spec = several(KILL, SINK)
    run = world.engine(spec).run("several")
    killed, failing = resilience({"several": spec}, trials_of(run))
    assert [(row.fault, row.verdict, row.drills) for row in (killed, failing)] == [
        ("kill_driver", "PASSED", ("several",)),
        ("sink_failing", "PASSED", ("several",)),
    ]
    assert [row.recoveries for row in (killed, failing)] == [
        (result.recovery.recovery_seconds,) for result in results_of(run) if result.recovery
    ]
    assert killed.errors != failing.errors
    never = World(lives_that_start=1, total_batches=30).engine(spec).run("several")
    assert [row.verdict for row in resilience({"several": spec}, trials_of(never))] == ["DEVIATED", "NEVER"]


def test_two_runs_are_compared_fault_by_fault() -> None:
    world = World(total_batches=30)
    run = world.engine(several(KILL, SINK)).run("several")
    names = [each.name for each in compare(run, run).measured]
    assert {"faults", "seed"} <= set(names)
    assert "recovery, seconds from the fault (1. kill_driver)" in names
    assert "recovery, seconds from the fault (2. sink_failing)" in names
    other = several(KILL, GONE)
    differing = [each.name for each in compare(run, World(total_batches=30).engine(other).run("several")).settings]
    assert "faults.2.kind" in differing


def test_a_driver_that_ended_before_the_second_strike_is_a_miss() -> None:
    world = World(total_batches=30, exit_after={2: ExitKind.COMPLETED})
    run = world.engine(several(KILL, SINK)).run("several")
    assert run.status is DrillStatus.FAILED
    assert "nothing was left to break" in run.reason


def load(folder: Path, text: str) -> DrillSpec:
    path = folder / "several.yaml"
    path.write_text(f"name: several\nstream: flights\n{text}\n")
    return load_drill(path, project=folder)


def test_a_file_may_name_one_fault_or_several(tmp_path: Path) -> None:
    one = load(tmp_path, "fault: {kind: kill_driver, strikes: 1}")
    assert one.sequence == (fault_of(KILL, strikes=1),)
    two = load(tmp_path, "seed: new\nfaults: [{kind: kill_driver}, {kind: sink_failing, within: 9s}]")
    assert two.sequence == (fault_of(KILL), fault_of(SINK, within=9.0))
    assert (two.breaks, two.seed) == ("kill_driver, sink_failing", "new")
    assert decode(DrillSpec, json.loads(json.dumps(encode(two)))) == two
    assert two.longest_step > one.longest_step
    assert two.batches_needed > one.batches_needed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "either `fault` or `faults`"),
        ("faults: []", "either `fault` or `faults`"),
        ("fault: {kind: kill_driver}\nfaults: [{kind: kill_driver}]", "either `fault` or `faults`"),
        ("faults: [{kind: kill_driver}, {kind: input_gone, moment: after_state}]", "`kind: input_gone` has no moment"),
        ("faults: [{kind: kill_driver}, {kind: retention_passed}]", "faults.1.kind"),
        ("fault: {kind: kill_driver}\nseed: often", "seed"),
        ("fault: {kind: kill_driver, deduplicates: true}", "`kind: kill_driver` has no deduplicates"),
        ("fault: {kind: sink_locked, lasts: 3m}", "fault.lasts: 180.0; expected a positive duration, shorter than"),
        ("fault: {kind: controlled_restart, moment: after_state}", "`kind: controlled_restart` has no moment"),
        ("fault: {kind: checkpoint_damage, damage: lost}", "fault.target: the required key is missing; expected one"),
        ("fault: {kind: checkpoint_damage, target: commit, damage: flipped}", "fault.damage: 'flipped'; expected for"),
        ("fault: {kind: clock_step, by: 1s}", "fault.by: 1.0; expected a minute at least"),
        ("fault: {attempts: 2}", "fault.kind: the required key is missing"),
        ("fault: {kind: null}", "fault"),
        ("fault: kill_driver", "expected a mapping with a `kind`"),
        ("faults: [{kind: kill_driver, withn: 3s}]", "faults[0].withn: unknown key; expected one of kind, attempts"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        load(tmp_path, text)
