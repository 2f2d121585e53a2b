"""Verdicts older than three intervals are stale wherever they are shown, and a stopped stream alarms nowhere."""

from __future__ import annotations

import pytest

from streamwarden.health.evaluations import INTERVAL
from streamwarden.health.shown_verdicts import current_health
from streamwarden.health.verdict import Status, Verdict

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN


def verdict(status: Status, check: str = "state_size", at: float = 0.0) -> Verdict:
    return Verdict(stream="orders", check=check, status=status, at=at, reason="6 GB", advice="clean up")


@pytest.mark.parametrize(("old", "stale"), [(0.0, False), (3 * INTERVAL, False), (3 * INTERVAL + 1, True)])
@pytest.mark.parametrize(("status", "later"), [(OK, UNKNOWN), (WARNING, WARNING), (CRITICAL, CRITICAL)])
def test_a_stale_good_verdict_is_unknown_and_a_stale_alarm_stays(
    old: float, stale: bool, status: Status, later: Status
) -> None:
    last = current_health([verdict(status)], old)
    assert (last.stale, last.judged_at, last.status) == (stale, 0.0, later if stale else status)


def test_a_check_that_no_longer_exists_is_not_shown() -> None:
    last = current_health([verdict(CRITICAL, "gone", at=-1_000.0), verdict(OK)], 10.0)
    assert [each.check for each in last.verdicts] == ["state_size"]


def test_a_stream_that_was_never_judged_is_unknown_and_not_stale() -> None:
    last = current_health([], 10.0)
    assert (last.status, last.judged_at, last.stale) == (UNKNOWN, None, False)


def test_a_stream_that_should_be_stopped_alarms_nowhere() -> None:
    (shown,) = current_health([verdict(CRITICAL)], 10.0, stopped=True).verdicts
    assert (shown.status, shown.advice) == (UNKNOWN, "")
    assert shown.reason == "the stream was stopped on purpose: 6 GB"
