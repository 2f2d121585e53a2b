"""What programs read of one stream: drivers, checkpoint, advice, declaration, incidents with their log, journals."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from streamwarden.adapters.processes import identity
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep, JournalEntry
from streamwarden.drills.reporting.report import document
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.events import UI_SERVED
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream, living_driver
from support.airflow.web_server import bearer, served
from support.checkpoints.recorded import Archives
from support.streams.stored_journals import facts_with

API = "/streamwarden/api/v1"
SECRET = "hunter2-hunter2"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    archives = Archives(tmp_path_factory.mktemp("archives"))
    with served(tmp_path_factory.mktemp("stream_api"), _with(archives)) as client:
        yield client


def _with(archives: Archives) -> Callable[[Workspace], None]:
    """`counted`: a checkpoint that Spark wrote, a crashed and a living driver, an incident and its consequence, a
    drill; `empty`: nothing."""

    def fill(space: Workspace) -> None:
        add_stream(space.project, "counted", description=f"password={SECRET}")
        add_stream(space.project, "empty")
        place = Path(space.stream("counted").checkpoint)
        laid = archives.unpack("spark-4.3.0-changelog", place.parent / "laid")
        place.parent.mkdir(parents=True, exist_ok=True)
        laid.rename(place)
        now = time.time()
        _drivers(space, now)
        _incidents(space, now)
        run = DrillRun(
            run_id="run-1",
            drill="kill_driver",
            stream="counted",
            started_at=now,
            status=DrillStatus.COMPLETED,
            deviated=True,
            facts=facts_with("kill_driver", lost=1),
        )
        space.store.journals.save(run)
        note = JournalEntry(step=DrillStep.FAULT, at=now, kind="note", message=f"token={SECRET}", data={"pid": 7})
        space.store.journals.append("run-1", note)

    return fill


def _drivers(space: Workspace, now: float) -> None:
    exit = ExitRecord(kind=ExitKind.KILLED, ended_at=now - 60, signal=9, message="out of memory", cut_batch=True)
    for number, ended in ((1, exit), (2, None)):
        space.store.drivers.launched(
            DriverRecord(
                driver_id=f"counted-{number}",
                stream="counted",
                checkpoint=space.stream("counted").checkpoint,
                token=number,
                folder="/data/drivers/counted",
                launched_by="a test",
                launched_at=now - 100 + number,
                process=identity(os.getpid()),
                exit=ended,
            )
        )
        served_at = {"url": f"http://10.0.0.7:{4040 + number}"}
        space.store.drivers.event(DriverEvent(driver_id=f"counted-{number}", at=now, kind=UI_SERVED, detail=served_at))


def _incidents(space: Workspace, now: float) -> None:
    for name, check, cause in (("root", "driver_down", None), ("caused", "backlog", "root")):
        space.store.incidents.save(
            Incident(
                incident_id=name,
                stream="counted",
                check=check,
                status=Status.CRITICAL,
                opened_at=now - 900,
                updated_at=now,
                reason="down",
                consequence_of=cause,
            )
        )


def get(server: TestClient, path: str) -> Any:
    answer = server.get(f"{API}{path}", headers=bearer("VIEWER"))
    assert answer.status_code == 200, answer.text
    assert SECRET not in answer.text
    return answer.json()


def test_the_drivers_of_a_stream_newest_first_each_with_why_it_ended(server: TestClient) -> None:
    living, dead = get(server, "/streams/counted/drivers")
    assert (living["driver_id"], living["exit"], living["pid"]) == ("counted-2", None, os.getpid())
    assert living["ui"] == "http://10.0.0.7:4042"
    assert dead["ui"] is None, "it is gone with its driver"
    assert dead["exit"]["sentence"] == "killed by signal 9 (out of memory)"
    assert dead["exit"]["cut_batch"] is True
    recent = get(server, f"/streams/counted/drivers?since={time.time() - 30}")
    assert [each["driver_id"] for each in recent] == ["counted-2"], "the other one had ended before"
    assert get(server, "/streams/empty/drivers") == []


def test_a_driver_that_was_launched_months_ago_and_lives_is_shown(tmp_path: Path) -> None:
    def fill(space: Workspace) -> None:
        add_stream(space.project, "counted")
        living_driver(space, "counted-1", time.time() - 60 * 86400)

    with served(tmp_path, fill) as client:
        (driver,) = get(client, "/streams/counted/drivers")
        assert driver["driver_id"] == "counted-1"
        page = client.get("/streamwarden/streams/counted/history", headers=bearer("VIEWER")).text
        assert "counted-1" in page


def test_the_anatomy_of_a_checkpoint_is_whole(server: TestClient) -> None:
    """Every field of `inspect --json`, with the numbers of a checkpoint that Spark wrote."""
    from streamwarden.airflow.web.shared_workspace import catalogs, opened
    from streamwarden.services.overview.anatomy import anatomy

    found = get(server, "/streams/counted/checkpoint")
    assert found["problem"] == ""
    report = anatomy(catalogs().spec(opened(), "counted", None)).to_dict()
    assert found["checkpoint"] == json.loads(json.dumps(report))


def test_a_checkpoint_that_cannot_be_read_says_why(server: TestClient) -> None:
    found = get(server, "/streams/empty/checkpoint")
    assert found["checkpoint"] is None
    assert "empty" in found["problem"]


def test_findings_and_recommendations_are_those_of_the_page(server: TestClient) -> None:
    found = get(server, "/streams/counted/advice")
    page = server.get("/streamwarden/streams/counted/advice", headers=bearer("VIEWER")).text
    assert found["recommendations"]
    for each in found["findings"]:
        assert f'>{each["severity"]}</td><th scope="row">{each["rule"]}</th>' in page
    for each in found["recommendations"]:
        assert f'<th scope="row">{each["topic"]}' in page


def test_the_declaration_is_the_file_without_its_secrets(server: TestClient) -> None:
    found = get(server, "/streams/counted/declaration")
    assert found["path"] == "config/streams/counted.yaml"
    assert "name: counted" in found["text"]
    missing = server.get(f"{API}/streams/nothing/declaration", headers=bearer("VIEWER"))
    assert missing.status_code == 404
    assert "config/streams/nothing.yaml" in missing.json()["detail"]


@pytest.mark.parametrize("part", ["checkpoint", "advice"])
def test_an_unknown_query_is_not_found(server: TestClient, part: str) -> None:
    answer = server.get(f"{API}/streams/counted/{part}?query=nothing", headers=bearer("VIEWER"))
    assert answer.status_code == 404


def test_an_incident_has_its_chart_its_consequences_and_its_log(server: TestClient) -> None:
    address = f"{API}/incidents/root"
    server.post(f"{address}/acknowledge", json={"reason": "on it"}, headers=bearer("USER"))
    made = server.post(f"{address}/mute", json={"hours": 1, "reason": "we know"}, headers=bearer("USER")).json()
    found = get(server, "/incidents/root")
    assert (found["chart"], found["consequences"]) == ("rates", ["caused"])
    assert [(each["what"], each["said"]) for each in found["log"]] == [("acknowledged", "on it"), ("muted", "we know")]
    assert found["muted_until"] == made["until"]
    assert server.get(f"{API}/incidents/nothing", headers=bearer("VIEWER")).status_code == 404


def test_mutes_in_force_are_listed_and_with_past_those_that_are_over(server: TestClient) -> None:
    made = server.post(
        f"{API}/streams/empty/mute", json={"hours": 1, "reason": "a test"}, headers=bearer("USER")
    ).json()
    assert [each["mute_id"] for each in get(server, "/mutes?stream=empty")] == [made["mute_id"]]
    server.post(f"{API}/mutes/{made['mute_id']}/end", json={"reason": "enough"}, headers=bearer("USER"))
    assert get(server, "/mutes?stream=empty") == []
    (over,) = get(server, "/mutes?stream=empty&past=true")
    assert (over["reason"], over["ended_by"], over["ended_reason"]) == ("a test", "ann (Airflow)", "enough")


def test_a_journal_is_described_and_whole(server: TestClient) -> None:
    from streamwarden.airflow.web.shared_workspace import opened

    store = opened().store
    run = store.journals.get("run-1")
    assert run is not None
    assert get(server, "/drills/run-1") == document(run, store.journals.entries("run-1"))


def test_every_answer_is_described(server: TestClient) -> None:
    """No operation has an empty schema: a program would have to guess."""
    paths = get(server, "/openapi.json")["paths"]
    empty = [
        f"{method} {path}"
        for path, operations in paths.items()
        for method, operation in operations.items()
        for status, answer in operation["responses"].items()
        if status.startswith("2") and not answer["content"]["application/json"]["schema"]
    ]
    assert empty == []
