"""Notifications through a real HTTP server: said once, said again after the interval, never with a secret in a log."""

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
from streamwarden.health.consequences import grouped
from streamwarden.health.due import due
from streamwarden.health.incident import Incident
from streamwarden.health.verdict import Status
from streamwarden.services.monitoring.notifiers import (
    URLS_VARIABLE,
    AppriseNotifier,
    Notification,
    NotificationDelivery,
    NotificationError,
    compose,
    deliver,
    due_notifications,
)
from support.children import Line, children
from support.inbox import Inbox

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


def tick(store: Store, send: Any, now: float) -> NotificationDelivery:
    """What the health DAG does each minute: send what is due at `now`."""
    return deliver(due_notifications(store.incidents, now, HOUR), send, store.incidents, now=now, resend_interval=HOUR)


def test_a_message_says_at_3_am_what_is_wrong_and_what_to_do() -> None:
    message = compose(incident(status=Status.CRITICAL, peak=Status.CRITICAL), T0 + 7_500)
    assert message.title == "CRITICAL: orders: checkpoint duration"
    assert message.body.splitlines() == [
        "orders: checkpointing a batch took 35 s (warning from 10 s, critical above 30 s)",
        "Open for 2h 5m, since 2027-01-15 08:00 UTC.",
        "What to do: Put the checkpoint on faster storage.",
        "Details: streamwarden check orders; streamwarden status orders",
        "Incident i1",
    ]


def test_the_end_is_reported_with_how_long_it_took_and_how_bad_it_was() -> None:
    ended = incident(status=Status.OK, peak=Status.CRITICAL, resolved_at=T0 + 5_400, reason="took 3 s")
    message = compose(ended, T0 + 5_400)
    assert message.title == "RESOLVED: orders: checkpoint duration"
    assert "The incident of orders is resolved: took 3 s" in message.body
    assert "lasted 1h 30m" in message.body
    assert "its worst status was CRITICAL" in message.body


def test_apprise_delivers_to_a_web_hook(inbox: Inbox) -> None:
    AppriseNotifier([inbox.url])(compose(incident(status=Status.CRITICAL), T0 + 60))
    (message,) = inbox.messages
    assert message["title"] == "CRITICAL: orders: checkpoint duration"
    assert "What to do" in message["message"]
    assert message["type"] == "failure"


def test_an_incident_is_sent_once_and_again_after_the_resend_interval(inbox: Inbox, store: Store) -> None:
    """A tick a minute for two and a half hours: messages at 0, 60 and 120 minutes."""
    store.incidents.save(incident())
    notifier = AppriseNotifier([inbox.url])
    sent_at = [minute for minute in range(150) if tick(store, notifier, T0 + 60 * minute).sent]
    assert sent_at == [0, 60, 120]
    assert len(inbox.messages) == 3


def test_an_escalation_is_not_held_back_and_an_end_is_reported_once(inbox: Inbox, store: Store) -> None:
    notifier = AppriseNotifier([inbox.url])
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
    notifier = AppriseNotifier([inbox.url])
    inbox.status = 503
    first = tick(store, notifier, T0)
    assert [reason for _, reason in first.failed]
    assert not first.sent
    assert tick(store, notifier, T0 + 30) == NotificationDelivery()  # not a storm either
    assert all(tick(store, notifier, T0 + 60 * minute).failed for minute in range(1, 10))
    inbox.status = 200
    assert tick(store, notifier, T0 + 600).sent
    assert not tick(store, notifier, T0 + 660).sent
    assert len(inbox.messages) == 1


def test_an_end_that_could_not_be_sent_is_sent_later(inbox: Inbox, store: Store) -> None:
    store.incidents.save(incident())
    notifier = AppriseNotifier([inbox.url])
    tick(store, notifier, T0)
    (known,) = store.incidents.open()
    store.incidents.save(replace(known, status=Status.OK, resolved_at=T0 + 300))
    inbox.status = 500
    assert tick(store, notifier, T0 + 300).failed
    inbox.status = 200
    assert tick(store, notifier, T0 + 360).sent
    assert not tick(store, notifier, T0 + 420).sent
    assert [message["title"].split(":")[0] for message in inbox.messages] == ["WARNING", "RESOLVED"]


def test_a_stale_view_of_an_incident_sends_nothing_twice(inbox: Inbox, store: Store) -> None:
    """Two processes saw the same unsent incident; the one that claims later learns that it is taken."""
    store.incidents.save(incident())
    notifier = AppriseNotifier([inbox.url])
    seen = [compose(each, T0) for each in store.incidents.open()]
    first = deliver(seen, notifier, store.incidents, now=T0, resend_interval=HOUR)
    second = deliver(seen, notifier, store.incidents, now=T0 + 1, resend_interval=HOUR)
    assert (len(first.sent), len(second.sent), len(second.taken)) == (1, 0, 1)


def test_two_processes_at_once_send_each_incident_once(inbox: Inbox, store: Store, store_url: str) -> None:
    """Both have read the same 20 unsent incidents before either sends: 20 messages go out, not 40."""
    for number in range(20):
        store.incidents.save(incident(incident_id=f"i{number}", stream=f"stream_{number}"))
    hook = f"http://127.0.0.1:{inbox.port}/"  # no Apprise: a child would import it again

    def post(notification: Notification) -> None:
        urllib.request.urlopen(hook, json.dumps({"title": notification.title}).encode(), timeout=30).close()

    def race(line: Line) -> None:
        with Store(store_url, busy_timeout=30) as own:
            waiting = [compose(each.root, T0) for each in due(grouped(own.incidents.open()), T0, HOUR)]
            line.say(len(waiting))
            line.wait()
            done = deliver(waiting, post, own.incidents, now=T0, resend_interval=HOUR)
        line.say((len(done.sent), len(done.taken), len(done.failed)))

    with children(2, race) as racers:
        assert [racer.hear() for racer in racers] == [20, 20]
        for racer in racers:
            racer.tell("go")
        counts = [racer.hear() for racer in racers]
    assert sum(sent for sent, _, _ in counts) == 20
    assert sum(taken for _, taken, _ in counts) == 20
    assert len({message["title"] for message in inbox.messages}) == len(inbox.messages) == 20


def test_urls_come_from_the_environment_and_none_means_no_notifier(inbox: Inbox) -> None:
    assert AppriseNotifier.from_environment({}) is None
    notifier = AppriseNotifier.from_environment({URLS_VARIABLE: f" {inbox.url},{inbox.url} \n{inbox.url}"})
    assert notifier is not None
    assert repr(notifier) == "AppriseNotifier(3 URLs)"
    notifier(compose(incident(), T0))
    assert len(inbox.messages) == 3


def test_no_secret_of_a_url_reaches_a_log_or_an_error(inbox: Inbox, caplog: pytest.LogCaptureFixture) -> None:
    """Good, refused and nonsensical URLs, with every log level on."""
    caplog.set_level(logging.DEBUG)
    notifier = AppriseNotifier([inbox.url])
    notifier(compose(incident(), T0))
    inbox.status = 403
    with pytest.raises(NotificationError) as refused:
        notifier(compose(incident(), T0))
    with pytest.raises(ConfigError) as wrong:
        AppriseNotifier(["nonsense://user:s3cret@host"])
    for text in (caplog.text, str(refused.value), str(wrong.value), repr(notifier), repr(refused.value)):
        assert "s3cret" not in text
    assert "URL 1 of 1" in str(wrong.value)


def test_one_deaf_channel_of_two_is_an_error(inbox: Inbox) -> None:
    deaf = Inbox()
    deaf.status = 500
    try:
        with pytest.raises(NotificationError):
            AppriseNotifier([inbox.url, deaf.url])(compose(incident(), T0))
    finally:
        deaf.close()
    assert len(inbox.messages) == 1


def test_any_callable_can_send(store: Store) -> None:
    """Airflow's notifiers are wrapped by the code that has a task's context."""
    store.incidents.save(incident())
    seen: list[Notification] = []
    assert tick(store, seen.append, T0).sent == tuple(seen)
