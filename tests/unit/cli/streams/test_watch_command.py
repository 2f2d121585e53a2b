"""`watch` and `notify test`: the evaluation and the notifications without Airflow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.health.evaluations import Evaluator
from streamwarden.health.incidents.stream_incidents import open_incident
from support.command_line import CommandLine
from support.servers.inbox import Inbox


def down(cli: CommandLine) -> None:
    """The stream `a` stays down."""
    cli.project.stream("a")
    with cli.store() as store:
        open_incident(store.incidents, "a", "out of budget", "read the log", time.time())


def test_one_round_judges_sends_and_is_recorded(
    cli: CommandLine, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    down(cli)
    monkeypatch.setenv("STREAMWARDEN_NOTIFY_URLS", inbox.url)
    cli.project.write("config/notifications.yaml", f"heartbeat_url: {inbox.http}/alive\n")
    answer = cli("watch", "--once")
    assert answer.code == Exit.OK
    assert "1 not judged" in answer.out
    assert "messages: 1 sent, 0 refused" in answer.out
    assert [message["title"] for message in inbox.messages] == ["CRITICAL: a: supervision"]
    assert inbox.visits == ["/alive"]
    with cli.store() as store:
        (record,) = store.evaluations.all()
    assert (record.evaluator, record.streams) == (Evaluator.WATCH, 1)
    assert "messages: 0 sent" in cli("watch", "--once").out


def test_a_channel_that_refuses_is_the_exit_code(
    cli: CommandLine, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    down(cli)
    inbox.status = 500
    monkeypatch.setenv("STREAMWARDEN_NOTIFY_URLS", inbox.url)
    answer = cli("watch", "--once")
    assert answer.code == Exit.BAD
    assert "not sent through json-1: CRITICAL: a: supervision" in answer.out


def test_a_watcher_that_can_send_nothing_says_so(cli: CommandLine) -> None:
    answer = cli("watch", "--once")
    assert answer.code == Exit.OK
    assert "no message can be sent: STREAMWARDEN_NOTIFY_URLS is not set" in answer.out


def test_an_interval_below_a_second_is_refused(cli: CommandLine) -> None:
    for interval in ("0", "soon"):
        answer = cli("watch", "--interval", interval)
        assert answer.code == Exit.USAGE


class Watcher:
    """`streamwarden watch` in a process, every second."""

    def __init__(self, cli: CommandLine, url: str, log: Path) -> None:
        self._log = log
        arguments = ["--project", str(cli.project.root), "--data", str(cli.project.data), "watch", "--interval", "1s"]
        environment = {**os.environ, "STREAMWARDEN_NOTIFY_URLS": url, "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "streamwarden.cli", *arguments]
        self.process = subprocess.Popen(command, env=environment, stdout=log.open("w"), stderr=subprocess.STDOUT)

    def wait_until(self, condition: Callable[[str], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition(self._log.read_text()):
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


def test_two_watchers_survive_an_outage_of_the_store_send_once_and_end_cleanly(
    cli: CommandLine, inbox: Inbox, tmp_path: Path
) -> None:
    """The store is unavailable for some rounds. Afterwards both evaluate again, and only new problems are sent."""
    down(cli)
    watchers = [Watcher(cli, inbox.url, tmp_path / f"{number}.log") for number in range(2)]
    try:
        for each in watchers:
            each.wait_until(lambda log: log.count("evaluated in") >= 2)
        store = cli.project.data / "streamwarden.db"
        hidden = store.rename(store.with_suffix(".hidden"))
        for each in watchers:
            each.wait_until(lambda log: "not evaluated" in log)
        hidden.rename(store)
        for each in watchers:
            each.wait_until(lambda log: "evaluated in" in log.rpartition("not evaluated")[2])
    finally:
        codes = [each.end() for each in watchers]
    assert codes == [0, 0]
    assert [message["title"] for message in inbox.messages] == ["CRITICAL: a: supervision"]


def test_a_test_message_goes_through_every_channel_and_each_answers_for_itself(
    cli: CommandLine, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = Inbox()
    deaf.close()
    monkeypatch.setenv("STREAMWARDEN_NOTIFY_URLS", f"{deaf.url} {inbox.url}")
    answer = cli("notify", "test")
    assert answer.code == Exit.BAD
    assert "refused json-1: STREAMWARDEN_NOTIFY_URLS: URL 1 of 2 did not accept" in answer.out
    assert "accepted json-2" in answer.out
    assert [message["title"] for message in inbox.messages] == ["TEST: Streamwarden"]
    assert cli("notify", "test", "--channel", "json-2").code == Exit.OK
    document = cli("notify", "test", "--json").json
    assert [each["channel"] for each in document["channels"]] == ["json-1", "json-2"]


def test_an_unknown_channel_and_no_channel_are_mistakes_of_the_configuration(
    cli: CommandLine, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = cli("notify", "test")
    assert answer.code == Exit.USAGE
    assert "no channel is configured" in answer.err
    monkeypatch.setenv("STREAMWARDEN_NOTIFY_URLS", inbox.url)
    answer = cli("notify", "test", "--channel", "pager")
    assert answer.code == Exit.USAGE
    assert "one of: json-1" in answer.err
    assert inbox.messages == []
