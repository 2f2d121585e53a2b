"""`hosts`: a table for people, JSON for programs, and the verbs of a host."""

import time

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.lifecycle.hosts.report import SILENT_AFTER, HostReport
from support.command_line import CommandLine


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """Beside a host that reports, and has nothing to do."""
    report = HostReport(
        name="one",
        identity="one/boot/1",
        started_at=0.0,
        heartbeat_at=time.time(),
        cores=8,
        memory_bytes=32 * 10**9,
        available_bytes=20 * 10**9,
        data="/data",
        storage="s",
        versions={"spark": "4.3.0", "java": "17.0.15"},
    )
    with cli.store() as store:
        store.hosts.report(report)
    return cli


def test_a_host_is_shown_with_what_it_has(cli: CommandLine) -> None:
    shown = cli("hosts")
    assert shown.code == Exit.OK
    for part in ("one", "ready", "20.0 GB of 32.0 GB", "spark 4.3.0, java 17.0.15"):
        assert part in shown.out
    (host,) = cli("hosts", "--json").json["hosts"]
    assert (host["name"], host["state"], host["report"]["cores"]) == ("one", "ready", 8)


def test_a_host_that_reports_no_more_is_bad(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    later = time.time() + SILENT_AFTER + 5
    monkeypatch.setattr(time, "time", lambda: later)
    shown = cli("hosts")
    assert (shown.code, "silent" in shown.out) == (Exit.BAD, True)


def test_a_host_is_drained_and_resumed_by_its_name(cli: CommandLine) -> None:
    drained = cli("hosts", "drain", "one", "--reason", "kernel update")
    assert (drained.code, "no driver ran there" in drained.out) == (Exit.OK, True)
    shown = cli("hosts").out
    assert "drained" in shown
    assert "kernel update" in shown
    assert "may start drivers again" in cli("hosts", "resume", "one").out
    assert "was not drained" in cli("hosts", "resume", "one").out


def test_a_name_that_no_host_has_is_refused(cli: CommandLine) -> None:
    for verb in ("drain", "resume"):
        refused = cli("hosts", verb, "two")
        assert (refused.code, "one of one" in refused.err) == (Exit.USAGE, True)
