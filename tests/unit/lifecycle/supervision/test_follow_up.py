"""What a person is told about a stream that is down: the same that its supervisor decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.after_exit import FollowUp, Next, follow_up
from streamwarden.lifecycle.supervision.restarter import GAVE_UP, Supervisor, supervised
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState
from streamwarden.stream.spec import Budget, RestartPolicy

NOW = 1000.0
POLICY = RestartPolicy(initial=30, factor=2, cap=600, budget=Budget(count=2, per=3600))


def driver(number: int, *, ended: float | None = NOW, curable: bool = True) -> DriverRecord:
    exit = None
    if ended is not None:
        exit = ExitRecord(kind=ExitKind.FAILED, ended_at=ended, message="no memory", curable=curable)
    return DriverRecord(
        driver_id=f"d{number}",
        stream="s",
        checkpoint="/c",
        token=number,
        folder="/f",
        launched_by="ann",
        launched_at=NOW - 100 + 10 * number,
        exit=exit,
    )


def said(
    *history: DriverRecord,
    by: Supervisor | None = Supervisor.DAG,
    paused: bool | None = False,
    state: DesiredState | None = None,
    events: tuple[DriverEvent, ...] = (),
) -> FollowUp | None:
    last = history[-1].driver_id
    mine = (*([supervised(last, by, NOW)] if by else []), *events)
    return follow_up(history, {last: mine}, state=state, policy=POLICY, paused=paused, now=NOW)


def test_the_first_failure_of_a_stream_that_worked_is_followed_by_a_launch_at_once() -> None:
    worked = driver(1)
    assert worked.exit is not None
    found = said(replace(worked, exit=replace(worked.exit, committed=True)))
    assert found is not None
    assert (found.next, found.at) == (Next.RESTARTS, NOW)
    assert "no memory" in found.reason


def test_a_second_failure_waits_for_the_back_off_from_its_exit() -> None:
    found = said(driver(1, ended=NOW - 50), driver(2, ended=NOW - 5))
    assert found is not None
    assert (found.next, found.at, found.attempt) == (Next.RESTARTS, NOW - 5 + 60, 2)


def test_stream_out_of_restarts_is_left_down_with_a_next_step() -> None:
    found = said(driver(1), driver(2), driver(3))
    assert found is not None
    assert found.next is Next.LEFT_DOWN
    assert "gave up after 3 failures in 1h" in found.reason
    assert "log" in found.next_step


def test_what_the_supervisor_decided_counts_until_a_person_starts_the_stream() -> None:
    decided = DriverEvent(
        driver_id="d1", at=NOW + 1, kind=GAVE_UP, detail={"reason": "it is of no use", "next_step": "repair it"}
    )
    for paused in (False, True, None):  # the DAG pauses itself then: that is no cause of its own
        found = said(driver(1), events=(decided,), paused=paused)
        assert found == FollowUp(next=Next.LEFT_DOWN, reason="it is of no use", next_step="repair it")
    started = DesiredState(stream="s", desired=Desired.RUNNING, changed_by="ann", reason="again", changed_at=NOW + 2)
    again = said(driver(1), events=(decided,), state=started)
    assert again is not None
    assert again.next is Next.RESTARTS


@pytest.mark.parametrize(
    ("by", "paused", "expected"),
    [
        (Supervisor.DAG, True, Next.PAUSED),
        (Supervisor.DAG, None, Next.UNKNOWN),
        (None, None, Next.UNSUPERVISED),
        (Supervisor.SHELL, None, Next.RESTARTS),
    ],
)
def test_follow_up_promises_only_actions_that_someone_takes(
    by: Supervisor | None, paused: bool | None, expected: Next
) -> None:
    found = said(driver(1), by=by, paused=paused)
    assert found is not None
    assert found.next is expected


def test_a_failure_that_no_restart_cures_is_left_down_even_where_it_is_unknown_who_restarts() -> None:
    found = said(driver(1, curable=False), paused=None)
    assert found is not None
    assert found.next is Next.LEFT_DOWN


def test_nothing_is_said_of_a_driver_that_lives_or_of_none() -> None:
    assert said(driver(1, ended=None)) is None
    assert follow_up((), {}, state=None, policy=POLICY, paused=False, now=NOW) is None
