"""What a person finds and does on the page of an incident: its evidence also when it is over, mutes of one check or of
the stream, a maintenance window of one stream, and who did what."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from streamwarden.airflow.web import shared_workspace
from streamwarden.health.check_relations import EVALUATION, EVERYWHERE
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.airflow.web_server import bearer, served

PAGES = "/streamwarden"
API = f"{PAGES}/api/v1"
HOUR = 3600.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TestClient]:
    with served(tmp_path, _fill) as client:
        yield client


def _fill(space: Workspace) -> None:
    add_stream(space.project, "counted")
    add_stream(space.project, "other")
    now = time.time()
    for name, stream, check, resolved in (
        ("now", "counted", "backlog", None),
        ("past", "counted", "state_size", now - 60),
        ("fleet", EVERYWHERE, EVALUATION, None),
    ):
        space.store.incidents.save(
            Incident(
                incident_id=name,
                stream=stream,
                check=check,
                status=Status.OK if resolved else Status.WARNING,
                opened_at=now - 900,
                updated_at=now - 60,
                resolved_at=resolved,
                reason="fits again" if resolved else "too late",
                evidence={"batch_id": 4711, "password": "hunter2-hunter2", "field": "<b>bold</b>"},
            )
        )


def page(server: TestClient, path: str, role: str = "USER") -> str:
    answer = server.get(f"{PAGES}{path}", headers=bearer(role))
    assert answer.status_code == 200, answer.text
    return answer.text


def post(server: TestClient, path: str, body: dict[str, Any], role: str = "USER") -> Any:
    return server.post(f"{API}{path}", json=body, headers=bearer(role))


def stamp(seconds_from_now: float) -> str:
    """As a form sends it: UTC, without a zone."""
    return datetime.fromtimestamp(time.time() + seconds_from_now, UTC).strftime("%Y-%m-%dT%H:%M")


@pytest.mark.parametrize("incident", ["now", "past"])
def test_an_incident_shows_what_it_rests_on_also_when_it_is_over(server: TestClient, incident: str) -> None:
    for text in (page(server, f"/incidents/{incident}"), page(server, f"/incidents/{incident}?part=state")):
        assert "4711" in text
        assert "&lt;b&gt;bold" in text
        assert "hunter2" not in text


def test_a_program_reads_the_evidence_of_a_past_incident(server: TestClient) -> None:
    answer = server.get(f"{API}/incidents?past=true&stream=counted", headers=bearer("VIEWER"))
    evidence = {each["incident_id"]: each["evidence"] for each in answer.json()}
    assert evidence["past"]["batch_id"] == 4711
    assert "hunter2" not in answer.text


def test_one_check_is_muted_until_a_time_and_the_others_are_sent(server: TestClient) -> None:
    made = post(server, "/incidents/now/mute", {"until": stamp(5 * HOUR), "reason": "the topic is refilled"})
    assert made.status_code == 200, made.text
    assert made.json()["scope"] == "counted: backlog"
    assert made.json()["until"] == pytest.approx(time.time() + 5 * HOUR, abs=60)
    (mute,) = shared_workspace.opened().store.mutes.since(time.time())
    assert mute.covers("counted", "backlog")
    assert not mute.covers("counted", "state_size")
    assert post(server, "/incidents/now/mute", {"hours": 1, "reason": "x"}, "VIEWER").status_code == 403


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ({}, "either `hours` or `until`"),
        ({"hours": 1, "until": stamp(HOUR)}, "either `hours` or `until`"),
        ({"until": stamp(-HOUR)}, "has ended already"),
        ({"until": stamp(91 * 24 * HOUR)}, "longer than 90 days"),
        ({"until": "soon"}, "until"),
    ],
    ids=["no end", "two ends", "past", "too far", "no time"],
)
def test_a_mute_without_one_usable_end_is_refused_with_the_reason(
    server: TestClient, when: dict[str, Any], said: str
) -> None:
    for path in ("/incidents/now/mute", "/streams/counted/mute"):
        answer = post(server, path, {**when, "reason": "x"})
        assert answer.status_code == 422
        assert said in answer.json()["detail"]
    assert shared_workspace.opened().store.mutes.since(time.time()) == ()


def test_an_incident_of_all_streams_cannot_be_muted(server: TestClient) -> None:
    """It would hide from every stream why it suffers."""
    answer = post(server, "/incidents/fleet/mute", {"hours": 1, "reason": "x"}, "ADMIN")
    assert answer.status_code == 422
    assert "concern all streams" in answer.json()["detail"]
    assert "Mute" not in page(server, "/incidents/fleet", "ADMIN")


def test_maintenance_of_one_stream_needs_the_rights_of_that_stream_alone(server: TestClient) -> None:
    wanted = {"starts": "2030-01-01T00:00", "hours": 2, "reason": "a new disk"}
    assert post(server, "/streams/counted/maintenance", wanted, "VIEWER").status_code == 403
    made = post(server, "/streams/counted/maintenance", wanted).json()
    assert (made["scope"], made["planned"], made["starts_at"]) == ("counted", True, 1893456000.0)
    assert made["until"] == 1893456000.0 + 2 * HOUR
    assert "a new disk" in page(server, "/incidents?part=list&stream=counted")
    assert "a new disk" not in page(server, "/incidents?part=list&stream=other")


def test_who_did_what_has_the_mutes_that_are_over(server: TestClient) -> None:
    made = post(server, "/streams/counted/mute", {"hours": 2, "reason": "we move it"}).json()
    ended = post(server, f"/mutes/{made['mute_id']}/end", {"reason": "it has moved"})
    assert ended.status_code == 200
    text = page(server, "/incidents/now?part=state")
    log = " ".join(re.sub("<[^>]*>", " ", text[text.index("Who did what") : text.index("Evidence")]).split())
    assert re.search(r"ann \(Airflow\) muted until [-0-9: ]+ counted we move it", log)
    assert re.search(r"ann \(Airflow\) ended the mute counted it has moved", log)
    assert "we move it" not in page(server, "/incidents/past?part=state"), "that one was over before"


@pytest.mark.parametrize(("role", "may"), [("VIEWER", False), ("USER", True)])
def test_the_forms_are_for_users_who_may_change_the_stream(server: TestClient, role: str, may: bool) -> None:
    text = page(server, "/incidents/now", role)
    for address in ("incidents/now/mute", "streams/counted/mute", "streams/counted/maintenance"):
        form = text[text.index(f'data-post="/api/v1/{address}"') :]
        button = re.search(r"<button[^>]*>", form)
        assert button is not None
        assert ("disabled" not in button[0]) is may
        assert address in (stream := page(server, "/streams/counted", role)) or address.startswith("incidents"), stream


def test_advice_is_on_the_page_of_its_stream_and_counts_as_no_alarm(tmp_path: Path) -> None:
    def fill(space: Workspace) -> None:
        add_stream(space.project, "counted")
        now = time.time()
        space.store.incidents.save(
            Incident(
                incident_id="advised",
                stream="counted",
                check="advice_partitions",
                status=Status.ADVICE,
                opened_at=now - 60,
                updated_at=now - 60,
                reason="partitions: it costs half of a batch",
                advice="try fewer",
                evidence={"cures": "checkpoint_duration"},
            )
        )

    with served(tmp_path, fill) as server:
        live = page(server, "/streams/counted?part=live")
        assert '<div class="note ADVICE">' in live
        assert "partitions: it costs half of a batch" in live
        assert live.count(f"{PAGES}/incidents/advised") == 2, "in the tile of the check that it cures, and below"
        assert "open incident" not in live
        assert "advice_partitions" in page(server, "/incidents")
        assert '<span class="status quiet">ADVICE</span>' in page(server, "/incidents/advised")
        assert "ADVICE" not in page(server, "/")


def test_an_incident_says_since_when_and_when_it_was_judged(server: TestClient) -> None:
    for path in ("/incidents?part=list", "/incidents/now"):
        said = words(page(server, path))
        assert re.search(r"WARNING since (\d+ \w+ )?\d\d:\d\d, judged at [-0-9]+ [:0-9]+", said)
    assert re.search(r"resolved (\d+ \w+ )?\d\d:\d\d, lasted 14m", words(page(server, "/incidents/past")))


def words(html: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", html).replace("\N{NO-BREAK SPACE}", " ").replace(" ,", ",").split())


def test_every_form_marks_the_reason_that_it_needs(server: TestClient) -> None:
    for path in ("/incidents/now", "/incidents", "/streams/counted"):
        for label in re.findall(r"<label>Reason.*?</label>", page(server, path)):
            assert ("required>" in label) is ("(required)" in label), (path, label)


def test_the_incident_of_a_drill_leads_to_its_report_and_what_a_page_does_is_a_link(tmp_path: Path) -> None:
    """Its evidence has the run. The commands of its advice are links where there is a page, else code."""
    from support.pages.on_call import DEVIATED, fill

    with served(tmp_path, fill) as server:
        for path in ("/incidents?part=list", "/incidents/drill"):
            text = page(server, path)
            assert f'href="{PAGES}/drills/{DEVIATED}">Report of the drill</a>' in text
            assert f'href="{PAGES}/drills/{DEVIATED}">its report</a>' in text
            assert ">the drill kill_weather</a>" in text
            assert "`" not in text
        assert "<code>spark.sql.shuffle.partitions</code>" in page(server, "/incidents/advised")
        assert "Report of the drill" not in page(server, "/incidents/down"), "no drill caused this one"


def test_equal_incidents_are_one_line_that_a_person_unfolds(tmp_path: Path) -> None:
    from support.pages.on_call import equal_incidents

    streams = ("one", "two", "three")

    def fill(space: Workspace) -> None:
        for name in (*streams, "other"):
            add_stream(space.project, name)
        for each in (*equal_incidents(streams), *equal_incidents(["other"])):
            space.store.incidents.save(replace(each, reason="other") if each.stream == "other" else each)

    with served(tmp_path, fill) as server:
        folded = page(server, "/incidents?part=list")
        assert "3 incidents" in folded
        assert folded.count('data-action="acknowledge"') == 1, "of the other one"
        (link,) = re.findall(r'id="fold-[^"]*" href="([^"]*)"', folded)
        unfolded = page(server, f"/incidents{link.replace('?', '?part=list&')}")
        assert unfolded.count('data-action="acknowledge"') == 4
        assert 'aria-expanded="true"' in unfolded


def test_who_is_not_logged_in_is_led_to_the_login(server: TestClient) -> None:
    answer = server.get(f"{PAGES}/incidents", headers={"Accept": "text/html"})
    assert answer.status_code == 401
    assert 'href="/api/v2/auth/login" data-airflow data-login>Log in and come back</a>' in answer.text
    assert "data-login>Log in" not in page(server, "/incidents").replace("hidden>Log in", "")
