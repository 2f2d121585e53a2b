"""A driver that ended although its stream should run: what was observed, why it stays down, and what to do."""

from __future__ import annotations

import pytest

from streamwarden.health.checks.driver import driver_down
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.lifecycle.driver import DriverEvent, ExitKind
from streamwarden.lifecycle.supervision.restarter import GAVE_UP, Restarter, Supervisor, restarter, supervised
from support.streams.health_windows import NOW, driver, ended, judge, log, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN


def dead(gone: float = 10.0, kind: ExitKind = ExitKind.KILLED, **changes: object) -> Window:
    """The only driver committed batches, and ended `gone` seconds ago: a supervisor restarts it at once."""
    end = ended(kind, NOW - gone, signal=9, committed=True)
    settings = {
        "drivers": (driver(1, NOW - 5_000, started_at=NOW - 4_990, exit=end),), "driver_alive": False, "log": log(9, 9)
    }  # fmt: skip
    return window(**{**settings, **changes})


def verdict(of: Window) -> Verdict:
    return judge(driver_down.CHECK, of)


def test_a_dead_driver_of_a_paused_dag_is_reported_at_once_with_that_cause_and_remedy() -> None:
    found = verdict(dead(1.0, restarter=Restarter.PAUSED_DAG))
    assert found.status is CRITICAL
    assert found.reason == (
        "the driver ended 1.0 s ago: killed by signal 9; nothing restarts it, because the DAG stream_orders is paused"
    )
    assert "Unpause the DAG stream_orders" in found.advice
    assert "streamwarden start orders" in found.advice


def test_a_stream_whose_supervisor_gave_up_is_not_blamed_on_its_paused_dag() -> None:
    found = verdict(dead(1.0, restarter=Restarter.GAVE_UP))
    assert found.status is CRITICAL
    assert found.reason.endswith("its supervisor gave up after more than 5 failures in 1h")
    assert "fix the cause" in found.advice


def test_a_dead_driver_that_was_started_by_hand_is_reported_at_once_with_its_remedy() -> None:
    found = verdict(dead(1.0, restarter=Restarter.NOTHING))
    assert found.status is CRITICAL
    assert found.reason.endswith("nothing restarts it: test started it, and no supervisor followed it")
    assert found.advice.startswith("Run `streamwarden start orders`")


@pytest.mark.parametrize("by", [Restarter.DAG, Restarter.SHELL, Restarter.UNKNOWN])
@pytest.mark.parametrize(
    ("gone", "status"), [(2, UNKNOWN), (59, UNKNOWN), (60, WARNING), (180, WARNING), (181, CRITICAL)]
)
def test_a_supervisor_has_a_minute(by: Restarter, gone: float, status: Status) -> None:
    found = verdict(dead(gone, restarter=by))
    assert (found.status, found.value) == (status, gone)
    assert ("overdue" in found.reason) is (status is not UNKNOWN)


def test_a_restart_is_not_overdue_while_the_supervisor_backs_off() -> None:
    """The third failure in a row: the supervisor waits for two minutes by its policy."""
    ends = [NOW - 600, NOW - 300, NOW - 100]
    drivers = tuple(driver(n, at - 20, exit=ended(ExitKind.FAILED, at)) for n, at in enumerate(ends))
    found = verdict(window(drivers=drivers, driver_alive=False, restarter=Restarter.DAG, log=log(9, 9)))
    assert (found.status, found.value) == (UNKNOWN, 0.0)
    assert "its restart is due in 20.0 s" in found.reason


def test_a_cause_that_no_restart_cures_is_reported_at_once_with_its_next_step() -> None:
    end = ended(ExitKind.FAILED, NOW - 1, curable=False, next_step="Use a new checkpoint")
    found = verdict(window(drivers=(driver(1, NOW - 50, exit=end),), driver_alive=False, restarter=Restarter.DAG))
    assert found.status is CRITICAL
    assert "a restart cannot cure this" in found.reason
    assert found.advice == "Use a new checkpoint. Then run `streamwarden start orders`."


def test_a_driver_that_vanished_counts_from_the_evaluation_that_found_it_gone() -> None:
    gone = {"drivers": (driver(1, NOW - 5_000),), "driver_alive": False, "log": log(9, 9)}
    first = verdict(window(**gone, restarter=Restarter.DAG))
    assert (first.status, first.value) == (UNKNOWN, 0.0)
    later = window(**gone, restarter=Restarter.DAG, now=NOW + 120, previous={"driver_down": first})
    assert (verdict(later).status, verdict(later).value) == (WARNING, 120.0)


@pytest.mark.parametrize(
    ("of", "status"),
    [
        (dead(9_000.0, wanted_stopped=True), OK),
        (dead(9_000.0, ExitKind.STOPPED), OK),
        (dead(9_000.0, ExitKind.COMPLETED), OK),
        (window(drivers=(driver(1, NOW - 5_000),), driver_alive=True), OK),
        (window(drivers=(driver(1, NOW - 5_000),), driver_alive=None), UNKNOWN),
        (window(), UNKNOWN),
    ],
    ids=["wanted stopped", "stopped", "completed", "alive", "unseen", "never ran"],
)
def test_it_is_silent(of: Window, status: Status) -> None:
    assert verdict(of).status is status


SHELL = [supervised("d", Supervisor.SHELL, 1.0)]
DAG = [supervised("d", Supervisor.DAG, 1.0)]
LEFT = DriverEvent(driver_id="d", at=2.0, kind=GAVE_UP, detail={"reason": "gave up after 6 failures in 1h"})


@pytest.mark.parametrize(
    ("events", "paused", "expected"),
    [
        ([], None, Restarter.NOTHING),
        ([], True, Restarter.PAUSED_DAG),
        ([], False, Restarter.DAG),
        (DAG, None, Restarter.UNKNOWN),
        (DAG, True, Restarter.PAUSED_DAG),
        (DAG, False, Restarter.DAG),
        (SHELL, None, Restarter.SHELL),
        (SHELL, True, Restarter.SHELL),
        (SHELL, False, Restarter.DAG),
        ([*DAG, *SHELL], None, Restarter.SHELL),
        ([*DAG, LEFT], True, Restarter.GAVE_UP),
        ([*SHELL, LEFT], None, Restarter.GAVE_UP),
        ([*DAG, LEFT], False, Restarter.DAG),
        ([DriverEvent(driver_id="d", at=1.0, kind="reattached", detail={"by": "ann"})], None, Restarter.NOTHING),
    ],
)
def test_what_restarts_a_driver(events: list[DriverEvent], paused: bool | None, expected: Restarter) -> None:
    assert restarter(events, paused) is expected
