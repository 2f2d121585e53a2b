"""`incidents`, `check`: what is wrong now, what was, and what is sent of it."""

import time

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.health.incidents.delivery import Delivery
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from support.command_line import CommandLine
from support.servers.inbox import Inbox
from support.streams.recorded_drivers import NOW, driver, incident


@pytest.mark.parametrize(("status", "code"), [(Status.WARNING, Exit.OK), (Status.CRITICAL, Exit.BAD)])
def test_open_incidents_are_shown_with_their_advice(cli: CommandLine, status: Status, code: Exit) -> None:
    cli.project.stream("a")
    with cli.store() as store:
        store.incidents.save(incident(status))
    answer = cli("incidents")
    assert answer.code == code
    assert "too big" in answer.out
    assert "tighten the watermark" in answer.out
    assert cli("status", "--json").json["streams"][0]["open_incidents"] == 1


def test_resolved_incidents_are_history(cli: CommandLine) -> None:
    cli.project.stream("a")
    with cli.store() as store:
        store.incidents.save(incident(Status.CRITICAL, resolved_at=NOW))
    assert cli("incidents").out.strip() == "No open incidents."
    everything = cli("incidents", "--all")
    assert everything.code == Exit.OK
    assert "resolved" in everything.out


def test_checks_that_know_nothing_are_4_and_never_ok(cli: CommandLine) -> None:
    cli.project.stream("a")
    (cli.project.data / "checkpoints").mkdir(parents=True)
    answer = cli("check", "--json")
    verdicts = answer.json["streams"]["a"]["verdicts"]
    assert len(verdicts) >= 5
    assert not [each for each in verdicts if each["status"] == "OK" and each["check"] != "backlog"]
    path = cli.project.root / "config/streams/a.yaml"
    path.write_text(path.read_text().replace("{path: input/a}", "{path: input/a/*}"))  # no folder to count files in
    assert cli("check").code == Exit.UNDECIDED


def test_check_of_a_failed_driver_reports_the_failure_and_keeps_the_incident(cli: CommandLine) -> None:
    cli.project.stream("a")
    incurable = ExitRecord(
        kind=ExitKind.FAILED, ended_at=NOW, error_class="SCHEMA", message="schema changed", curable=False
    )
    driver(cli, incurable)
    answer = cli("check")
    assert answer.code == Exit.BAD
    assert "schema changed" in answer.out
    assert cli("incidents").code == Exit.BAD


def test_notifying_without_a_url_is_a_mistake_of_configuration(cli: CommandLine) -> None:
    cli.project.stream("a")
    answer = cli("check", "--notify")
    assert answer.code == Exit.USAGE
    assert "STREAMWARDEN_NOTIFY_URLS" in answer.err


@pytest.mark.parametrize(("interval", "minutes", "sent"), [("30m", 40, 1), ("2h", 70, 0)])
def test_an_open_incident_is_sent_again_after_the_configured_interval(
    cli: CommandLine, inbox: Inbox, monkeypatch: pytest.MonkeyPatch, interval: str, minutes: float, sent: int
) -> None:
    """`resend_interval` of config/notifications.yaml counts on the command line as in the health DAG."""
    cli.project.stream("a")
    (cli.project.root / "config/notifications.yaml").write_text(f"resend_interval: {interval}\n")
    with cli.store() as store:
        open_one = incident(Status.CRITICAL)
        store.incidents.save(open_one)
        new = Delivery(subject=open_one.incident_id, channel="json-1")
        store.deliveries.claim(new, Status.CRITICAL, time.time() - 60 * minutes)
    monkeypatch.setenv("STREAMWARDEN_NOTIFY_URLS", inbox.url)
    cli("check", "--notify")
    assert [message["title"] for message in inbox.messages] == ["CRITICAL: a: state size"] * sent
