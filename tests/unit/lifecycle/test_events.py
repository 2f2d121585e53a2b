"""The history of a stream: what happened to its drivers, who did it, and why."""

from __future__ import annotations

from dataclasses import replace

from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.events import EventKind, last_crash, stream_events
from streamwarden.lifecycle.supervision.restarter import GAVE_UP

ANN = "ann@laptop (command line)"


def driver(
    number: int, at: float, kind: ExitKind | None = None, ended_at: float = 0.0, message: str = ""
) -> DriverRecord:
    end = None if kind is None else ExitRecord(kind=kind, ended_at=ended_at, message=message, next_step="read the log")
    return DriverRecord(
        driver_id=f"d{number}",
        stream="orders",
        checkpoint="/c",
        token=number,
        folder="/f",
        launched_by=ANN if number == 1 else "airflow stream_orders run try 1",
        launched_at=at,
        exit=end,
    )


def asked(number: int, at: float, *, restart: bool = False) -> DriverEvent:
    detail = {"by": ANN, "reason": "new schema", "restart": str(restart).lower()}
    return DriverEvent(driver_id=f"d{number}", at=at, kind="stop_requested", detail=detail)


def test_a_crash_is_an_event_although_the_restart_cured_it() -> None:
    killed = replace(driver(1, 0.0), exit=ExitRecord(kind=ExitKind.KILLED, ended_at=100.0, signal=9))
    found = stream_events([driver(2, 103.0), killed], {})
    assert [(each.at, each.kind) for each in found] == [
        (0.0, EventKind.LAUNCHED),
        (100.0, EventKind.CRASHED),
        (103.0, EventKind.RESTARTED),
    ]
    assert (found[0].who, found[1].why) == (ANN, "killed by signal 9")
    assert (found[2].why, found[2].after) == ("killed by signal 9", 3.0)
    assert last_crash(found) == (found[1], found[2])


def test_a_stop_names_the_person_and_the_reason_and_is_no_crash() -> None:
    found = stream_events([driver(1, 0.0, ExitKind.STOPPED, 50.0)], {"d1": [asked(1, 40.0)]})
    assert [(each.kind, each.who) for each in found[1:]] == [
        (EventKind.STOP_REQUESTED, ANN),
        (EventKind.STOPPED, ANN),
    ]
    assert found[1].why == "new schema"
    assert last_crash(found) is None


def test_a_stop_that_had_to_be_forced_is_a_stop() -> None:
    killed = driver(1, 0.0, ExitKind.KILLED, 50.0)
    assert killed.exit is not None
    forced = replace(killed, exit=replace(killed.exit, on_request=True))
    assert stream_events([forced], {"d1": [asked(1, 40.0)]})[-1].kind is EventKind.STOPPED


def test_a_driver_that_fails_while_it_stops_has_crashed() -> None:
    found = stream_events([driver(1, 0.0, ExitKind.FAILED, 50.0, "no disk")], {"d1": [asked(1, 40.0)]})
    assert (found[-1].kind, found[-1].why, found[-1].next_step) == (
        EventKind.CRASHED,
        "failed (no disk)",
        "read the log",
    )


def test_a_requested_restart_gives_the_reason_of_the_request() -> None:
    drivers = [driver(1, 0.0, ExitKind.STOPPED, 50.0), driver(2, 52.0)]
    found = stream_events(drivers, {"d1": [asked(1, 40.0, restart=True)]})
    assert found[-1].kind is EventKind.RESTARTED
    assert found[-1].why == f"{ANN}: new schema"
    assert not found[-1].cures


def test_the_launch_after_a_crash_cures_it_also_if_the_end_was_not_recorded() -> None:
    for end in (driver(1, 0.0), driver(1, 0.0, ExitKind.FAILED, 50.0)):
        assert [each.kind for each in stream_events([end, driver(2, 52.0)], {}) if each.cures] == [EventKind.RESTARTED]


def test_a_driver_that_vanished_counts_as_crashed_when_it_was_replaced() -> None:
    found = stream_events([driver(1, 0.0), driver(2, 60.0)], {})
    assert [each.kind for each in found] == [EventKind.LAUNCHED, EventKind.CRASHED, EventKind.RESTARTED]
    assert "vanished" in found[1].why


def test_supervisor_that_gave_up_names_the_reason_and_the_next_step() -> None:
    detail = {"reason": "6 failures within an hour", "next_step": "fix the cause", "exhausted": "true"}
    event = DriverEvent(driver_id="d1", at=51.0, kind=GAVE_UP, detail=detail)
    found = stream_events([driver(1, 0.0, ExitKind.FAILED, 50.0)], {"d1": [event]})
    assert (found[-1].kind, found[-1].why, found[-1].next_step) == (
        EventKind.LEFT_DOWN,
        "6 failures within an hour",
        "fix the cause",
    )
    assert last_crash(found) == (found[1], None)
