"""`incident`, `mute`, `maintenance`: what a person does about an incident, from a shell."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.health.verdict import Status
from support.command_line import CommandLine
from support.servers.inbox import Inbox
from support.streams.recorded_drivers import NOW, incident


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """Two streams; `a` has an open incident, `i1`."""
    cli.project.stream("a", "tags: [nightly]\n")
    cli.project.stream("b")
    with cli.store() as store:
        store.incidents.save(incident(Status.WARNING))
    return cli


def shown(text: str) -> str:
    return " ".join(text.split())


def at(moment: float) -> str:
    return datetime.fromtimestamp(moment).isoformat(timespec="seconds")


class TestIncident:
    def test_an_acknowledgement_is_in_the_list_with_who_and_why(self, cli: CommandLine) -> None:
        answer = cli("incident", "ack", "i", "--comment", "I look [at] it")
        assert answer.code == Exit.OK
        assert "incident i1: acknowledged as WARNING" in answer.out
        (listed,) = cli("incidents", "--json").json["incidents"]
        assert listed["muted"] is None
        assert listed["acknowledged"]["text"] == "I look [at] it"
        assert listed["acknowledged"]["who"].endswith("(command line)")
        assert ": I look [at] it" in shown(cli("incidents").out)

    def test_one_that_got_worse_since_says_so(self, cli: CommandLine) -> None:
        cli("incident", "ack", "i1")
        with cli.store() as store:
            store.incidents.save(incident(Status.CRITICAL))
        assert "when it was WARNING" in shown(cli("incidents").out)

    def test_withdrawn_it_is_gone_from_the_list_and_stays_in_the_log(self, cli: CommandLine) -> None:
        cli("incident", "ack", "i1", "--comment", "I look at it")
        cli("incident", "comment", "i1", "the disk is full")
        assert "no longer acknowledged" in cli("incident", "withdraw", "i1", "--comment", "my shift is over").out
        assert cli("incidents", "--json").json["incidents"][0]["acknowledged"] is None
        log = cli("incident", "show", "i1", "--json").json["actions"]
        assert [(each["kind"], each["text"]) for each in log] == [
            ("acknowledged", "I look at it"),
            ("commented", "the disk is full"),
            ("withdrawn", "my shift is over"),
        ]
        page = shown(cli("incident", "show", "i1").out)
        for part in ("i1: a: state_size: WARNING", "too big", "tighten the watermark", "the disk is full"):
            assert part in page

    def test_unacknowledged_incident_is_shown_as_such(self, cli: CommandLine) -> None:
        assert "Nobody has acknowledged it" in cli("incident", "show", "i1").out

    def test_resolved_ones_keep_their_acknowledgement_in_the_list_of_all(self, cli: CommandLine) -> None:
        cli("incident", "ack", "i1", "--comment", "I look at it")
        with cli.store() as store:
            store.incidents.save(incident(Status.OK, resolved_at=NOW - 9 * 86400))
        assert "I look at it" in shown(cli("incidents", "--all").out)

    @pytest.mark.parametrize("command", [("ack", "x"), ("withdraw", "x"), ("comment", "x", "text"), ("show", "x")])
    def test_an_unknown_id_says_where_ids_are(self, cli: CommandLine, command: tuple[str, ...]) -> None:
        answer = cli("incident", *command)
        assert answer.code == Exit.USAGE
        assert "there is no incident 'x'" in answer.err
        assert "next: `streamwarden incidents --all`" in answer.err

    def test_what_is_not_acknowledged_cannot_be_withdrawn(self, cli: CommandLine) -> None:
        answer = cli("incident", "withdraw", "i1")
        assert answer.code == Exit.USAGE
        assert "where: incident i1 (a: state_size)" in answer.err


class TestMute:
    def test_nothing_of_a_muted_stream_is_sent_until_a_person_ends_it(
        self, cli: CommandLine, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The message says that it was muted, and by whom."""
        monkeypatch.setenv("STREAMWARDEN_NOTIFY_URLS", inbox.url)
        said = cli("mute", "a", "--for", "2h", "--reason", "a new disk")
        assert said.code == Exit.OK
        assert "a: muted until" in said.out
        with cli.store() as store:
            store.incidents.save(replace(incident(Status.CRITICAL), incident_id="i2", check="supervision"))
        cli("check", "--notify")
        assert inbox.messages == []
        assert cli("incidents").code == Exit.BAD, "it is open, and counts as ever"
        assert "muted until" in shown(cli("incidents").out)
        assert "no longer muted" in cli("unmute", "a", "--reason", "the disk is in").out
        cli("check", "--notify")
        message = next(each for each in inbox.messages if each["title"] == "CRITICAL: a: supervision")
        assert "It was muted until" in message["message"]
        assert "a new disk" in message["message"]

    def test_list_names_scope_end_author_and_reason(self, cli: CommandLine) -> None:
        cli("mute", "a", "--check", "backlog", "--check", "topic_lag", "--until", at(NOW + 3600), "--reason", "a test")
        (mute,) = cli("mutes", "--json").json["mutes"]
        assert (mute["streams"], mute["checks"], mute["reason"]) == (["a"], ["backlog", "topic_lag"], "a test")
        assert abs(mute["until"] - NOW - 3600) < 1
        page = shown(cli("mutes").out)
        assert mute["mute_id"][:8] in page
        assert "a: backlog, topic_lag" in page
        assert "(command line) a test" in page

    def test_one_is_ended_by_its_id_and_stays_in_the_list_of_all(self, cli: CommandLine) -> None:
        ids = [cli("mute", name, "--for", "1h", "--reason", "x", "--json").json["mute_id"] for name in ("a", "b")]
        assert cli("unmute", ids[0][:8], "--reason", "enough").code == Exit.OK
        assert [each["mute_id"] for each in cli("mutes", "--json").json["mutes"]] == ids[1:]
        everything = shown(cli("mutes", "--all").out)
        assert "over" in everything
        assert "ended by" in everything
        assert "enough" in everything
        assert cli("unmute", ids[0]).code == Exit.USAGE

    def test_all_mutes_of_a_stream_are_ended_by_its_name_and_maintenance_is_not(self, cli: CommandLine) -> None:
        cli("mute", "a", "--for", "1h", "--reason", "x")
        cli("mute", "a", "--check", "backlog", "--for", "2h", "--reason", "y")
        cli("maintenance", "plan", "a", "--for", "2h", "--reason", "update")
        cli("unmute", "a")
        assert [each["reason"] for each in cli("mutes", "--json").json["mutes"]] == ["update"]

    def test_status_shows_a_muted_stream(self, cli: CommandLine) -> None:
        cli("mute", "a", "--for", "1h", "--reason", "a new disk")
        (status,) = cli("status", "a", "--json").json["streams"]
        assert status["mute"]["reason"] == "a new disk"
        assert "a new disk" in shown(cli("status", "a").out)
        assert cli("status", "b", "--json").json["streams"][0]["mute"] is None

    def test_a_mute_of_one_check_is_no_mute_of_the_stream(self, cli: CommandLine) -> None:
        cli("mute", "a", "--check", "backlog", "--for", "1h", "--reason", "x")
        assert cli("status", "a", "--json").json["streams"][0]["mute"] is None
        assert cli("incidents", "--json").json["incidents"][0]["muted"] is None

    @pytest.mark.parametrize(
        ("arguments", "part"),
        [
            (("a", "--reason", "x"), "exactly one of --for and --until"),
            (("a", "--for", "1h", "--until", "2026-11-24 08:00", "--reason", "x"), "exactly one"),
            (("a", "--for", "soon", "--reason", "x"), "soon"),
            (("a", "--until", "tomorrow", "--reason", "x"), "2026-11-24 08:00"),
            (("a", "--until", "2020-01-01 08:00", "--reason", "x"), "has ended already"),
            (("a", "--for", "1h"), "--reason"),
            (("c", "--for", "1h", "--reason", "x"), "there is no stream 'c'"),
            (("a", "--check", "backlogs", "--for", "1h", "--reason", "x"), "did you mean 'backlog'?"),
        ],
    )
    def test_what_would_mute_nothing_is_refused(self, cli: CommandLine, arguments: tuple[str, ...], part: str) -> None:
        answer = cli("mute", *arguments)
        assert answer.code == Exit.USAGE
        assert part in shown(answer.err.replace("│", " "))
        assert cli("mutes").out.strip() == "Nothing is muted."


class TestMaintenance:
    def test_a_window_is_planned_shown_and_dropped(self, cli: CommandLine) -> None:
        start, end = at(time.time() + 3600), at(time.time() + 7200)
        window = ("maintenance", "plan", "--tag", "nightly", "--from", start, "--until", end, "--reason", "update")
        assert "a (tag nightly): in maintenance from" in shown(cli(*window).out)
        (planned,) = cli("maintenance", "list", "--json").json["mutes"]
        assert (planned["streams"], planned["planned"]) == (["a"], True)
        assert "planned" in cli("maintenance", "list").out
        assert cli("incidents", "--json").json["incidents"][0]["muted"] is None, "it has not begun"
        assert cli("maintenance", "end", planned["mute_id"][:8], "--reason", "not today").code == Exit.OK
        assert cli("maintenance", "list", "--json").json["mutes"] == []
        assert len(cli("maintenance", "list", "--all", "--json").json["mutes"]) == 1

    def test_one_of_the_fleet_marks_every_stream(self, cli: CommandLine) -> None:
        cli("maintenance", "plan", "--all", "--for", "1h", "--reason", "a new cluster")
        assert "in maintenance until" in shown(cli("incidents").out)
        assert {each["mute"]["reason"] for each in cli("status", "--json").json["streams"]} == {"a new cluster"}
        assert "the whole fleet" in shown(cli("mutes").out)

    def test_mutes_are_no_windows(self, cli: CommandLine) -> None:
        cli("mute", "a", "--for", "1h", "--reason", "x")
        assert cli("maintenance", "list", "--json").json["mutes"] == []

    @pytest.mark.parametrize("what", [(), ("a", "--all"), ("--tag", "nightly", "--all")])
    def test_what_it_covers_is_said_in_one_way(self, cli: CommandLine, what: tuple[str, ...]) -> None:
        answer = cli("maintenance", "plan", *what, "--for", "1h", "--reason", "x")
        assert answer.code == Exit.USAGE
        assert "not clear what the maintenance window covers" in answer.err
