"""A stream that was stopped on purpose is silent, and a dead one is one incident: the evaluation over a real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.adapters.processes import this_host
from streamwarden.adapters.store import Store
from streamwarden.health.check_relations import CONFIGURATION, DRILL, SUPERVISION
from streamwarden.health.incidents.stream_incidents import open_incident
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.supervision.restarter import Supervisor, supervised
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.monitoring.health_monitor import HealthMonitor
from streamwarden.services.notifying.messages import Notification
from streamwarden.services.notifying.notifiers import Channel
from streamwarden.services.notifying.sending import send_due
from support.streams.monitored import T0, Stream, me

GONE = ProcessIdentity(host=this_host(), pid=2**22 + 1, started_at=1)
HOUR = 3600.0


class OnCall:
    """The health DAG over one stream, and everything that the person on call receives."""

    def __init__(self, stream: Stream, store: Store, paused: bool | None = None) -> None:
        self.stream, self.store, self.now = stream, store, T0
        self.monitor = HealthMonitor(store, paused=lambda _: paused)
        self.received: list[Notification] = []

    def minutes(self, count: int, *, every: int = 1) -> list[Notification]:
        """The messages of the next `count` minutes, with an evaluation every so many of them."""
        before = len(self.received)
        for _ in range(0, count, every):
            self.monitor.evaluate([self.stream.spec], self.now)
            self.notify()
            self.now += 60.0 * every
        return self.received[before:]

    def notify(self) -> None:
        send_due(self.store, [Channel("pager", self.received.append)], self.now, resend_interval=HOUR)

    def want(self, desired: Desired) -> None:
        self.store.stops.set_desired(
            DesiredState(stream="orders", desired=desired, changed_by="ann", reason="new schema", changed_at=self.now)
        )


@pytest.fixture
def slow(tmp_path: Path, store: Store) -> OnCall:
    """A running stream whose checkpoints take a minute: an alarm that only more batches could end."""
    stream = Stream(tmp_path, store)
    stream.run(range(20), checkpoint_ms=60_000)
    stream.drive(me())
    return OnCall(stream, store)


@pytest.fixture
def dead(tmp_path: Path, store: Store) -> OnCall:
    """The driver was killed ten seconds ago, and 450 files wait."""
    stream = Stream(tmp_path, store)
    stream.run(range(20))
    for number in range(450):
        stream.drop(f"new-{number}.json")
    stream.drive(None, exit=ExitRecord(kind=ExitKind.KILLED, signal=9, ended_at=T0 - 10, committed=True))
    return OnCall(stream, store, paused=True)


def test_a_stopped_stream_is_not_reported_again_an_hour_later(slow: OnCall) -> None:
    """The alarm was sent four minutes before the stop; without batches no verdict changes it."""
    assert [each.title for each in slow.minutes(4)] == ["CRITICAL: orders: checkpoint duration"]
    slow.want(Desired.STOPPED)
    slow.store.drivers.exited("orders-1", ExitRecord(kind=ExitKind.STOPPED, ended_at=slow.now))
    (message,) = slow.minutes(70, every=5)
    assert message.title == "RESOLVED: orders: checkpoint duration"
    assert "ann stopped the stream: new schema" in message.body
    assert slow.store.incidents.open() == ()
    assert all(each.status in (Status.OK, Status.UNKNOWN) for each in slow.store.verdicts.latest("orders"))


def test_the_alarm_is_sent_again_each_hour_while_the_stream_runs(slow: OnCall) -> None:
    """Negative control."""
    assert [each.title for each in slow.minutes(65, every=5)] == ["CRITICAL: orders: checkpoint duration"] * 2


def test_an_evaluation_that_began_before_the_stop_opens_nothing(slow: OnCall, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window was read while the stream ran; the stop was requested while the checks ran."""
    keep = slow.monitor._keep

    def stopped_meanwhile(*given: object) -> object:
        slow.want(Desired.STOPPED)
        return keep(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(slow.monitor, "_keep", stopped_meanwhile)
    assert slow.minutes(1) == []
    assert slow.store.incidents.open() == ()


def test_an_incident_that_was_opened_after_the_stop_is_not_sent_and_is_resolved(slow: OnCall) -> None:
    """Supervision, a broken file: whatever noticed it had not heard of the stop."""
    slow.want(Desired.STOPPED)
    for check in (SUPERVISION, CONFIGURATION):
        open_incident(slow.store.incidents, "orders", "out of budget", "read the log", slow.now, check=check)
    slow.notify()
    assert slow.received == []
    slow.minutes(1)
    assert slow.store.incidents.open() == ()


def test_the_incident_of_a_query_of_a_stopped_stream_is_resolved(slow: OnCall) -> None:
    open_incident(slow.store.incidents, "orders/clicks", "late", "", slow.now, check="backlog")
    slow.want(Desired.STOPPED)
    slow.minutes(1)
    assert slow.store.incidents.open() == ()


def test_a_failed_drill_stays_an_incident_of_a_stopped_stream(slow: OnCall) -> None:
    """Negative control: it says nothing about the running stream."""
    slow.want(Desired.STOPPED)
    open_incident(slow.store.incidents, "orders", "2 rows were lost", "", slow.now, check=f"{DRILL}kill_orders")
    slow.minutes(1)
    assert [each.check for each in slow.store.incidents.open()] == [f"{DRILL}kill_orders"]


def test_a_stop_resolves_the_incidents_without_an_evaluation(slow: OnCall, tmp_path: Path) -> None:
    """The health DAG may be paused."""
    slow.minutes(1)
    fleet = Fleet(slow.store, tmp_path / "data", clock=lambda: slow.now)
    slow.store.drivers.exited("orders-1", ExitRecord(kind=ExitKind.KILLED, ended_at=slow.now))
    fleet.request_stop("orders", requested_by="ann", reason="new schema")
    assert slow.store.incidents.open() == ()
    (ended,) = slow.store.incidents.ended(slow.now)
    assert ended.reason == "ann stopped the stream: new schema"


def test_a_dead_driver_of_a_paused_dag_is_one_message_within_one_evaluation(dead: OnCall) -> None:
    (message,) = dead.minutes(1)
    assert message.title == "CRITICAL: orders: driver down"
    assert "the DAG stream_orders is paused" in message.body
    assert "Unpause the DAG stream_orders" in message.body
    assert dead.minutes(60, every=5) == []
    incidents = dead.store.incidents.open("orders")
    assert {each.check for each in incidents if each.is_root} == {"driver_down"}
    assert {"progress_stalled", "backlog"} <= {each.check for each in incidents if not each.is_root}


def test_without_airflow_the_cause_is_that_nothing_restarts_the_driver(dead: OnCall) -> None:
    dead.monitor = HealthMonitor(dead.store)
    (message,) = dead.minutes(1)
    assert "nothing restarts it: test started it, and no supervisor followed it" in message.body
    assert "streamwarden start orders" in message.body


def test_a_supervised_driver_that_is_restarted_in_time_is_no_incident(dead: OnCall) -> None:
    dead.monitor = HealthMonitor(dead.store, paused=lambda _: False)
    dead.store.drivers.event(supervised("orders-1", Supervisor.DAG, T0 - 500))
    assert [each.incident.check for each in dead.minutes(1) if each.incident] == ["backlog"]  # the 450 files wait


def test_when_the_cause_ends_its_consequences_end_with_it(dead: OnCall) -> None:
    dead.minutes(5)
    dead.stream.drive(me(), number=2)
    for file in dead.stream.input.glob("new-*"):
        file.unlink()
    messages = []
    for minute in range(20):
        first = 20 + 6 * minute
        dead.stream.run(range(first, first + 6), until=dead.now)
        messages += dead.minutes(1)
    (message,) = messages
    assert message.title == "RESOLVED: orders: driver down"
    assert dead.store.incidents.open() == ()


def test_a_consequence_that_outlives_its_cause_alarms_a_quarter_of_an_hour_later(dead: OnCall) -> None:
    """The driver is back, and the backlog stays."""
    dead.minutes(5)
    dead.stream.drive(me(), number=2)
    titles = []
    for minute in range(20):
        first = 20 + 6 * minute
        dead.stream.run(range(first, first + 6), until=dead.now)
        titles += [(minute, each.title) for each in dead.minutes(1)]
    assert titles[0] == (2, "RESOLVED: orders: driver down")
    ((minute, title),) = titles[1:]
    assert (title, minute) == ("CRITICAL: orders: backlog", 18)
