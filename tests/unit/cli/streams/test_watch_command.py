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


WATCHERS = """
import os, sys
from streamwarden.cli.app import run
from streamwarden.cli.commands.health import watching
from streamwarden.services.monitoring import rounds
from streamwarden.services.notifying import notifiers, watching as sending

watching._seconds = lambda interval: 0.2
pids = []
for log in sys.argv[1:3]:
    pids.append(os.fork())
    if pids[-1] == 0:
        sys.stdout = sys.stderr = open(log, "w", buffering=1)
        os._exit(run(sys.argv[3:]))
print(*pids, flush=True)
print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids), flush=True)
"""
"""Two processes that share what they import, which takes most of their time."""


class Watchers:
    """Two `streamwarden watch`, which judge five times a second."""

    def __init__(self, cli: CommandLine, url: str, folder: Path) -> None:
        self._logs = [folder / f"{number}.log" for number in range(2)]
        for log in self._logs:
            log.touch()
        arguments = [*map(str, self._logs), "--project", str(cli.project.root), "--data", str(cli.project.data)]
        command = [sys.executable, "-c", WATCHERS, *arguments, "watch"]
        environment = {**os.environ, "STREAMWARDEN_NOTIFY_URLS": url}
        self._parent = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        self._pids = [int(pid) for pid in self._said()]

    def _said(self) -> list[bytes]:
        assert self._parent.stdout is not None
        return self._parent.stdout.readline().split()

    def wait_until(self, condition: Callable[[str], bool]) -> None:
        for log in self._logs:
            deadline = time.monotonic() + 60
            while not condition(log.read_text()):
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)

    def end(self) -> list[int]:
        for pid in self._pids:
            os.kill(pid, signal.SIGTERM)
        codes = [int(code) for code in self._said()]
        self._parent.communicate()
        return codes


def test_two_watchers_survive_an_outage_of_the_store_send_once_and_end_cleanly(
    cli: CommandLine, inbox: Inbox, tmp_path: Path
) -> None:
    """The store is unavailable for some rounds. Afterwards both evaluate again, and only new problems are sent."""
    down(cli)
    watchers = Watchers(cli, inbox.url, tmp_path)
    try:
        watchers.wait_until(lambda log: log.count("evaluated in") >= 2)
        store = cli.project.data / "streamwarden.db"
        hidden = store.rename(store.with_suffix(".hidden"))
        watchers.wait_until(lambda log: "not evaluated" in log)
        hidden.rename(store)
        watchers.wait_until(lambda log: "evaluated in" in log.rpartition("not evaluated")[2])
    finally:
        codes = watchers.end()
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
