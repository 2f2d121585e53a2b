"""Each message reaches each channel once: whatever fails, and whoever else sends at the same time."""

from __future__ import annotations

from dataclasses import replace

from streamwarden.adapters.store import Store
from streamwarden.health.check_relations import EVERYWHERE, SUPERVISION
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.stream_incidents import resolve
from streamwarden.health.verdict import Status
from streamwarden.services.notifying.messages import Notification
from streamwarden.services.notifying.notifiers import Channel
from streamwarden.services.notifying.sending import send_due
from support.servers.pagers import Pager, round_of

T0 = 1_800_000_000.0
HOUR = 3600.0
DOWN = Incident(
    incident_id="i1",
    stream="orders",
    check=SUPERVISION,
    status=Status.CRITICAL,
    peak=Status.CRITICAL,
    opened_at=T0,
    updated_at=T0,
    reason="out of budget",
    advice="read the log",
)


def test_a_channel_that_fails_neither_stops_the_others_nor_makes_them_send_twice(store: Store) -> None:
    """It gets the message in the next round in which it works, alone."""
    store.incidents.save(DOWN)
    broken, well = Pager("chat", broken=True), Pager("pager")
    report = round_of(store, broken, well)
    assert [channel for channel, _ in report.sent] == ["pager"]
    assert [refusal.channel for refusal in report.refused] == ["chat"]
    assert round_of(store, broken, well, at=T0 + 60).refused
    broken.broken = False
    round_of(store, broken, well, at=T0 + 120)
    round_of(store, broken, well, at=T0 + 180)
    assert broken.titles == well.titles == ["CRITICAL: orders: supervision"]


def test_a_refusal_names_no_secret_of_a_url(store: Store) -> None:
    store.incidents.save(DOWN)
    (refusal,) = round_of(store, Pager(broken=True)).refused
    assert refusal.reason == "ConnectionError: (URL) is down"


def test_a_channel_that_is_down_costs_three_tries_a_round(store: Store) -> None:
    """Three hundred streams are down, and so is the chat server: each try takes seconds."""
    for number in range(300):
        store.incidents.save(replace(DOWN, incident_id=f"i{number}", stream=f"s{number}"))
    broken = Pager(broken=True)
    round_of(store, broken)
    assert broken.tries == 3
    broken.broken = False
    assert len(round_of(store, broken, at=T0 + 60).sent) == 300


def test_one_message_that_is_always_refused_does_not_keep_back_the_others(store: Store) -> None:
    for number in range(5):
        store.incidents.save(replace(DOWN, incident_id=f"i{number}", stream=f"s{number}"))
    heard: list[str] = []

    def choosy(message: Notification) -> None:
        if message.subject in ("i0", "i1", "i2"):
            raise ValueError("too long")
        heard.append(message.subject)

    for minute in range(2):
        send_due(store, [Channel("choosy", choosy)], T0 + 60 * minute, resend_interval=HOUR)
    assert heard == ["i3", "i4"]


def test_channel_added_later_is_notified_of_open_incidents(store: Store) -> None:
    """And of no end of something that it never heard of."""
    store.incidents.save(DOWN)
    store.incidents.save(replace(DOWN, incident_id="i2", stream="clicks", resolved_at=T0 + 1, status=Status.OK))
    first, second = Pager("first"), Pager("second")
    round_of(store, first)
    round_of(store, first, second, at=T0 + 60)
    assert second.titles == ["CRITICAL: orders: supervision"]
    assert first.titles == second.titles


def test_a_message_lists_the_consequences_and_they_are_not_sent_themselves(store: Store) -> None:
    store.incidents.save(DOWN)
    stalled = replace(DOWN, incident_id="i2", check="progress_stalled", reason="no commit for 5m", consequence_of="i1")
    store.incidents.save(stalled)
    pager = Pager()
    round_of(store, pager)
    assert pager.titles == ["CRITICAL: orders: supervision"]
    assert "Consequence: CRITICAL orders: progress stalled: no commit for 5m" in pager.bodies[0]


def test_the_open_incident_of_a_drill_is_sent_again_after_a_day_and_not_after_an_hour(store: Store) -> None:
    """It stays open until the drill runs again, which may be in a week."""
    store.incidents.save(replace(DOWN, check="drill_kill_driver"))
    pager = Pager()
    for hours in (0, 1, 2, 23, 25):
        round_of(store, pager, at=T0 + hours * HOUR)
    assert len(pager.titles) == 2


def test_an_event_is_sent_once_to_each_channel(store: Store) -> None:
    event = Notification(subject="run:health:r1", status=Status.CRITICAL, title="FAILED: DAG health", body="why")
    first, second = Pager("first", broken=True), Pager("second")
    round_of(store, first, second, events=[event])
    first.broken = False
    round_of(store, first, second, at=T0 + 60, events=[event])
    round_of(store, first, second, at=T0 + 120, events=[event])
    assert first.titles == second.titles == ["FAILED: DAG health"]


def test_an_incident_of_no_stream_is_named_so(store: Store) -> None:
    store.incidents.save(replace(DOWN, stream=EVERYWHERE, check="airflow"))
    pager = Pager()
    round_of(store, pager)
    assert pager.titles == ["CRITICAL: all streams: airflow"]


def test_the_end_is_sent_once_to_each_channel_that_heard_of_the_beginning(store: Store) -> None:
    store.incidents.save(DOWN)
    pager = Pager()
    round_of(store, pager)
    store.incidents.save(resolve(DOWN, "a driver runs again", T0 + 90))
    for minute in (2, 3, 4):
        round_of(store, pager, at=T0 + 60 * minute)
    assert pager.titles == ["CRITICAL: orders: supervision", "RESOLVED: orders: supervision"]
    assert "It lasted 1m 30s" in pager.bodies[1]
