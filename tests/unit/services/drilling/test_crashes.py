"""A crash that a restart has cured is sent once for each driver, if the settings say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.adapters.store import Store
from streamwarden.config.notifications import Notifications
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.services.incidents.muting import mute
from streamwarden.services.notifying.messages import Notification
from streamwarden.services.notifying.notifiers import Channel
from streamwarden.services.notifying.watching import notify
from streamwarden.services.workspace import Workspace

NOW = 1_800_000_000.0
KILLED = ExitRecord(kind=ExitKind.KILLED, ended_at=NOW - 120, signal=9, message="SIGKILL")


def driver(number: int, *, exit: ExitRecord | None = None, started_at: float | None = NOW - 100) -> DriverRecord:
    return DriverRecord(
        driver_id=f"counted-{number}",
        stream="counted",
        checkpoint="/data/checkpoints/counted",
        token=number,
        folder=f"/data/drivers/counted/counted-{number}",
        launched_by="airflow stream_counted scheduled__2026-01-01T00:00:00+00:00 try 1",
        launched_at=NOW - 1000 + 100 * number,
        started_at=started_at,
        exit=exit,
    )


def sent(space: Workspace, *, crashes: bool = True, at: float = NOW) -> list[Notification]:
    messages: list[Notification] = []
    settings = Notifications(crashes=crashes)
    notify(space, [Channel("test", messages.append)], settings, at, airflow="https://airflow.example")
    return messages


def record(store: Store, *drivers: DriverRecord) -> None:
    for each in drivers:
        store.drivers.launched(each)


def test_a_crash_that_was_cured_is_sent_once_with_its_links(space: Workspace) -> None:
    record(space.store, driver(1, exit=KILLED), driver(2))
    (message,) = sent(space)
    assert message.title == "CRASHED AND RESTARTED: counted"
    assert "killed by signal 9" in message.body
    assert "20.0 s later" in message.body
    run = "https://airflow.example/dags/stream_counted/runs/scheduled__2026-01-01T00%3A00%3A00%2B00%3A00"
    assert message.links.run == run
    assert f"Log: {run}/tasks/run" in message.body
    assert sent(space, at=NOW + 60) == []


def test_nothing_is_sent_unless_the_settings_say_so(space: Workspace) -> None:
    record(space.store, driver(1, exit=KILLED), driver(2))
    assert sent(space, crashes=False) == []


@pytest.mark.parametrize(
    "following",
    [(), (driver(2, started_at=None),), (driver(2, started_at=NOW - 3601),)],
    ids=["not restarted", "restarted, and its query does not run yet", "cured more than an hour ago"],
)
def test_a_crash_without_a_recent_cure_is_not_sent(space: Workspace, following: tuple[DriverRecord, ...]) -> None:
    """What is not cured is an incident."""
    record(space.store, driver(1, exit=KILLED), *following)
    assert sent(space) == []


def test_each_driver_of_a_crash_loop_is_sent_once(space: Workspace) -> None:
    """Two drivers crashed before the third one ran its query."""
    record(space.store, driver(1, exit=KILLED), driver(2, exit=KILLED, started_at=None), driver(3))
    assert [message.subject for message in sent(space)] == ["crash:counted-1", "crash:counted-2"]
    assert sent(space, at=NOW + 60) == []


def test_a_driver_that_a_person_stopped_did_not_crash(space: Workspace) -> None:
    """Neither at a batch boundary, nor by SIGKILL after the deadline of the stop."""
    stopped = replace(KILLED, kind=ExitKind.STOPPED)
    record(space.store, driver(1, exit=stopped), driver(2, exit=replace(KILLED, on_request=True)), driver(3))
    assert sent(space) == []


def test_a_driver_that_fails_before_its_first_commit_cures_nothing(space: Workspace) -> None:
    """The broker was away: its query started, and ended with the same error."""
    failed = replace(KILLED, kind=ExitKind.FAILED, committed=False)
    record(space.store, driver(1, exit=failed), driver(2, exit=failed))
    assert sent(space) == []
    record(space.store, driver(3))
    assert [message.subject for message in sent(space)] == ["crash:counted-1", "crash:counted-2"]


def test_while_an_incident_of_the_stream_is_open_no_message_says_that_nothing_has_to_be_done(space: Workspace) -> None:
    record(space.store, driver(1, exit=KILLED), driver(2))
    waits = Incident(
        incident_id="one",
        stream="counted",
        check="broker_unreachable",
        status=Status.CRITICAL,
        opened_at=NOW - 60,
        updated_at=NOW,
        reason="the broker does not answer",
    )
    space.store.incidents.save(waits)
    assert [message.subject for message in sent(space) if message.subject.startswith("crash")] == []
    space.store.incidents.save(replace(waits, status=Status.OK, resolved_at=NOW + 30))
    assert "crash:counted-1" in [message.subject for message in sent(space, at=NOW + 60)]
    drill = replace(waits, incident_id="two", check="drill_kill_counted")
    space.store.incidents.save(drill)
    record(space.store, driver(3, exit=KILLED), driver(4))
    assert "crash:counted-3" in [message.subject for message in sent(space, at=NOW + 90)]


def test_a_crash_during_a_mute_of_the_stream_is_never_sent(space: Workspace) -> None:
    """Nothing has to be done about it, so it is no news when the mute has ended."""
    record(space.store, driver(1, exit=KILLED), driver(2))
    mute(space.store, space.catalog(), "counted", until=NOW - 50, who="ann", reason="a new disk", now=NOW - 300)
    assert sent(space) == []
    record(space.store, driver(3, exit=replace(KILLED, ended_at=NOW - 40), started_at=NOW - 45))
    record(space.store, driver(4, started_at=NOW - 20))
    assert [each.title for each in sent(space, at=NOW + 60)] == ["CRASHED AND RESTARTED: counted"]
