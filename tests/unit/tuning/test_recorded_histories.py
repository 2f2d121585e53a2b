"""Each advice is compared with what happened: two real streams, whose drivers were killed after two minutes."""

from __future__ import annotations

import statistics

import pytest

from streamwarden.health.checks.batches import batch_longer_than_trigger
from streamwarden.health.verdict import Status
from streamwarden.tuning import capacity, memory, partitions, trigger
from streamwarden.tuning.advisor import advise
from streamwarden.tuning.checkpoint_interval import advise as advise_interval
from streamwarden.tuning.growth import growth_of
from streamwarden.tuning.history import History, state_rows
from streamwarden.tuning.recommendation import Decision, Recommendation
from streamwarden.tuning.state_size import SizeEstimate, predict
from support.histories import RecordedHistory, recorded

WINDOWS, UNBOUNDED = "flight_departures", "flight_dedup_unbounded"
BOTH = pytest.mark.parametrize("name", [WINDOWS, UNBOUNDED])


def numbers(advice: Recommendation) -> dict[str, float]:
    return {each.name: each.value for each in advice.numbers}


def of(history: History, topic: str) -> Recommendation:
    return next(each for each in advise(history) if each.topic == topic)


@BOTH
def test_the_size_is_predicted_within_15_percent_at_every_moment(name: str) -> None:
    """It was -17 % and +37 %: removals counted as whole rows, tombstones not at all, and a row's bytes were guessed."""
    history = recorded(name)
    estimates = [predict(history.until(at)) for at, _ in history.states]
    errors = [each.error for each in estimates if isinstance(each, SizeEstimate) and each.error is not None]
    assert len(errors) > 20
    assert max(map(abs, errors)) < 15


def test_endless_growth_is_said_after_twenty_batches_and_went_on_as_predicted() -> None:
    history = recorded(UNBOUNDED)
    moments = [at for at, _ in history.states if (growth := growth_of(history.until(at))) and growth.endless]
    early, late = history.until(moments[0]), history.until(history.end)
    assert len(early.reports()) < 30
    assert of(early, "state size").status is Decision.CHANGE
    growth = growth_of(early)
    assert growth is not None
    first, last = early.reports()[-1], late.reports()[-1]
    really = (state_rows(last) - state_rows(first)) / (last.at - first.at)
    assert growth.rows == pytest.approx(really, rel=0.5)


def test_windows_that_close_are_not_called_growth() -> None:
    history = recorded(WINDOWS)
    assert [at for at, _ in history.states if growth_of(history.until(at)) is not None] == []


@BOTH
def test_the_restart_is_known_before_the_crash_as_it_was_after_it(name: str) -> None:
    """Also from a window that no longer holds a first batch. Both drivers were started again at the same moment, on two
    cores, so that a start took up to half as long again as the first one."""
    history = recorded(name)
    before = history.until(history.killed_at)
    crashed, restarted = history.drivers
    expected = numbers(capacity.advise(before)).get("restart") if len(before.with_rows()) >= 20 else None
    first = min(
        each.progress.at + each.progress.duration_ms / 1000
        for each in history.batches
        if each.progress is not None and each.progress.run_id == restarted.run_id
    )
    really = first - restarted.launched_at
    assert expected == pytest.approx(really, rel=0.4)
    cut = history.until(history.end, look_back=21)
    assert all(each.run_id == restarted.run_id for each in cut.reports())
    assert numbers(capacity.advise(cut))["restart"] == pytest.approx((really + float(expected or 0)) / 2, rel=0.02)
    assert crashed.exit is not None


@BOTH
def test_the_stream_caught_up_as_the_advice_on_capacity_says(name: str) -> None:
    """The best rate before the crash is a rate that the stream reached again while it caught up."""
    history = recorded(name)
    advice = capacity.advise(history.until(history.killed_at))
    assert advice.status is Decision.KEEP
    after = [each for each in history.until(history.end).with_rows() if each.at > history.killed_at]
    best = max(each.rows / (each.duration_ms / 1000) for each in after)
    assert best >= numbers(advice)["rate needed"]


@BOTH
def test_the_trigger_is_never_left_alone_while_the_check_alarms(name: str) -> None:
    history: RecordedHistory = recorded(name)
    seen = set()
    for at, _ in history.states:
        found = history.until(at)
        advice, status = trigger.advise(found), found.judge(batch_longer_than_trigger.CHECK).status
        if advice.status is not Decision.UNKNOWN:
            assert (advice.status is Decision.KEEP) <= (status is Status.OK)
            assert (status in (Status.WARNING, Status.CRITICAL)) <= (advice.status is Decision.CHANGE)
            seen.add(advice.status)
    assert seen == {Decision.KEEP, Decision.CHANGE}, "the machine was busy at first, and then was not"


@BOTH
def test_the_limit_of_memory_was_never_passed(name: str) -> None:
    history = recorded(name)
    before = memory.advise(history.until(history.killed_at))
    resident = [each.value for each in history.measurements if each.name == "resident_bytes"]
    assert max(resident) <= numbers(before)["limit"]


@BOTH
def test_the_snapshots_and_partitions_that_are_kept_gave_the_recovery_that_is_accepted(name: str) -> None:
    history = recorded(name)
    before = history.until(history.killed_at)
    assert partitions.advise(before).status is Decision.KEEP
    advice = advise_interval(before)
    assert advice.status is Decision.KEEP
    commits = [each.committed_at for each in history.batches if (each.committed_at or 0) > history.killed_at]
    assert min(at for at in commits if at is not None) - history.killed_at <= numbers(advice)["accepted recovery"]
    assert numbers(advice)["T_batch"] == pytest.approx(
        statistics.median(each.duration_ms / 1000 for each in before.reports()), rel=0.1
    )
