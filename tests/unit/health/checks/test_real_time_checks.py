"""Real-time mode: a batch is long by design, and what it has read is in no log until it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.health.checks.batches import batch_longer_than_trigger, progress_stalled
from streamwarden.health.checks.input import backlog
from streamwarden.health.checks.state import state_update_latency
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import WaitingInput, Window
from streamwarden.stream.spec import TriggerSpec
from support.streams.health_windows import NOW, driver, judge, log, report, spec, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN
LIVE = spec(trigger=TriggerSpec(real_time=30.0))


def running(committed: float, since: float | None, *, batches: int = 20, milliseconds: int = 30_400) -> Window:
    """The last commit was `committed` seconds ago, the oldest record behind it came `since` seconds ago."""
    return window(
        [report(n, NOW - 10_000 + n, top={"batchDuration": milliseconds}) for n in range(batches)],
        spec=LIVE,
        log=log(batches - 1, batches - 1, planned_at=NOW - committed, committed_at=NOW - committed),
        drivers=(driver(1, NOW - 9_000.0),),
        driver_alive=True,
        waiting=WaitingInput(
            what="record",
            count=0 if since is None else 3_000,
            since=None if since is None else NOW - since,
            planned=60_000,
            planned_batches=20,
        ),
    )


@pytest.mark.parametrize(
    ("milliseconds", "status"), [(30_400, OK), (59_999, OK), (60_000, WARNING), (180_001, CRITICAL)]
)
def test_batch_is_judged_by_its_time_beyond_the_batch_length(milliseconds: int, status: Status) -> None:
    verdict = judge(batch_longer_than_trigger.CHECK, running(1, None, milliseconds=milliseconds))
    assert verdict.status is status
    assert "beyond its length, in intervals of 30 s, is" in verdict.reason


@pytest.mark.parametrize(("seconds", "status"), [(29, OK), (150, OK), (153, WARNING), (457, CRITICAL)])
def test_records_of_the_running_batch_are_no_stall_until_five_lengths_passed_without_a_commit(
    seconds: float, status: Status
) -> None:
    """The window is five batches of 30.4 s, the 95th percentile."""
    verdict = judge(progress_stalled.CHECK, running(seconds, seconds))
    assert verdict.status is status, verdict.reason
    assert "3,000 input records have waited for the commit of their batch" in verdict.reason


def test_a_first_batch_gets_no_hour() -> None:
    """In micro-batches it may read a long backlog; here it ends after its length."""
    assert judge(progress_stalled.CHECK, running(200, 200, batches=1)).status is WARNING
    assert judge(progress_stalled.CHECK, running(100, 100, batches=1)).status is OK


def behind(window: Window) -> Verdict:
    return judge(backlog.CHECK, window)


def test_what_came_since_the_last_commit_is_no_backlog() -> None:
    verdict = behind(running(29, 29))
    assert (verdict.status, verdict.value) == (OK, 0.0)
    assert behind(running(29, None)).value == 0.0


def test_what_the_last_commit_left_behind_is_one_of_that_age() -> None:
    assert behind(running(20, 30)).value == 10.0
    assert behind(running(20, 619)).status is OK
    assert behind(running(20, 620)).status is WARNING
    assert behind(running(20, 3_621)).status is CRITICAL


def test_a_commit_that_left_records_of_unknown_age_is_not_said_to_reach_the_newest() -> None:
    """The broker did not hand out the oldest in time: 3,000 records at 60,000 in 20 batches of 30.4 s."""
    mine = running(20, 30)
    assert mine.waiting is not None
    verdict = behind(replace(mine, waiting=replace(mine.waiting, since=None)))
    assert verdict.value == pytest.approx(30.4)
    assert "3,000 records wait" in verdict.reason


def test_reported_update_time_is_not_judged_in_real_time_mode() -> None:
    reports = [report(n, operator={"allUpdatesTimeMs": 30_000, "numRowsUpdated": 200}) for n in range(5)]
    assert judge(state_update_latency.CHECK, window(reports, spec=LIVE)).status is UNKNOWN
    assert judge(state_update_latency.CHECK, window(reports)).status is CRITICAL
