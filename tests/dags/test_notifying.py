"""Notifications through Airflow's notifiers: sent once, also when a channel fails or a callback runs twice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from streamwarden.airflow.notifying import StreamwardenNotifier, send_due
from streamwarden.config.notifications import load_notifications
from streamwarden.errors import ConfigError
from streamwarden.health.stream_incidents import close_incident, open_incident
from streamwarden.services.workspace import Workspace

RECORDING = "support.recording_notifier.RecordingNotifier"
UNREACHABLE = "support.recording_notifier.UnreachableNotifier"


@pytest.fixture
def space(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A project whose stream `s` stays down, with an incident that was not notified."""
    monkeypatch.delenv("STREAMWARDEN_NOTIFY_URLS", raising=False)
    open_incident(space.store.incidents, "s", "out of budget", "read the log", time.time())
    return space


def configure(space: Workspace, *notifiers: str) -> Path:
    """Write notifications.yaml; returns the file that the recording ones write to."""
    heard = space.project / "heard.txt"
    lines = ["resend_interval: 1h", "airflow:"]
    for path in notifiers:
        lines.append(f"  - notifier: {path}")
        if path == RECORDING:
            lines.append(f"    kwargs: {{text: '{{{{ notification.title }}}}', file: {heard}}}")
    (space.project / "config" / "notifications.yaml").write_text("\n".join(lines) + "\n")
    return heard


def test_an_incident_is_sent_once_within_its_interval(space: Workspace) -> None:
    """Templates are rendered; a second tick and a callback that runs twice send nothing."""
    heard = configure(space, RECORDING)
    assert len(send_due(space, {}, time.time()).sent) == 1
    assert send_due(space, {}, time.time()).sent == ()
    notifier = StreamwardenNotifier(project=str(space.project))
    notifier({})
    notifier({})
    assert heard.read_text().splitlines() == ["CRITICAL: s: supervision"]


def test_its_end_is_reported_too_and_once(space: Workspace) -> None:
    """A driver runs again."""
    heard = configure(space, RECORDING)
    send_due(space, {}, time.time())
    close_incident(space.store.incidents, "s", time.time())
    send_due(space, {}, time.time())
    send_due(space, {}, time.time())
    assert heard.read_text().splitlines() == ["CRITICAL: s: supervision", "RESOLVED: s: supervision"]


def test_three_hundred_ends_at_once_are_all_sent(space: Workspace) -> None:
    """A broker comes back, and every stream with it."""
    heard = configure(space, RECORDING)
    streams = [f"s{number}" for number in range(300)]
    for stream in streams:
        open_incident(space.store.incidents, stream, "out of budget", "read the log", time.time())
    send_due(space, {}, time.time())
    for stream in streams:
        close_incident(space.store.incidents, stream, time.time())
    assert len(send_due(space, {}, time.time()).sent) == 300
    assert sum(line.startswith("RESOLVED") for line in heard.read_text().splitlines()) == 300


def test_one_channel_that_fails_does_not_make_the_other_tell_it_twice(space: Workspace) -> None:
    """One channel sent it; the failure is in the log."""
    heard = configure(space, UNREACHABLE, RECORDING)
    assert len(send_due(space, {}, time.time()).sent) == 1
    send_due(space, {}, time.time() + 120)
    assert len(heard.read_text().splitlines()) == 1


def test_what_no_channel_accepted_is_due_again_soon(space: Workspace) -> None:
    """All channels are down: it failed, it says why, and it is tried again after a minute, not after an hour."""
    configure(space, UNREACHABLE)
    now = time.time()
    delivery = send_due(space, {}, now)
    assert delivery.sent == ()
    assert "chat.example is down" in delivery.failed[0][1]
    assert send_due(space, {}, now + 30).failed == ()
    assert len(send_due(space, {}, now + 61).failed) == 1


def test_without_a_channel_nothing_is_claimed(space: Workspace) -> None:
    """The incident is sent as soon as somebody configures one."""
    send_due(space, {}, time.time())
    heard = configure(space, RECORDING)
    send_due(space, {}, time.time())
    assert len(heard.read_text().splitlines()) == 1


@pytest.mark.parametrize("path", ["no.such.module.Notifier", "support.recording_notifier.Nobody", "pathlib.Path", "x"])
def test_a_path_that_is_no_notifier_is_named(space: Workspace, path: str) -> None:
    """File, key, value and what is allowed."""
    configure(space, path)
    with pytest.raises(ConfigError, match="notifications") as caught:
        send_due(space, {}, time.time())
    assert path in str(caught.value)
    assert "BaseNotifier" in str(caught.value)


def test_no_file_is_no_error(space: Workspace) -> None:
    """Nothing is configured, nothing is sent."""
    assert load_notifications(space.project).airflow == ()
