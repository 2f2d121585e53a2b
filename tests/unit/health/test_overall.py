"""The health of a stream: what the person on call sees of twenty verdicts."""

from __future__ import annotations

import pytest

from streamwarden.health.shown_verdicts import ESSENTIAL, overall
from streamwarden.health.verdict import Status, Verdict

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN


def verdicts(**statuses: Status) -> list[Verdict]:
    return [Verdict(stream="orders", check=name, status=status, at=0.0) for name, status in statuses.items()]


def test_a_quiet_stream_is_healthy_although_a_check_has_too_few_rows() -> None:
    assert overall(verdicts(progress_stalled=OK, state_size=OK, state_update_latency=UNKNOWN)) is OK


@pytest.mark.parametrize("name", sorted(ESSENTIAL))
def test_a_stream_whose_life_or_state_is_not_seen_is_not_healthy(name: str) -> None:
    assert overall(verdicts(**{**dict.fromkeys(ESSENTIAL, OK), name: UNKNOWN}, backlog=OK)) is UNKNOWN


def test_an_alarm_of_any_check_counts() -> None:
    assert overall(verdicts(progress_stalled=UNKNOWN, backlog=WARNING)) is WARNING
    assert overall(verdicts(progress_stalled=OK, backlog=WARNING, late_rows=CRITICAL)) is CRITICAL


@pytest.mark.parametrize("statuses", [{}, {"backlog": UNKNOWN, "late_rows": UNKNOWN}])
def test_a_stream_of_which_nothing_is_known_is_not_healthy(statuses: dict[str, Status]) -> None:
    assert overall(verdicts(**statuses)) is UNKNOWN
