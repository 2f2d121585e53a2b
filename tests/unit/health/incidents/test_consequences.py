"""One dead stream is one incident: the cause alarms, and what follows from it is listed inside."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.health.check_relations import AIRFLOW, CONFIGURATION, EVERYWHERE, SUPERVISION
from streamwarden.health.checks import CHECKS
from streamwarden.health.incidents.consequences import CAUSES, IncidentGroup, Roots, folded, grouped, relinked
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.notification_due import due
from streamwarden.health.verdict import Status

OK, WARNING, CRITICAL = Status.OK, Status.WARNING, Status.CRITICAL
PROBLEMS = {check.name for check in CHECKS} | {SUPERVISION, CONFIGURATION, AIRFLOW}


def incident(check: str, stream: str = "orders", status: Status = CRITICAL, **changes: object) -> Incident:
    given = {"incident_id": f"{stream}:{check}", "stream": stream, "check": check, "status": status, "peak": status}
    return Incident(**{**given, "opened_at": 0.0, "updated_at": 0.0, "reason": f"{check} is bad", **changes})  # type: ignore[arg-type]


def roots(*found: Incident) -> dict[str, str]:
    """check -> the check of its root"""
    return {each.check: Roots(found).of(each).check for each in found}


def linked(*found: Incident) -> list[Incident]:
    changed = {each.incident_id: each for each in relinked(found)}
    return [changed.get(each.incident_id, each) for each in found]


@pytest.mark.parametrize("name", sorted(CAUSES))
def test_every_declared_cause_exists_and_none_is_its_own_consequence(name: str) -> None:
    assert set(CAUSES[name]) <= PROBLEMS
    seen, todo = set(), list(CAUSES[name])
    while todo:
        cause = todo.pop()
        assert cause != name
        if cause not in seen:
            seen.add(cause)
            todo += CAUSES.get(cause, ())


@pytest.mark.parametrize(
    ("cause", "following"),
    [
        ("driver_down", ["progress_stalled", "backlog", "topic_lag", "restart_loop"]),
        (SUPERVISION, ["driver_down", "progress_stalled", "backlog", "restart_loop"]),
        ("broker_unreachable", [SUPERVISION, "driver_down", "progress_stalled", "topic_lag"]),
        ("database_unreachable", ["batch_longer_than_trigger", "progress_stalled", "restart_loop"]),
        ("input_lost", [SUPERVISION, "driver_down", "progress_stalled"]),
        ("restart_loop", ["progress_stalled", "replay_debt", "backlog"]),
        ("query_ended", ["progress_stalled", "backlog"]),
        ("progress_stalled", ["backlog", "topic_lag"]),
    ],
)
def test_a_dead_stream_has_one_root(cause: str, following: list[str]) -> None:
    found = [incident(name) for name in (*following, cause)]
    assert set(roots(*found).values()) == {cause}


@pytest.mark.parametrize("check", ["input_lost", "state_size", "partition_skew", "broker_unreachable"])
def test_a_problem_with_a_cause_elsewhere_stays_a_root(check: str) -> None:
    """Lost input is lost, whoever was down; large state is large."""
    assert roots(incident("driver_down"), incident(check))[check] == check


def test_a_query_follows_from_its_driver_and_never_from_another_query_or_stream() -> None:
    driver, query = incident("driver_down"), incident("progress_stalled", "orders/clicks")
    assert Roots([driver, query]).of(query) == driver
    for other in (incident("query_ended", "orders/sums"), incident("driver_down", "clicks")):
        assert Roots([other, query]).of(query) == query


def test_a_component_of_airflow_explains_every_stream_that_is_not_restarted() -> None:
    scheduler = incident(AIRFLOW, EVERYWHERE)
    down = [incident("driver_down", name) for name in ("orders", "clicks")]
    assert [Roots([scheduler, *down]).of(each) for each in down] == [scheduler, scheduler]
    late = incident("late_rows")
    assert Roots([scheduler, late]).of(late) == late


def test_the_links_lead_to_the_root_and_are_changed_once() -> None:
    found = linked(incident("backlog"), incident("progress_stalled"), incident("driver_down"))
    assert [each.consequence_of for each in found] == ["orders:driver_down", "orders:driver_down", None]
    assert relinked(found) == ()


def test_a_consequence_outlives_its_cause_for_a_while_and_then_alarms() -> None:
    """The driver is back and catches up: the backlog is no news until that takes too long."""
    cause, backlog = linked(incident("driver_down"), incident("backlog"))[0], incident("backlog")
    backlog = replace(backlog, consequence_of=cause.incident_id)
    ended = replace(cause, status=OK, resolved_at=100.0)
    assert relinked([backlog], [ended]) == ()
    assert [each.is_root for each in relinked([backlog])] == [True]


def test_a_new_incident_is_no_consequence_of_a_cause_that_has_ended() -> None:
    ended = incident("driver_down", resolved_at=100.0, status=OK)
    assert relinked([incident("backlog")], [ended]) == ()


def test_a_group_is_as_bad_as_its_worst_member_and_one_message() -> None:
    cause = incident("restart_loop", status=WARNING)
    backlog = incident("backlog", consequence_of=cause.incident_id)
    other = incident("state_size")
    first, second = grouped([cause, backlog, other])
    assert first == IncidentGroup(cause, (backlog,))
    assert (first.status, second.consequences) == (CRITICAL, ())
    sent = replace(cause, notified_at=10.0, notified_status=WARNING)
    assert due([IncidentGroup(sent)], 20.0, 3600.0) == ()
    assert due([IncidentGroup(sent, (backlog,))], 20.0, 3600.0) != ()  # it became worse


def test_a_cause_that_reaches_another_stream_is_sent_again() -> None:
    """The scheduler is down since 10:00; at 10:20 a driver dies, and nothing restarts it."""
    scheduler = incident(AIRFLOW, EVERYWHERE, notified_at=10.0, notified_status=CRITICAL)
    down = incident("driver_down", consequence_of=scheduler.incident_id, opened_at=20.0)
    assert due([IncidentGroup(scheduler, (down,))], 21.0, 3600.0) != ()
    known = replace(scheduler, notified_at=21.0)
    assert due([IncidentGroup(known, (down,))], 22.0, 3600.0) == ()
    own = incident("driver_down", notified_at=10.0, notified_status=CRITICAL)
    stalled = incident("progress_stalled", consequence_of=own.incident_id, opened_at=20.0)
    assert due([IncidentGroup(own, (stalled,))], 21.0, 3600.0) == ()


def test_an_incident_whose_last_verdict_was_good_is_not_sent() -> None:
    """A driver that runs again is not reported as down while its incident waits for two more good verdicts."""
    better = incident("driver_down", good=1)
    assert due(grouped([better]), 0.0, 3600.0) == ()
    assert due(grouped([replace(better, notified_at=0.0, notified_status=CRITICAL)]), 9_999.0, 3600.0) == ()


def test_alarms_are_folded_below_their_cause() -> None:
    alarms = ["backlog", "progress_stalled", "driver_down", "state_size", "backlog"]
    assert folded(alarms) == {"driver_down": ("backlog", "progress_stalled"), "state_size": ()}
    assert folded(["backlog", "late_rows"]) == {"backlog": (), "late_rows": ()}, "no cause is among them"
    assert folded(()) == {}
