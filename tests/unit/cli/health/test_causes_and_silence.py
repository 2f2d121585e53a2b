"""What a person on call sees of a dead stream (one cause) and of one that was stopped on purpose (nothing)."""

from __future__ import annotations

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState
from support.command_line import CommandLine
from support.streams.recorded_drivers import NOW


def incident(check: str, status: Status = Status.CRITICAL, cause: str | None = None) -> Incident:
    return Incident(
        incident_id=check,
        stream="a",
        check=check,
        status=status,
        opened_at=NOW - 100,
        updated_at=NOW,
        reason=f"{check} is bad",
        advice=f"repair {check}",
        peak=status,
        consequence_of=cause,
    )


@pytest.fixture
def dead(cli: CommandLine) -> CommandLine:
    """The driver of `a` is down, and two checks follow from that; the consequences were opened first."""
    cli.project.stream("a")
    killed = DriverRecord(
        driver_id="a-20260101T000000-00000001",
        stream="a",
        checkpoint=str(cli.project.data / "checkpoints/a"),
        token=1,
        folder=str(cli.project.data / "drivers/a/1"),
        launched_by="test",
        launched_at=NOW - 200,
    )
    with cli.store() as store:
        store.drivers.launched(killed)
        store.drivers.exited(killed.driver_id, ExitRecord(kind=ExitKind.KILLED, ended_at=NOW - 100))
        for check in ("progress_stalled", "backlog"):
            store.incidents.save(incident(check, cause="driver_down"))
        store.incidents.save(incident("driver_down", Status.WARNING))
        store.verdicts.save([Verdict(stream="a", check="progress_stalled", status=Status.CRITICAL, at=NOW)])
    return cli


def stop(cli: CommandLine) -> None:
    with cli.store() as store:
        store.stops.set_desired(
            DesiredState(stream="a", desired=Desired.STOPPED, changed_by="ann", reason="holiday", changed_at=NOW)
        )


def test_the_consequences_are_listed_below_their_cause_with_one_advice(dead: CommandLine) -> None:
    answer = dead("incidents")
    assert answer.code == Exit.BAD
    words = " ".join(answer.out.split())
    assert words.index("driver_down") < min(words.index("└ progress_stalled"), words.index("└ backlog"))
    assert "repair driver_down" in words
    assert "repair backlog" not in words


def test_json_names_the_cause_of_each_incident(dead: CommandLine) -> None:
    found = {each["check"]: each["consequence_of"] for each in dead("incidents", "--json").json["incidents"]}
    assert found == {"driver_down": None, "progress_stalled": "driver_down", "backlog": "driver_down"}


def test_status_counts_the_cause_alone(dead: CommandLine) -> None:
    answer = dead("status", "--json")
    assert answer.json["streams"][0]["open_incidents"] == 1
    assert answer.code == Exit.BAD


def test_status_of_a_stopped_stream_is_silent_before_any_evaluation(dead: CommandLine) -> None:
    stop(dead)
    answer = dead("status", "--json")
    (stream,) = answer.json["streams"]
    assert (stream["state"], stream["open_incidents"], stream["health"], answer.code) == (
        "stopped",
        0,
        "UNKNOWN",
        Exit.OK,
    )


def test_a_check_of_a_stopped_stream_resolves_its_incidents(dead: CommandLine) -> None:
    stop(dead)
    assert dead("check").code != Exit.BAD
    assert dead("incidents").out.strip() == "No open incidents."
    assert "ann stopped the stream: holiday" in " ".join(dead("incidents", "--all").out.split())
