"""The sentence that a manager reads, the course below it, and the one prediction with its error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamwarden.drills.faults import FAULTS
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.reporting.report import BOUND_NOTE, DrillReport, build_report
from streamwarden.verification.comparing.samples import Sample
from support.streams.stored_journals import facts_with, stored


def report_of(name: str = "kill_driver", *, facts: dict[str, Any] | None = None, **changes: Any) -> DrillReport:
    run, entries = stored(name, **changes)
    return build_report(run if facts is None else replace(run, facts=facts), entries)


def with_recovery(**changes: Any) -> dict[str, Any]:
    facts = dict(stored("kill_driver")[0].facts)
    return {**facts, "recovery": {**facts["recovery"], **changes}}


def test_a_crash_that_the_stream_survived_is_one_plain_sentence() -> None:
    assert report_of().sentence == (
        "A crash in mid-batch loses nothing and duplicates nothing; the stream was back after 32 s; proven on 12,000 "
        "input records on 23 November 2026."
    )


def test_a_stream_that_had_to_refuse_did_so() -> None:
    assert report_of("retention_passed").sentence == (
        "After the expiry of records that it had not read the stream stopped and reported it, as it must; once the "
        "documented remediation was applied, it lost nothing else; the stream was back after 12 s; proven on 390,000 "
        "input records on 12 January 1970."
    )


def test_records_that_an_at_least_once_sink_wrote_twice_are_named() -> None:
    sentence = report_of(facts=facts_with("kill_driver", repeated=1_200)).sentence
    assert "loses nothing; 1,200 records were written twice, and a reader drops them by their event id" in sentence


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (
            facts_with("kill_driver", lost=3, duplicated=2, exactly_once=False),
            "A crash in mid-batch damages the output: 3 lost, 2 duplicated of 17,027 expected rows; the stream",
        ),
        (
            with_recovery(recovery_seconds=500.0),
            "A crash in mid-batch loses nothing, but recovery took 500.0 s, the target is 480.0 s",
        ),
        (
            with_recovery(recovery_seconds=None, first_commit_at=None) | {"reconciliation": None},
            "A crash in mid-batch is not handled as it should be: the stream never came back",
        ),
    ],
    ids=["damaged output", "too late", "never back"],
)
def test_deviation_names_the_damage(facts: dict[str, Any], says: str) -> None:
    sentence = report_of(facts=facts, deviated=True).sentence
    assert sentence.startswith(says)
    assert "; found on " in sentence


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (DrillStatus.RUNNING, "The drill is still running."),
        (DrillStatus.ABORTED, "The drill broke nothing and says nothing about the stream: because of this."),
        (DrillStatus.FAILED, "The drill failed itself and says nothing about the stream: because of this."),
    ],
)
def test_a_drill_that_shows_nothing_says_so(status: DrillStatus, says: str) -> None:
    assert report_of(status=status, deviated=None, reason="because of this").sentence == says


def test_a_drill_that_found_a_deviation_and_then_failed_says_both() -> None:
    report = report_of(facts=facts_with("kill_driver", lost=1), status=DrillStatus.FAILED, deviated=True)
    assert "1 lost of 17,027" in report.sentence
    assert "the drill itself did not complete" in report.sentence


def test_the_timeline_counts_from_the_fault() -> None:
    moments = report_of().timeline
    assert [round(each.since or 0.0, 1) for each in moments] == sorted(round(each.since or 0.0, 1) for each in moments)
    since = {each.text.split(":")[0]: each.since for each in moments}
    assert since["The fault"] == 0
    assert since["The stream was back"] == pytest.approx(31.9, abs=0.05)
    assert since["The drill began"] == pytest.approx(-75.0, abs=0.05)
    assert since["The stream had caught up"] == pytest.approx(51.5, abs=0.05)
    assert 6 <= len(moments) <= 12


def test_the_end_of_the_driver_is_a_moment_unless_the_fault_ended_it_before_it_struck() -> None:
    """A driver that was stopped so that its topic could be cut has not been ended by the fault."""
    assert "The end of the driver was detected." in [each.text for each in report_of().timeline]
    run, entries = stored("retention_passed")
    assert "The end of the driver was detected." not in [each.text for each in build_report(run, entries).timeline]


def test_a_step_that_failed_is_in_the_timeline_and_without_a_fault_there_is_no_distance() -> None:
    run, entries = stored("kill_driver_begun")
    facts = {key: value for key, value in run.facts.items() if key != "fault"}
    facts["steps"] = {"fault": {"outcome": "failed", "message": "no batch was caught", "at": run.started_at + 60}}
    moments = build_report(replace(run, facts=facts), entries).timeline
    assert moments[-1].text == "The step fault failed: no batch was caught."
    assert {each.since for each in moments} == {None}


def test_both_predictions_have_errors_and_the_bound_names_its_comparison() -> None:
    report = report_of()
    rows = [row.value for row in report.rows if row.name == "recovery predicted"]
    assert rows == ["26.7 s from the launch, measured 31.3 s: error -15 %"]
    (prediction, bound) = report.explanations
    assert prediction.value.startswith("start-up + snapshot copy")
    assert "start-up: 18.1 s (launch to first planned batch, earlier life)" in prediction.value
    assert bound.value.startswith(
        "(N_current - N_checkpoint) x T_batch = 29.6 s from the launch, measured 31.3 s: error -5 %"
    )
    assert "An upper bound of the replay alone" in bound.value
    assert "the start of the driver included; the error compares the two as they are" in bound.value


def test_every_fault_can_be_the_subject_of_the_sentence() -> None:
    for kind, fault in FAULTS.items():
        assert fault.event.split()[0] in ("a", "an", "the"), kind


def test_a_report_without_any_fact_beyond_the_drill_can_be_read() -> None:
    run, _ = stored("kill_driver")
    facts = {"drill": run.facts["drill"]}
    begun: DrillRun = replace(run, facts=facts, status=DrillStatus.RUNNING, deviated=None, ended_at=None)
    report = build_report(begun, [])
    assert [each.text for each in report.timeline] == ["The drill began."]
    assert report.explanations == ()


def test_a_row_that_both_oracles_name_is_listed_once_with_both() -> None:
    lost, twice = "(a): (1)", "(b): (2); written by batch 7, which read events-0 from 3 to 9"
    facts = facts_with("kill_driver", lost=1, duplicated=1, samples={"lost": [lost], "duplicated": [twice]})
    outcome = {**facts["reconciliation"], "duplicated": 0, "samples": {"lost": [lost]}}
    twin = {"first": 0, "last": 9, "seconds": 1.0, "twins": 1, "key": [], "key_from": "rows", "left_out": []}
    report = report_of(facts={**facts, "twin": {**twin, "alone": False, "outcome": outcome}}, deviated=True)
    assert [(each.kind, each.sample, each.oracles) for each in report.deviations] == [
        ("lost", Sample("(a): (1)"), ("the job's own oracle", "the twin")),
        ("duplicated", Sample("(b): (2)", 7, "events-0 from 3 to 9"), ("the job's own oracle",)),
    ]


def test_each_prediction_has_its_error_and_the_bound_is_marked() -> None:
    bound, sharp = report_of().predictions
    assert (bound.note, sharp.note) == (BOUND_NOTE, "")
    assert bound.error == pytest.approx(-0.054, abs=0.001)
    assert sharp.error == pytest.approx(-0.149, abs=0.001)
    assert sharp.since == "the launch"
