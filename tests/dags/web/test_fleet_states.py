"""What the fleet page and the stream's page say of streams that need a person: in words, and what to do next.

1. `spent` failed more often than its budget allows, and its supervisor has not decided yet; `left` likewise, and its
   supervisor has given up.
2. `far` ran on another host, which does not renew its lease.
3. `frozen` lives, and its JVM does not answer.
4. `gone` died a moment ago, and its death is not in the store yet: the page is the first to see it.
5. `lossy` runs, its checks are fine, and its newest drill lost rows; it was restarted after a crash, and once because
   a person asked for it. Its only incident is a WARNING, which a person acknowledged and another one muted.
6. `well` is the control: it runs, and none of this is said of it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from streamwarden.adapters.processes import identity as process_identity
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.incident_actions import ActionKind, IncidentAction
from streamwarden.health.incidents.mutes import Mute
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.driver_folder import EXIT, write_document
from streamwarden.lifecycle.events import STOP_REQUESTED
from streamwarden.lifecycle.supervision.heartbeat import JVM_SILENT
from streamwarden.lifecycle.supervision.restart import GiveUp
from streamwarden.lifecycle.supervision.restarter import Supervisor, supervised
from streamwarden.lifecycle.supervision.supervisor import Down, gave_up
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.airflow.web_server import bearer, served

PAGES = "/streamwarden"
ELSEWHERE = ProcessIdentity(host="elsewhere/boot/1", pid=7, started_at=1)
SAID = {
    "spent": (
        "down",
        r"at .* left down killed by signal 9 ",
        r"killed by signal 9.*left down: gave up after 2 failures in 1h: the budget is 1 restart;.*Next: read the ",
    ),
    "left": (
        "down",
        r"at .* left down killed by signal 9 ",
        r"killed by signal 9.*left down: 2 failures within an hour.*Next: buy a larger disk",
    ),
    "far": ("unseen", r".*its driver, on another host, did", r"its driver, on another host, did not renew its lease"),
    "gone": ("down", r"at .* restarts at .* killed by signal 9", r"killed by signal 9.*restarts (now|in [\d.]+ m?s)"),
    "frozen": (
        "unresponsive",
        r"at .* its JVM has not answered for \d+ s",
        r"its JVM has not answered for \d+ s.*driver is killed and restarted",
    ),
}
"""Stream -> its state, what its row says, and what its page does."""


STATES = ("unseen", "unresponsive", "down")
FLEET = "/?part=fleet"
PATHS = (
    FLEET,
    f"{FLEET}&health=CRITICAL",
    f"{FLEET}&trouble=true",
    f"{FLEET}&sort=health&descending=true",
    "/streams/lossy?part=live",
    "/streams/well?part=live",
    "/streams/lossy/incidents?part=incidents",
    "/incidents?part=list",
    "/api/v1/streams?q=lossy",
    "/metrics",
    "/streams/far?part=live",
    *(f"{FLEET}&state={state}" for state in STATES),
    *(f"/streams/{stream}?part=live" for stream in SAID),
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Path -> the page. All are read at once, those with `far` first: it counts as dead after some seconds."""
    with served(tmp_path_factory.mktemp("states"), _fill) as client:
        return {path: client.get(f"{PAGES}{path}", headers=bearer("VIEWER")).text for path in dict.fromkeys(PATHS)}


def _fill(space: Workspace) -> None:
    now, drivers = time.time(), space.store.drivers
    for name in (*SAID, "lossy", "well"):
        add_stream(space.project, name, budget=1)
    killed = ExitRecord(kind=ExitKind.KILLED, ended_at=now - 5, signal=9)
    for name in ("spent", "left"):
        for number in (1, 2):
            drivers.launched(replace(_driver(space, name, number, now - 60), exit=killed))
        drivers.event(supervised(f"{name}-2", Supervisor.SHELL, now - 50))
    verdict = GiveUp(reason="2 failures within an hour", next_step="buy a larger disk", exhausted=True)
    drivers.event(gave_up(Down(driver_id="left-2", verdict=verdict, at=now - 4)))
    far = replace(_driver(space, "far", 1, now - 90), process=ELSEWHERE)
    drivers.launched(far)
    claim = space.store.leases.acquire(far.checkpoint, stream="far", holder=far.driver_id, ttl=30, now=now - 80)
    space.store.leases.bind(claim, ELSEWHERE, ttl=30, now=now - 60)
    for name in ("frozen", "lossy", "well"):
        drivers.launched(replace(_driver(space, name, 1, now - 90), process=process_identity(os.getpid())))
        drivers.started(f"{name}-1", f"query-{name}", "run", now - 80)
    _lose_rows(space, now)
    for check, title in {
        "driver_down": "it is down",
        "progress_stalled": "nothing moves",
        "backlog": "much waits",
    }.items():
        alarm = Verdict(
            stream="left", check=check, status=Status.CRITICAL, at=now, value=1.0, unit="seconds", reason=title
        )
        space.store.verdicts.save([alarm])
    with subprocess.Popen(["sleep", "60"]) as process:
        gone = replace(_driver(space, "gone", 1, now - 90), process=process_identity(process.pid))
        process.kill()
    drivers.launched(gone)
    drivers.started("gone-1", "query-gone", "run", now - 80)
    drivers.event(supervised("gone-1", Supervisor.SHELL, now - 90))
    Path(gone.folder).mkdir(parents=True)
    write_document(Path(gone.folder) / EXIT, {"exit_code": None, "signal": 9, "ended_at": now})
    drivers.event(DriverEvent(driver_id="frozen-1", at=now - 10, kind=JVM_SILENT, detail={"silent_for": "15.0"}))


def _lose_rows(space: Workspace, now: float) -> None:
    """A drill of `lossy` deviates, and its driver runs again after a crash and after a restart on request."""
    drivers = space.store.drivers
    ends = {
        -2: ExitRecord(kind=ExitKind.KILLED, ended_at=now - 170, signal=9),
        -1: ExitRecord(kind=ExitKind.STOPPED, ended_at=now - 120),
    }
    for number, end in ends.items():
        drivers.launched(replace(_driver(space, "lossy", number, end.ended_at - 20), exit=end))
    detail = {"by": "ann", "reason": "new schema", "restart": "true"}
    drivers.event(DriverEvent(driver_id="lossy--1", at=now - 125, kind=STOP_REQUESTED, detail=detail))
    verdict = Verdict(stream="lossy", check="progress_stalled", status=Status.OK, at=now)
    space.store.verdicts.save([verdict, replace(verdict, check="driver_down")])
    run = DrillRun(
        run_id="run-1",
        drill="kill",
        stream="lossy",
        started_at=now - 60,
        ended_at=now - 30,
        status=DrillStatus.COMPLETED,
        deviated=True,
        reason="12 lost",
    )
    space.store.journals.save(run)
    space.store.journals.save(
        replace(run, run_id="run-2", started_at=now, ended_at=None, status=DrillStatus.RUNNING, deviated=None)
    )
    space.store.incidents.save(
        Incident(
            incident_id="i-1",
            stream="lossy",
            check="late_rows",
            status=Status.WARNING,
            opened_at=now,
            updated_at=now,
            reason="late",
        )
    )
    space.store.incident_actions.add(
        IncidentAction(incident_id="i-1", kind=ActionKind.ACKNOWLEDGED, who="ann", at=now, status=Status.WARNING)
    )
    mute = Mute(
        mute_id="m-1",
        who="bob",
        reason="a wrong clock",
        created_at=now,
        starts_at=now,
        until=now + 3600,
        streams=("lossy",),
        checks=("late_rows",),
    )
    space.store.mutes.add(mute)
    space.store.mutes.add(replace(mute, mute_id="m-2", streams=("far",), checks=(), planned=True))


def _driver(space: Workspace, stream: str, number: int, at: float) -> DriverRecord:
    return DriverRecord(
        driver_id=f"{stream}-{number}",
        stream=stream,
        checkpoint=space.stream(stream).checkpoint,
        token=number,
        folder=str(space.data / "drivers" / stream / f"{stream}-{number}"),
        launched_by="a test",
        launched_at=at + number,
    )


def _words(html: str) -> str:
    """The text, without its tags."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def _row(fleet: str, stream: str) -> str:
    """What the fleet says of one stream."""
    found = re.search(rf'<tr [^>]*data-stream="{stream}">.*?</tr>', fleet, re.DOTALL)
    assert found is not None
    return _words(found[0])


@pytest.mark.parametrize("stream", SAID)
def test_the_fleet_says_why_it_needs_a_person_and_its_page_what_to_do(pages: dict[str, str], stream: str) -> None:
    state, short, said = SAID[stream]
    row = _row(pages[FLEET], stream)
    assert re.match(rf"{stream} {state} {short}", row), row
    page = _words(pages[f"/streams/{stream}?part=live"])
    assert re.search(rf"\b{state}\b.*{said}", page), page


def test_nothing_of_this_is_said_of_a_stream_that_runs(pages: dict[str, str]) -> None:
    row = _row(pages[FLEET], "well")
    assert row.startswith("well running")
    assert [said for _, _, said in SAID.values() if re.search(said, row)] == []
    assert "left down" not in row


@pytest.mark.parametrize("state", STATES)
def test_the_fleet_is_filtered_by_such_a_state(pages: dict[str, str], state: str) -> None:
    found = re.findall(r'data-stream="([^"]+)"', pages[f"{FLEET}&state={state}"])
    assert set(found) == {name for name, said in SAID.items() if said[0] == state}


def test_all_of_them_are_in_trouble_and_come_first(pages: dict[str, str]) -> None:
    assert re.findall(r'data-stream="([^"]+)"', pages[FLEET])[-1] == "well"
    assert "6 in trouble" in _words(pages[FLEET])


def test_a_drill_that_lost_rows_is_trouble_everywhere(pages: dict[str, str]) -> None:
    """Colour, filters, sorting, API and metric: one status, also while the next drill runs already."""

    def streams(path: str) -> list[str]:
        return re.findall(r'data-stream="([^"]+)"', pages[path])

    assert '<tr class="trouble" data-stream="lossy">' in pages[FLEET]
    assert "lossy" in streams(f"{FLEET}&health=CRITICAL")
    assert "lossy" in streams(f"{FLEET}&trouble=true")
    assert "lossy" in streams(f"{FLEET}&sort=health&descending=true")[: len(SAID) + 1]
    (row,) = json.loads(pages["/api/v1/streams?q=lossy"])["streams"]
    assert (row["health"], row["health_causes"]) == ("CRITICAL", ["drill_kill"])
    assert row["health_reason"] == "the newest drill DEVIATED: 12 lost"
    assert row["in_trouble"]
    metric = r'streamwarden_stream_health\{[^}]*"lossy"[^}]*="CRITICAL"[^}]*\} 1'
    assert re.search(metric, pages["/metrics"])
    page = _words(pages["/streams/lossy?part=live"])
    assert re.search(r"CRITICAL running .*\(drill_kill\)", page)
    assert "CRITICAL drill_kill : the newest drill DEVIATED: 12 lost" in page


def test_a_dead_stream_has_one_box_with_its_consequences_folded_in_it(pages: dict[str, str]) -> None:
    page = pages["/streams/left?part=live"]
    assert page.count('<div class="note') == 1
    assert re.search(r"left down: 2 failures.*2 consequences: .*nothing moves", _words(page))
    assert "it is down" not in _words(page), "the state says it"
    (row,) = re.findall(r'<tr [^>]*data-stream="left">.*?</tr>', pages[FLEET], re.DOTALL)
    assert 'class="status critical state">down<' in row
    assert "progress_stalled" not in row.replace("<wbr>", "")


def test_a_single_warning_is_not_red_and_stands_beside_the_status(pages: dict[str, str]) -> None:
    """*last drill* and *incidents* come before the numbers."""
    assert re.search(r'<p class="WARNING"><b>1</b> open incident<', pages[FLEET])
    assert re.search(r'data-label="incidents" class="right"><a class="WARNING"', pages[FLEET])
    labels = re.findall(r'data-label="([^"]+)"', pages[FLEET])[:6]
    assert labels == ["status", "last drill", "incidents", "backlog", "rows/s", "batch"]


def test_what_people_decided_is_a_badge_wherever_the_stream_or_its_incident_is_listed(pages: dict[str, str]) -> None:
    """And each incident that is named is a link to it."""
    assert "(late_rows)" not in pages["/streams/lossy?part=live"], "a warning is not what makes it CRITICAL"
    for page in (pages[FLEET], pages["/streams/lossy?part=live"], pages["/incidents?part=list"]):
        assert 'class="badge">1 muted<' in page or 'class="badge">muted<' in page
        assert 'class="badge">acknowledged<' in page
    incidents = pages["/streams/lossy/incidents?part=incidents"]
    assert 'class="badge">acknowledged</span> by ann' in incidents
    assert 'class="badge">muted</span> until' in incidents
    assert f'<a href="{PAGES}/incidents/i-1">late_rows</a>' in incidents
    assert "in maintenance" in _row(pages[FLEET], "far")
    assert 'class="badge"' not in pages["/streams/frozen?part=live"], "nobody decided anything there"
    (row,) = json.loads(pages["/api/v1/streams?q=lossy"])["streams"]
    assert (row["acknowledged_incidents"], row["muted_incidents"], row["muted"]) == (1, 1, "")


def test_a_restart_that_a_person_asked_for_is_no_restart_after_a_crash(pages: dict[str, str]) -> None:
    (row,) = json.loads(pages["/api/v1/streams?q=lossy"])["streams"]
    assert row["restarts"] == 1
    assert "1 restart after crashes" in _row(pages[FLEET], "lossy")
    assert re.search(r'streamwarden_restarts_last_day\{[^}]*"lossy"[^}]*\} 1', pages["/metrics"])


def test_a_stream_offers_only_the_verbs_of_its_state_above_everything_else(pages: dict[str, str]) -> None:
    """The one that the state calls for comes first, and is the only primary one."""

    def offered(stream: str) -> list[tuple[str, str]]:
        page = pages[f"/streams/{stream}?part=live"]
        assert page.index('class="actions"') < page.index('class="note' if stream != "well" else 'class="tiles"')
        return re.findall(r'<button type="button" class="(\w*)" data-action="(\w+)"', page)

    assert offered("left") == [("primary", "start"), ("danger", "stop")]
    assert offered("frozen") == [("primary", "restart"), ("danger", "stop")]
    assert offered("well") == [("", "restart"), ("danger", "stop")]
