"""Notifications through a real HTTP server: sent once, sent again after the interval, never with a secret in a log."""

from __future__ import annotations

import json
import logging
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.errors import ConfigError
from streamwarden.health.incidents.consequences import IncidentGroup
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status
from streamwarden.services.notifying.links import Links
from streamwarden.services.notifying.messages import Notification, compose
from streamwarden.services.notifying.notifiers import (
    URLS_VARIABLE,
    AppriseNotifier,
    Channel,
    NotificationError,
    apprise_channels,
)
from streamwarden.services.notifying.sending import SendReport, send_due
from support.children import Line, children
from support.servers.inbox import Inbox

HOUR = 3600.0
T0 = 1_800_000_000.0


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store(store_url) as opened:
        yield opened


def incident(**changes: Any) -> Incident:
    settings: dict[str, Any] = {
        "incident_id": "i1",
        "stream": "orders",
        "check": "checkpoint_duration",
        "status": Status.WARNING,
        "opened_at": T0,
        "updated_at": T0,
        "reason": "checkpointing a batch took 35 s (warning from 10 s, critical above 30 s)",
        "advice": "Put the checkpoint on faster storage.",
    }
    return Incident(**{**settings, **changes})


def tick(store: Store, send: Any, now: float) -> SendReport:
    """What the health DAG does each minute: send what is due at `now`."""
    return send_due(store, [Channel("json-1", send)], now, resend_interval=HOUR)


def message(**changes: Any) -> Notification:
    return compose(IncidentGroup(incident(**changes)), T0 + 60, Links())


def test_a_message_says_at_3_am_what_is_wrong_and_what_to_do() -> None:
    links = Links(page="https://airflow.example/dags/stream_orders", log="/data/drivers/orders/orders-1/driver.log")
    message = compose(IncidentGroup(incident(status=Status.CRITICAL, peak=Status.CRITICAL)), T0 + 7_500, links)
    assert message.title == "CRITICAL: orders: checkpoint duration"
    assert message.body.splitlines() == [
        "orders: checkpointing a batch took 35 s (warning from 10 s, critical above 30 s)",
        "Open for 2h 5m, since 2027-01-15 08:00 UTC.",
        "What to do: Put the checkpoint on faster storage.",
        "Details: streamwarden check orders; streamwarden status orders",
        "Page: https://airflow.example/dags/stream_orders",
        "Log: /data/drivers/orders/orders-1/driver.log",
        "Incident i1",
    ]


def test_the_end_is_reported_with_how_long_it_took_and_how_bad_it_was() -> None:
    ended = incident(status=Status.OK, peak=Status.CRITICAL, resolved_at=T0 + 5_400, reason="took 3 s")
    message = compose(IncidentGroup(ended), T0 + 5_400, Links())
    assert message.title == "RESOLVED: orders: checkpoint duration"
    assert "The incident of orders is resolved: took 3 s" in message.body
    assert "lasted 1h 30m" in message.body
    assert "its worst status was CRITICAL" in message.body


def test_apprise_delivers_to_a_web_hook(inbox: Inbox) -> None:
    AppriseNotifier(inbox.url)(message(status=Status.CRITICAL))
    (got,) = inbox.messages
    assert got["title"] == "CRITICAL: orders: checkpoint duration"
    assert "What to do" in got["message"]
    assert got["type"] == "failure"


def test_an_incident_is_sent_once_and_again_after_the_resend_interval(inbox: Inbox, store: Store) -> None:
    """A tick a minute for two and a half hours: messages at 0, 60 and 120 minutes."""
    store.incidents.save(incident())
    notifier = AppriseNotifier(inbox.url)
    sent_at = [minute for minute in range(150) if tick(store, notifier, T0 + 60 * minute).sent]
    assert sent_at == [0, 60, 120]
    assert len(inbox.messages) == 3


def test_an_escalation_is_not_held_back_and_an_end_is_reported_once(inbox: Inbox, store: Store) -> None:
    notifier = AppriseNotifier(inbox.url)
    store.incidents.save(incident())
    tick(store, notifier, T0)
    for minute, status in enumerate([Status.CRITICAL, Status.WARNING, Status.CRITICAL], start=1):
        (known,) = store.incidents.open()
        store.incidents.save(replace(known, status=status))
        tick(store, notifier, T0 + 60 * minute)
    (known,) = store.incidents.open()
    store.incidents.save(replace(known, status=Status.OK, resolved_at=T0 + 300))
    for minute in range(5, 200):
        tick(store, notifier, T0 + 60 * minute)
    titles = [message["title"].split(":")[0] for message in inbox.messages]
    assert titles == ["WARNING", "CRITICAL", "RESOLVED"]


def test_a_message_that_did_not_go_out_is_tried_again_within_a_minute(inbox: Inbox, store: Store) -> None:
    """The channel is down for ten minutes: each tick tries, the first that succeeds is the only message."""
    store.incidents.save(incident())
    notifier = AppriseNotifier(inbox.url)
    inbox.status = 503
    assert tick(store, notifier, T0).refused
    assert tick(store, notifier, T0 + 30) == SendReport()  # not a storm either
    assert all(tick(store, notifier, T0 + 60 * minute).refused for minute in range(1, 10))
    inbox.status = 200
    assert tick(store, notifier, T0 + 600).sent
    assert not tick(store, notifier, T0 + 660).sent
    assert len(inbox.messages) == 1


def test_an_end_that_could_not_be_sent_is_sent_later(inbox: Inbox, store: Store) -> None:
    store.incidents.save(incident())
    notifier = AppriseNotifier(inbox.url)
    tick(store, notifier, T0)
    (known,) = store.incidents.open()
    store.incidents.save(replace(known, status=Status.OK, resolved_at=T0 + 300))
    inbox.status = 500
    assert tick(store, notifier, T0 + 300).refused
    inbox.status = 200
    assert tick(store, notifier, T0 + 360).sent
    assert not tick(store, notifier, T0 + 420).sent
    assert [message["title"].split(":")[0] for message in inbox.messages] == ["WARNING", "RESOLVED"]


def test_two_processes_at_once_send_each_incident_once(inbox: Inbox, store: Store, store_url: str) -> None:
    """Both have read the same 20 unsent incidents before either sends: 20 messages go out, not 40."""
    for number in range(20):
        store.incidents.save(incident(incident_id=f"i{number}", stream=f"stream_{number}"))
    hook = f"http://127.0.0.1:{inbox.port}/"  # no Apprise: a child would import it again

    def race(line: Line) -> None:
        waiting = True

        def post(notification: Notification) -> None:
            nonlocal waiting
            if waiting:  # both have read what is due before either has sent its second message
                waiting = False
                line.say("sending")
                line.wait()
            urllib.request.urlopen(hook, json.dumps({"title": notification.title}).encode(), timeout=30).close()

        with Store(store_url, busy_timeout=30) as own:
            done = send_due(own, [Channel("json-1", post)], T0, resend_interval=HOUR)
        line.say((len(done.sent), done.taken, len(done.refused)))

    with children(2, race) as racers:
        assert [racer.hear() for racer in racers] == ["sending", "sending"]
        for racer in racers:
            racer.tell("go")
        counts = [racer.hear() for racer in racers]
    assert sum(sent for sent, _, _ in counts) == 20
    assert sum(taken for _, taken, _ in counts) in (19, 20)  # 19: one read what is due after the other's first claim
    assert len({message["title"] for message in inbox.messages}) == len(inbox.messages) == 20


def test_each_url_of_the_environment_is_a_channel(inbox: Inbox) -> None:
    """Named after its kind and its position, so that no name holds a secret."""
    assert apprise_channels({}) == ()
    urls = f" {inbox.url},mailto://user:s3cret@host \n{inbox.url} nonsense"
    channels = apprise_channels({URLS_VARIABLE: urls})
    assert [channel.name for channel in channels] == ["json-1", "mailto-2", "json-3", "url-4"]
    for channel in (channels[0], channels[2]):
        channel.send(message())
    assert len(inbox.messages) == 2


def test_no_secret_of_a_url_reaches_a_log_or_an_error(inbox: Inbox, caplog: pytest.LogCaptureFixture) -> None:
    """Good, refused and nonsensical URLs, with every log level on."""
    caplog.set_level(logging.DEBUG)
    notifier = AppriseNotifier(inbox.url)
    notifier(message())
    inbox.status = 403
    with pytest.raises(NotificationError) as refused:
        notifier(message())
    with pytest.raises(ConfigError) as wrong:
        AppriseNotifier("nonsense://user:s3cret@host")(message())
    for text in (caplog.text, str(refused.value), str(wrong.value), repr(notifier), repr(refused.value)):
        assert "s3cret" not in text
    assert "URL 1 of 1" in str(wrong.value)


def test_a_url_that_is_wrong_stops_no_other(inbox: Inbox, store: Store) -> None:
    store.incidents.save(incident())
    channels = apprise_channels({URLS_VARIABLE: f"nonsense://x {inbox.url}"})
    report = send_due(store, channels, T0, resend_interval=HOUR)
    assert [refusal.channel for refusal in report.refused] == ["nonsense-1"]
    assert len(inbox.messages) == 1
