"""Incidents: opened once, updated, escalated, resolved after enough good verdicts; told when they should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.health.incidents.consequences import IncidentGroup
from streamwarden.health.incidents.incident import Incident, IncidentPolicy, advance
from streamwarden.health.incidents.notification_due import due
from streamwarden.health.verdict import Status, Verdict

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN
POLICY = IncidentPolicy(resolve_after=3, resend_interval=3600.0)


def ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"i{next(numbers)}"


def verdict(status: Status, at: float = 0.0, *, stream: str = "orders", check: str = "state_size") -> Verdict:
    return Verdict(
        stream=stream,
        check=check,
        status=status,
        at=at,
        reason=f"{status} at {at}",
        advice="do" * (status is not OK),
        evidence={"judged": status.value, "at": at},
    )


def play(*statuses: Status, policy: IncidentPolicy = POLICY) -> list[Incident]:
    """All incidents after these verdicts of one check, one a minute, in the order in which they were opened."""
    known: dict[str, Incident] = {}
    new_id = ids()
    for minute, status in enumerate(statuses):
        now = 60.0 * minute
        for incident in advance(known.values(), [verdict(status, now)], now, policy, new_id).all:
            known[incident.incident_id] = incident
    return list(known.values())


def test_a_problem_opens_one_incident_however_long_it_lasts() -> None:
    (incident,) = play(*[WARNING] * 50)
    assert (incident.opened_at, incident.updated_at, incident.resolved_at) == (0, 49 * 60, None)


def test_it_escalates_and_keeps_its_peak() -> None:
    (incident,) = play(WARNING, CRITICAL, WARNING)
    assert (incident.status, incident.peak) == (WARNING, CRITICAL)
    assert incident.reason == "WARNING at 120.0"


@pytest.mark.parametrize(
    ("after", "resolved_at"),
    [
        ([OK, OK], None),
        ([OK, OK, OK], 180.0),
        ([OK, OK, WARNING, OK, OK], None),
        ([OK, OK, WARNING, OK, OK, OK], 360.0),
        ([OK, OK, UNKNOWN, OK, OK], None),  # nobody saw that all was well
        ([UNKNOWN] * 100, None),
    ],
)
def test_three_good_verdicts_in_a_row_resolve_it(after: list[Status], resolved_at: float | None) -> None:
    (incident,) = play(WARNING, *after)
    assert incident.resolved_at == resolved_at
    assert (incident.status is OK) is (resolved_at is not None)


def test_the_evidence_of_the_last_bad_verdict_stays_after_the_end() -> None:
    """That of the good verdicts, and of those that did not know, would show nothing of the problem."""
    (incident,) = play(WARNING, CRITICAL, UNKNOWN, OK, OK, OK)
    assert incident.resolved_at is not None
    assert incident.evidence == {"judged": "CRITICAL", "at": 60.0}


def test_a_problem_that_returns_after_its_end_is_a_new_incident() -> None:
    first, second = play(WARNING, OK, OK, OK, CRITICAL)
    assert first.resolved_at == 180
    assert (second.opened_at, second.resolved_at, second.status) == (240, None, CRITICAL)


def test_unknown_and_ok_open_nothing() -> None:
    assert play(OK, UNKNOWN, OK, UNKNOWN) == []


def test_streams_and_checks_have_incidents_of_their_own() -> None:
    verdicts = [
        verdict(WARNING),
        verdict(CRITICAL, check="backlog"),
        verdict(WARNING, stream="clicks"),
        verdict(OK, stream="clicks", check="backlog"),
    ]
    changes = advance([], verdicts, 0.0, POLICY, ids())
    assert [(each.stream, each.check) for each in changes.opened] == [
        ("orders", "state_size"),
        ("orders", "backlog"),
        ("clicks", "state_size"),
    ]


def test_incidents_that_no_check_speaks_of_are_left_alone() -> None:
    """Supervision opens incidents of its own."""
    other = Incident(
        incident_id="s", stream="orders", check="supervision", status=CRITICAL, opened_at=0, updated_at=0, reason=""
    )
    assert advance([other], [verdict(OK)], 60.0, POLICY, ids()).all == ()


@given(st.lists(st.sampled_from([OK, WARNING, CRITICAL, UNKNOWN]), max_size=60))
def test_at_most_one_incident_is_open_and_only_alarms_open_one(statuses: list[Status]) -> None:
    incidents = play(*statuses)
    assert sum(each.resolved_at is None for each in incidents) <= 1
    assert bool(incidents) is any(status in (WARNING, CRITICAL) for status in statuses)
    for earlier, later in pairwise(incidents):
        assert earlier.resolved_at is not None
        assert earlier.resolved_at < later.opened_at


def told(incident: Incident, at: float, status: Status) -> Incident:
    return replace(incident, notified_at=at, notified_status=status)


def is_due(incident: Incident, now: float) -> bool:
    return bool(due([IncidentGroup(incident)], now, POLICY.resend_interval))


class TestDue:
    def setup_method(self) -> None:
        (self.open,) = play(WARNING)
        (self.worse,) = play(WARNING, CRITICAL)
        (self.ended,) = play(WARNING, OK, OK, OK)

    def test_incident_without_notification_is_due(self) -> None:
        assert is_due(self.open, 0)

    @pytest.mark.parametrize(("now", "expected"), [(100, False), (3_699.9, False), (3_700, True), (9_000, True)])
    def test_again_after_the_resend_interval_and_not_before(self, now: float, expected: bool) -> None:
        assert is_due(told(self.open, 100, WARNING), now) is expected

    def test_status_worse_than_last_notification_is_due(self) -> None:
        assert is_due(told(self.worse, 100, WARNING), 101)
        assert not is_due(told(self.worse, 100, CRITICAL), 101)

    def test_flapping_between_warning_and_critical_is_notified_once_per_status(self) -> None:
        """CRITICAL was told; the way down and up again within the hour is no news."""
        assert not is_due(told(self.open, 100, CRITICAL), 200)
        assert not is_due(told(self.worse, 100, CRITICAL), 300)

    def test_resolution_is_notified_once_where_the_opening_was(self) -> None:
        assert is_due(told(self.ended, 100, WARNING), 200)
        assert not is_due(told(self.ended, 200, OK), 300)
        assert not is_due(self.ended, 200)
