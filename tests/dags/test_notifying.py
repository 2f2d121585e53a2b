"""Notifications through Airflow's notifiers: sent once, also when a channel fails or a callback runs twice."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamwarden.airflow.notifying import (
    FailureNotifier,
    OutageNotifier,
    RecoveryNotifier,
    StreamwardenNotifier,
    send_now,
)
from streamwarden.config.notifications import FILE, importable, load_notifications
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.errors import ConfigError
from streamwarden.health.incidents.stream_incidents import close_incident, open_incident
from streamwarden.services.incidents.muting import mute
from streamwarden.services.workspace import Workspace
from support.airflow.harness import REPOSITORY
from support.servers.inbox import Inbox

RECORDING = "support.airflow.recording_notifier.RecordingNotifier"
UNREACHABLE = "support.airflow.recording_notifier.UnreachableNotifier"


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
    assert len(send_now(space, {}, time.time()).sent) == 1
    assert send_now(space, {}, time.time()).sent == ()
    notifier = StreamwardenNotifier(project=str(space.project))
    notifier({})
    notifier({})
    assert heard.read_text().splitlines() == ["CRITICAL: s: supervision"]


def test_its_end_is_reported_too_and_once(space: Workspace) -> None:
    """A driver runs again."""
    heard = configure(space, RECORDING)
    send_now(space, {}, time.time())
    close_incident(space.store.incidents, "s", time.time())
    send_now(space, {}, time.time())
    send_now(space, {}, time.time())
    assert heard.read_text().splitlines() == ["CRITICAL: s: supervision", "RESOLVED: s: supervision"]


def test_three_hundred_ends_at_once_are_all_sent(space: Workspace) -> None:
    """A broker comes back, and every stream with it."""
    heard = configure(space, RECORDING)
    streams = [f"s{number}" for number in range(300)]
    for stream in streams:
        open_incident(space.store.incidents, stream, "out of budget", "read the log", time.time())
    send_now(space, {}, time.time())
    for stream in streams:
        close_incident(space.store.incidents, stream, time.time())
    assert len(send_now(space, {}, time.time()).sent) == 300
    assert sum(line.startswith("RESOLVED") for line in heard.read_text().splitlines()) == 300


def test_a_channel_that_fails_stops_no_other_and_is_an_incident(space: Workspace) -> None:
    """The other channel sends the message once, and in the next round that its neighbour does not accept messages."""
    heard = configure(space, UNREACHABLE, RECORDING)
    report = send_now(space, {}, time.time())
    assert [channel for channel, _ in report.sent] == ["RecordingNotifier"]
    assert "chat.example is down" in report.refused[0].reason
    send_now(space, {}, time.time() + 120)
    assert heard.read_text().splitlines() == [
        "CRITICAL: s: supervision",
        "WARNING: all streams: channel UnreachableNotifier",
    ]


def test_without_a_channel_nothing_is_claimed(space: Workspace) -> None:
    """The incident is sent as soon as somebody configures one."""
    send_now(space, {}, time.time())
    heard = configure(space, RECORDING)
    send_now(space, {}, time.time())
    assert len(heard.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "path", ["no.such.module.Notifier", "support.airflow.recording_notifier.Nobody", "pathlib.Path", "x"]
)
def test_a_path_that_is_not_a_notifier_stops_no_other_channel(space: Workspace, path: str) -> None:
    """`validate` names file, key, value and what is allowed."""
    heard = configure(space, path, RECORDING)
    assert len(send_now(space, {}, time.time()).refused) == 1
    assert heard.read_text().splitlines() == ["CRITICAL: s: supervision"]
    with pytest.raises(ConfigError, match=r"airflow\[0\].notifier") as caught:
        load_notifications(space.project)
    assert path in str(caught.value)
    assert "BaseNotifier" in str(caught.value)


def test_the_notifier_of_the_shipped_example_can_be_imported() -> None:
    """tests/unit/config/test_notifications.py holds that nothing else is wrong with the example."""
    (path,) = re.findall(r"notifier: (\S+)", (REPOSITORY / FILE).read_text())
    assert importable(path)


def test_a_broken_file_does_not_silence_the_urls_of_the_environment(
    space: Workspace, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The incident of the stream is sent, and that the file is broken."""
    (space.project / "config/notifications.yaml").write_text("resend_interval: soon\n")
    monkeypatch.setenv("STREAMWARDEN_NOTIFY_URLS", inbox.url)
    send_now(space, {}, time.time())
    titles = {message["title"] for message in inbox.messages}
    assert titles == {"CRITICAL: s: supervision", "WARNING: all streams: configuration"}


def test_no_file_is_correct(space: Workspace) -> None:
    """Nothing is configured, nothing is sent."""
    assert load_notifications(space.project).airflow == ()


def context(dag_id: str, task_id: str, run_id: str = "scheduled__2026-01-01T00:00:00+00:00") -> dict[str, Any]:
    """What Airflow gives to a callback."""
    log = f"http://localhost:8080/dags/{dag_id}/runs/x/tasks/{task_id}"
    ti = SimpleNamespace(dag_id=dag_id, task_id=task_id, run_id=run_id, log_url=log)
    return {"ti": ti, "exception": RuntimeError("the disk is full\nin detail")}


@pytest.fixture
def quiet(space: Workspace) -> Workspace:
    """The project without an open incident."""
    close_incident(space.store.incidents, "s", time.time())
    return space


def test_a_failed_task_is_reported_once_with_its_log_and_its_run(
    quiet: Workspace, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow runs the callback twice."""
    monkeypatch.setenv("STREAMWARDEN_NOTIFY_URLS", inbox.url)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/")
    for _ in range(2):
        FailureNotifier(str(quiet.project))(context("stop_stream", "stop"))
    (message,) = inbox.messages
    assert message["title"] == "FAILED: DAG stop_stream"
    assert "the disk is full" in message["message"]
    assert "Log: http://localhost:8080/dags/stop_stream/runs/x/tasks/stop" in message["message"]
    assert "Run: https://airflow.example/dags/stop_stream/runs/scheduled__2026" in message["message"]


def test_a_failed_task_that_an_incident_explains_sends_the_incident_alone(
    space: Workspace, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMWARDEN_NOTIFY_URLS", inbox.url)
    FailureNotifier(str(space.project))(context("stream_s", "run"))
    assert [message["title"] for message in inbox.messages] == ["CRITICAL: s: supervision"]


def test_a_failed_run_of_a_muted_stream_is_not_sent_and_any_other_is(
    quiet: Workspace, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The DAGs of the stream, of its audit and of its drill; the DAG of a drill without a file belongs to no stream."""
    monkeypatch.setenv("STREAMWARDEN_NOTIFY_URLS", inbox.url)
    drill = "name: kill\nstream: counted\nfault: {kind: kill_driver}\n"
    (quiet.project / "config/drills/kill.yaml").write_text(drill)
    now = time.time()
    mute(quiet.store, quiet.catalog(), "counted", until=now + 60, who="ann", reason="a new disk", now=now)
    for dag in ("stream_counted", "audit_counted", "drill_kill", "drill_removed", "stop_stream"):
        FailureNotifier(str(quiet.project))(context(dag, "run"))
    assert [message["title"] for message in inbox.messages] == ["FAILED: DAG drill_removed", "FAILED: DAG stop_stream"]


def test_a_drill_that_deviates_is_sent_when_its_report_fails(
    quiet: Workspace, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a minute later, and the health DAG does not send it again."""
    monkeypatch.setenv("STREAMWARDEN_NOTIFY_URLS", inbox.url)
    drill = "name: kill\nstream: counted\nfault: {kind: kill_driver}\n"
    (quiet.project / "config/drills/kill.yaml").write_text(drill)
    run = DrillRun(run_id="kill-1", drill="kill", stream="counted", started_at=time.time(), ended_at=time.time())
    quiet.store.journals.save(replace(run, status=DrillStatus.COMPLETED, deviated=True, reason="3 lost"))
    FailureNotifier(str(quiet.project))(context("drill_kill", "report"))
    send_now(quiet, {}, time.time())
    (message,) = inbox.messages
    assert message["title"] == "CRITICAL: counted: drill kill"
    assert "the drill kill deviated: 3 lost" in message["message"]
    assert "/streamwarden/drills/kill-1" in message["message"]


def test_a_task_that_runs_each_minute_is_one_incident_until_it_works(
    quiet: Workspace, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMWARDEN_NOTIFY_URLS", inbox.url)
    for minute in range(3):
        OutageNotifier(str(quiet.project))(context("health", "evaluate", f"run-{minute}"))
    RecoveryNotifier(str(quiet.project))(context("health", "evaluate", "run-3"))
    send_now(quiet, {}, time.time())
    assert [message["title"] for message in inbox.messages] == [
        "CRITICAL: all streams: evaluation",
        "RESOLVED: all streams: evaluation",
    ]
