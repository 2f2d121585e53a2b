"""The verdict of a drill that a twin judges, alone or beside the job's own oracle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.drills.records.journal import FORK_STEPS, DrillRun, DrillStatus
from streamwarden.drills.records.outside import Outside
from streamwarden.drills.records.sections import OracleKind, VerificationSpec
from streamwarden.drills.records.twin import TwinReport
from streamwarden.drills.reporting.outcome import counted_differently, decide
from streamwarden.drills.reporting.report import build_report, markdown, verdict_word
from streamwarden.drills.state import RunState
from streamwarden.errors import InvalidValue, VerificationError
from streamwarden.verification.reconciliation import Reconciliation
from support.simulated.drill_specs import drill
from support.simulated.drill_world import PERFECT, Killed, World

LOSS = replace(PERFECT, actual=898, lost=2)
REFUSED = VerificationError("the oracle is refused")
AGREES = TwinReport(
    first=0,
    last=11,
    seconds=21.3,
    twins=1,
    key=("origin",),
    key_from="the sink's key",
    left_out=(),
    alone=False,
    outcome=PERFECT,
)


def run(world: World) -> DrillRun:
    return world.engine(drill()).run("kill_driver")


def judged(own: Reconciliation, twin: Reconciliation) -> tuple[World, DrillRun]:
    world = World(reconciliation=own, twin=replace(AGREES, outcome=twin))
    return world, run(world)


def test_both_oracles_agree_that_nothing_is_lost() -> None:
    world, result = judged(PERFECT, PERFECT)
    assert result.passed
    assert "the twin agrees: it executed 12 batches (0 to 11) again in 21.3 s" in result.reason
    report = markdown(build_report(result, world.journals.entries(result.run_id)))
    assert (
        "| twin | executed 12 batches (0 to 11) again in 21.3 s; rows are identified by origin (the sink's key) |"
        in report
    )
    assert "| output, by the twin | 0 lost, 0 duplicated, 0 unexpected, 0 wrong: 900 rows, 900 expected |" in report
    assert result.facts["twin"]["outcome"]["expected"] == 900


def test_both_oracles_agree_on_a_loss() -> None:
    _, result = judged(LOSS, LOSS)
    assert verdict_word(result) == "DEVIATED"
    assert result.reason.startswith("the output is not exactly-once: 2 lost of 900 expected rows")


def test_a_loss_that_only_the_twin_finds_is_a_deviation() -> None:
    world, result = judged(PERFECT, LOSS)
    assert verdict_word(result) == "DEVIATED"
    assert "the two oracles disagree: the job's own oracle says that the output is exactly-once" in result.reason
    assert "the twin says that the output is not exactly-once: 2 lost of 900" in result.reason
    report = build_report(result, world.journals.entries(result.run_id))
    assert "loses nothing" not in report.sentence
    assert "the two oracles disagree" in report.sentence


def test_a_loss_that_only_the_jobs_own_oracle_finds_is_a_deviation_that_the_fault_did_not_cause() -> None:
    world, result = judged(LOSS, PERFECT)
    assert verdict_word(result) == "DEVIATED"
    report = build_report(result, world.journals.entries(result.run_id))
    assert report.sentence.startswith(
        "A crash in mid-batch was survived, but the job itself loses rows: 2 of 900; the stream was back after"
    )
    assert (
        "the two oracles disagree: the job's own oracle says that the output is not exactly-once: 2 lost"
        in result.reason
    )
    assert "the twin wrote the same rows as the fork, so that the fault is not the cause" in result.reason


def test_rows_that_the_job_itself_makes_wrong_are_not_called_lost() -> None:
    world, result = judged(replace(LOSS, wrong=3), PERFECT)
    report = build_report(result, world.journals.entries(result.run_id))
    says = "but the job itself does not write what its oracle expects: 2 lost, 3 wrong of 900 expected rows"
    assert says in report.sentence


def test_a_crash_is_not_called_survived_if_the_recovery_was_not_good_either() -> None:
    world, result = judged(LOSS, PERFECT)
    facts = {**result.facts, "recovery": {**result.facts["recovery"], "recovery_seconds": 500.0}}
    report = build_report(replace(result, facts=facts), world.journals.entries(result.run_id))
    assert "survived" not in report.sentence
    assert "is not handled as it should be: recovery took 500.0 s" in report.sentence
    assert "; and the job itself loses rows: 2 of 900" in report.sentence


def test_the_rows_come_directly_after_the_verdict() -> None:
    lost = replace(LOSS, samples={"lost": ("(a): (1); due from flights.json line 3: {}",)})
    world, result = judged(lost, PERFECT)
    text = markdown(build_report(result, world.journals.entries(result.run_id)))
    assert text.index("due from flights.json line 3") < text.index("## Timeline")


def test_columns_that_no_unbroken_run_repeats_are_named() -> None:
    world = World(twin=replace(AGREES, twins=2, left_out=("uuid", "written_at")))
    result = run(world)
    named = "not compared with the twin, since two unbroken runs differ in them: uuid, written_at"
    assert result.passed
    assert named in result.reason
    assert named in markdown(build_report(result, world.journals.entries(result.run_id)))


def test_a_twin_without_a_verdict_fails_the_drill_and_never_passes_it() -> None:
    result = run(World(twin=VerificationError("exactly-once cannot be proven with a twin")))
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert "cannot be proven" in result.reason


def test_an_oracle_without_a_verdict_does_not_excuse_what_the_twin_finds() -> None:
    world = World(verifier_error=REFUSED, twin=replace(AGREES, outcome=LOSS))
    result = run(world)
    assert verdict_word(result) == "DEVIATED"
    assert "2 lost of 900 expected rows" in result.reason
    assert "the job's own oracle gives no verdict: the oracle is refused" in result.reason
    assert result.facts["twin"]["alone"]
    assert "the two oracles disagree" not in result.reason


def test_an_oracle_without_a_verdict_fails_the_drill_in_which_the_twin_finds_nothing() -> None:
    result = run(World(verifier_error=REFUSED, twin=AGREES))
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert "the oracle is refused" in result.reason


@pytest.mark.parametrize(
    ("records", "batch", "reads_again", "deviates"),
    [
        (PERFECT.records, None, False, False),
        (PERFECT.records - 1, None, False, True),  # the fork and the twin left out the same input
        (PERFECT.records - 1, 4, False, False),  # a rewound fork reads a part of it
        (PERFECT.records + 1, 4, False, True),
        (PERFECT.records + 1, None, False, True),
        (2 * PERFECT.records, None, False, False),  # a query that joins its source with itself
        (PERFECT.records + 1, None, True, False),
        (PERFECT.records - 1, None, True, True),
    ],
)
def test_two_judges_of_one_input_count_the_same_records(
    records: int, batch: int | None, reads_again: bool, deviates: bool
) -> None:
    twin = replace(AGREES, outcome=replace(PERFECT, records=records), reads_again=reads_again)
    result = run(World(twin=twin))
    state = RunState.of(result)
    assert state.fork is not None
    said = counted_differently(replace(state, fork=replace(state.fork, batch=batch)))
    assert (said is not None) is deviates
    if batch is None:
        assert verdict_word(result) == ("DEVIATED" if deviates else "PASSED")
        assert (said or "") in result.reason


def test_a_comparison_that_was_killed_is_made_again() -> None:
    world = World(twin=AGREES, die_at="twin")
    run_id = world.engine(drill()).begin("kill_driver")
    for step in FORK_STEPS:
        try:
            world.engine(drill()).step(run_id, step)
        except Killed:
            world.engine(drill()).step(run_id, step)
    result = world.journals.runs[run_id]
    assert result.passed, result.reason
    assert "the twin agrees" in result.reason


def test_a_journal_without_the_twin_that_it_promised_is_no_evidence() -> None:
    world = World(twin=AGREES)
    result = run(world)
    facts = {key: value for key, value in result.facts.items() if key != "twin"}
    found = decide(RunState.of(replace(result, facts=facts)))
    assert found.status is DrillStatus.FAILED
    assert found.reason == "the output was not compared with the twin"


@pytest.mark.parametrize("name", ["sink", "batch"])
def test_an_oracle_of_another_name_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        OracleKind(name)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"key": ("a", "a")}, "key"),
        ({"tolerance": {"a": 0.0}}, "tolerance.a"),
        ({"tolerance": {"a": 1.0}}, "tolerance.a"),
        ({"key": ("a",), "tolerance": {"a": 1e-9}}, "tolerance.a"),
    ],
)
def test_a_verification_that_contradicts_itself_is_refused(values: dict[str, object], key: str) -> None:
    with pytest.raises(InvalidValue) as error:
        VerificationSpec(**values)  # type: ignore[arg-type]
    assert error.value.key == key


def test_state_outside_of_the_drill_proves_nothing_and_a_loss_stays_a_loss() -> None:
    outside = Outside(files=("/data/marker",))
    result = run(World(reconciliation=PERFECT, twin=AGREES, left_outside=outside))
    assert (result.status, result.deviated) == (DrillStatus.FAILED, None)
    assert "exactly-once cannot be proven: the job wrote /data/marker" in result.reason
    lost = run(World(reconciliation=LOSS, twin=replace(AGREES, outcome=LOSS), left_outside=outside))
    assert verdict_word(lost) == "DEVIATED"


def test_what_no_comparison_shows_stands_in_the_first_sentence() -> None:
    twin = replace(AGREES, unproven=("not checked: which files of /in were read",), left_out=("at", "by", "by IS NULL"))
    world = World(reconciliation=PERFECT, twin=twin, left_outside=Outside(servers=("db:5432",)))
    result = run(world)
    assert result.passed
    said = build_report(result, world.journals.entries(result.run_id)).sentence
    for part in (
        "not checked: which files of /in were read",
        "since two unbroken runs differ in them: at, by (only the types, and whether at is NULL)",
        "not compared: what the job sent to or read from db:5432 by itself",
    ):
        assert part in said
        assert part in result.reason


def test_what_the_third_witness_says_is_in_the_first_sentence_and_in_the_report() -> None:
    said = "not compared with the stream's own rows: the query reads the clock"
    world = World(twin=replace(AGREES, third=said))
    result = run(world)
    assert result.passed
    assert said in result.reason
    assert f"| third witness | {said} |" in markdown(build_report(result, world.journals.entries(result.run_id)))
