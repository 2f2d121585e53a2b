"""`history`: a driver is launched, killed, restarted with another trigger, stopped by a person; a drill ran between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord
from support.command_line import CommandLine
from support.streams.recorded_drivers import NOW


def life(cli: CommandLine, number: int, at: float, exit: ExitRecord, *, trigger: int, by: str) -> str:
    folder = cli.project.data / f"drivers/a/{number}"
    folder.mkdir(parents=True)
    spec = {"name": "a", "trigger": {"processing_time": trigger}, "spark": {"conf": {"token": "s3cret"}}}
    (folder / "spec.json").write_text(json.dumps(spec))
    record = DriverRecord(
        driver_id=f"a-{number}",
        stream="a",
        checkpoint="c",
        token=number,
        folder=str(folder),
        launched_by=by,
        launched_at=at,
    )
    with cli.store() as store:
        store.drivers.launched(record)
        store.drivers.exited(record.driver_id, exit)
    return record.driver_id


@pytest.fixture
def lived(cli: CommandLine) -> CommandLine:
    cli.project.stream("a")
    killed = ExitRecord(kind=ExitKind.KILLED, ended_at=NOW - 7000, signal=9, message="no memory", next_step="give more")
    stopped = ExitRecord(kind=ExitKind.STOPPED, ended_at=NOW - 600)
    life(cli, 1, NOW - 9000, killed, trigger=2, by="anna@laptop (command line)")
    second = life(cli, 2, NOW - 6986, stopped, trigger=5, by="stream_a/run in Airflow")
    asked = {"by": "ben@host (command line)", "reason": "new oracle"}
    run = DrillRun(
        run_id="kill-1",
        drill="kill",
        stream="a",
        started_at=NOW - 5000,
        ended_at=NOW - 4800,
        status=DrillStatus.COMPLETED,
        deviated=False,
        reason="0 lost",
    )
    with cli.store() as store:
        store.drivers.event(DriverEvent(driver_id=second, at=NOW - 610, kind="stop_requested", detail=asked))
        store.journals.save(run)
    return cli


def test_each_event_names_time_action_actor_and_reason_newest_last(lived: CommandLine) -> None:
    answer = lived("history", "a", "--json")
    assert answer.code == Exit.OK
    events = [(each["kind"], each["who"], each["why"]) for each in answer.json["events"]]
    assert events == [
        ("launched", "anna@laptop (command line)", ""),
        ("crashed", "", "killed by signal 9 (no memory)"),
        ("restarted", "stream_a/run in Airflow", "killed by signal 9 (no memory)"),
        ("deployed", "stream_a/run in Airflow", "trigger.processing_time: 2 → 5"),
        ("drilled", "drill kill", "PASSED: 0 lost"),
        ("stop requested", "ben@host (command line)", "new oracle"),
        ("stopped", "ben@host (command line)", "stopped"),
    ]
    shown = " ".join(lived("history", "a").out.split())
    assert "restarted after 14s" in shown
    assert "give more" in shown
    assert "s3cret" not in shown


def test_since_limits_how_far_back(lived: CommandLine) -> None:
    kinds = [each["kind"] for each in lived("history", "a", "--since", "1h", "--json").json["events"]]
    assert kinds == ["stop requested", "stopped"]
    assert lived("history", "a", "--since", "soon").code == Exit.USAGE


def test_a_stream_whose_file_is_gone_has_a_history_and_an_unknown_name_is_an_error(lived: CommandLine) -> None:
    Path(lived.project.root / "config/streams/a.yaml").unlink()
    assert len(lived("history", "a", "--json").json["events"]) == 7
    assert lived("history", "b").code == Exit.USAGE


def test_a_stream_to_which_nothing_happened(cli: CommandLine) -> None:
    cli.project.stream("a")
    assert cli("history", "a").out.strip() == "Nothing happened to a in the last 7d."
