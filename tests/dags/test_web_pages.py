"""The plugin's pages and API: closed to strangers, empty for users without rights, harmless to read.

The tests of access are made from the app's own routes: a new route is tested without being named here, and fails if
nobody has said what its address looks like.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

from streamwarden.adapters.processes import identity as process_identity
from streamwarden.airflow.drill_runs import drill_run_id
from streamwarden.drills.journal import DrillRun, DrillStatus, DrillStep, JournalEntry
from streamwarden.health.incident import Incident
from streamwarden.health.mutes import Mute
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.events import UI_SERVED
from streamwarden.lifecycle.restarter import Supervisor, supervised
from streamwarden.lifecycle.stop import Desired, DesiredState
from streamwarden.services.workspace import Workspace
from support.airflow_project import add_stream
from support.queries import query_record
from support.stored_journals import facts_with
from support.web_server import bearer, served, token

EVIL = "<script>alert('x')</script>"
PAGES = "/streamwarden"
EXAMPLES = {
    "stream": "counted",
    "run_id": "run-1",
    "dag_id": "stream_counted",
    "version": "0",
    "name": "pages.css",
    "incident_id": "i-1",
    "mute_id": "m-1",
    "driver_id": "counted-1",
}
"""A value of each name in an address."""
DRILL = """
name: kill_driver
stream: counted
fault: {kind: kill_driver}
"""
BODIES = {"/api/v1/maintenance": {"starts": "2030-01-01T00:00", "hours": 1, "reason": "a larger disk"}}
"""What a request has to say where the rights depend on it."""
BUTTON = re.compile(r"(<button[^>]*data-action=[^>]*>)([^<]*)</button>")
OPEN_TO_ALL_USERS = ("/static/{version}/{name}", "/api/v1/openapi.json", "/dags/{dag_id}")
"""They hold nothing of any stream: our own files, the description of the API, and the way to another page."""
LISTS = (
    "/metrics",
    "/",
    "/drills",
    "/drills/matrix",
    "/drills/compare",
    "/incidents",
    "/api/v1/streams",
    "/api/v1/drills",
    "/api/v1/incidents",
    "/api/v1/mutes",
    "/api/v1/resilience",
)
"""A user without rights gets them without a single stream."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with served(tmp_path_factory.mktemp("web"), _fill) as client:
        yield client


def _fill(space: Workspace) -> None:
    """`counted`: down, drilled, with an incident; `halted`: stopped by a person; `pair`: two queries."""
    path = add_stream(space.project, "counted", description=f"Counts {EVIL}")
    path.write_text(f'{path.read_text()}\naudit: {{schedule: "30 3 * * *", batches: 50}}\n')
    (space.project / "config" / "drills" / "kill_driver.yaml").write_text(DRILL)
    add_stream(space.project, "halted")
    add_stream(space.project, "pair")
    now = time.time()
    facts = facts_with("kill_driver", lost=1, samples={"lost": [EVIL]})
    run = DrillRun(
        run_id="run-1",
        drill="kill_driver",
        stream="counted",
        started_at=now,
        status=DrillStatus.COMPLETED,
        deviated=True,
        reason=f"the output is not exactly-once {EVIL}",
        facts={**facts, "fault": {**facts["fault"], "message": EVIL}},
    )
    space.store.journals.save(run)
    space.store.journals.append("run-1", JournalEntry(step=DrillStep.FAULT, at=now, kind="note", message=EVIL))
    for name, error in {"left": None, "right": EVIL}.items():
        ended = {"ended_at": 2.0, "error": error} if error else {}
        space.store.queries.started(query_record("pair", name, driver="pair-1", at=1.0, **ended))
    exit = ExitRecord(kind=ExitKind.KILLED, ended_at=now, signal=9, message=f"out of memory {EVIL}")
    for number in (1, 2):  # the second failure in a row waits
        space.store.drivers.launched(_driver(space, number, now - 10 + number, exit))
    space.store.drivers.event(supervised("counted-2", Supervisor.SHELL, now))
    stopped = DesiredState(
        stream="halted", desired=Desired.STOPPED, changed_by="ann", reason=f"the disk moves {EVIL}", changed_at=now
    )
    space.store.stops.set_desired(stopped)
    verdict = Verdict(stream="counted", check="state_size", status=Status.CRITICAL, at=now, value=6e9, unit="bytes")
    space.store.verdicts.save([verdict])
    space.store.incidents.save(
        Incident(
            incident_id="i-1",
            stream="counted",
            check="state_size",
            status=Status.CRITICAL,
            opened_at=now,
            updated_at=now,
            reason=f"too large {EVIL}",
            advice=EVIL,
        )
    )

    space.store.mutes.add(
        Mute(
            mute_id="m-1",
            who="ann",
            reason=f"the disk moves {EVIL}",
            created_at=now,
            starts_at=now,
            until=now + 86400,
            streams=("halted",),
        )
    )


def _driver(space: Workspace, number: int, at: float, exit: ExitRecord | None) -> DriverRecord:
    return DriverRecord(
        driver_id=f"counted-{number}",
        stream="counted",
        checkpoint=str(space.data / "checkpoint"),
        token=number,
        folder=str(space.data / "drivers" / f"counted-{number}"),
        launched_by="a test",
        launched_at=at,
        exit=exit,
    )


def _routes() -> list[tuple[str, str]]:
    """(method, path) of every route of the app."""
    from streamwarden.airflow.web.app import build_app

    found = [
        (method, route.path)
        for route in build_app().routes
        for method in sorted(getattr(route, "methods", None) or {"GET"})
        if method != "HEAD"
    ]
    assert len(found) > 10, "the routes could not be read"
    return found


def _address(path: str) -> str:
    """The path with an example for each of its names."""
    names = re.findall(r"\{(\w+)", path)
    missing = [name for name in names if name not in EXAMPLES]
    assert not missing, f"{path}: add an example of {missing} to EXAMPLES, so that its access is tested"
    return PAGES + re.sub(r"\{(\w+)[^}]*\}", lambda found: EXAMPLES[found[1]], path)


def _ask(server: TestClient, method: str, path: str, **options: Any) -> Any:
    body = {"json": BODIES.get(path, {})} if method in ("POST", "PUT", "PATCH") else {}
    return server.request(method, _address(path), follow_redirects=False, **body, **options)


@pytest.mark.parametrize(("method", "path"), _routes())
def test_a_stranger_gets_nothing_from_any_route(server: TestClient, method: str, path: str) -> None:
    """No token, or one that was never issued."""
    assert _ask(server, method, path).status_code == 401
    assert _ask(server, method, path, headers={"Authorization": "Bearer e30.e30.x"}).status_code in (401, 403)


@pytest.mark.parametrize(("method", "path"), _routes())
def test_a_user_without_rights_gets_nothing_of_any_stream(server: TestClient, method: str, path: str) -> None:
    answer = _ask(server, method, path, headers=bearer(None))
    if path in LISTS:
        assert answer.status_code == 200
        for name in ("counted", "halted", "pair", "run-1"):
            assert name not in answer.text
    elif path in OPEN_TO_ALL_USERS:
        assert answer.status_code in (200, 307, 404)
    else:
        assert answer.status_code in (403, 404), f"{method} {path} answered a user who may read nothing"


@pytest.mark.parametrize("path", [path for method, path in _routes() if method == "GET" and "static" not in path])
def test_a_viewer_may_read(server: TestClient, path: str) -> None:
    """With the header, and with the cookie that the UI sets."""
    assert _ask(server, "GET", path, headers=bearer("VIEWER")).status_code in (200, 307)
    assert _ask(server, "GET", path, cookies={"_token": token("VIEWER")}).status_code in (200, 307)


@pytest.mark.parametrize(("method", "path"), [each for each in _routes() if each[0] != "GET"])
def test_a_viewer_may_change_nothing(server: TestClient, method: str, path: str) -> None:
    """What the request says is right, so that nothing but the missing right refuses it: a user who has it may."""
    assert _refused_to_a_viewer(server, method, path)


def _refused_to_a_viewer(client: TestClient, method: str, path: str) -> bool:
    return bool(_ask(client, method, path, headers=bearer("VIEWER")).status_code == 403)


def test_a_request_that_changes_something_and_asks_for_the_right_to_read_alone_is_found(server: TestClient) -> None:
    """The test above would fail for such a route."""
    from streamwarden.airflow.web.access import changeable_stream, readable_stream
    from streamwarden.airflow.web.app import build_app

    pages, app = build_app(), FastAPI()
    for name, right in {"careless": readable_stream, "careful": changeable_stream}.items():
        path = f"/api/v1/streams/{{stream}}/{name}"
        pages.add_api_route(path, lambda: "done", methods=["POST"], dependencies=[Depends(right)])
    app.mount(PAGES, pages)
    assert not _refused_to_a_viewer(TestClient(app), "POST", "/api/v1/streams/{stream}/careless")
    assert _refused_to_a_viewer(TestClient(app), "POST", "/api/v1/streams/{stream}/careful")


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_no_description_of_the_api_is_served_outside_its_own_route(server: TestClient, path: str) -> None:
    assert server.get(f"{PAGES}{path}", headers=bearer("VIEWER")).status_code == 404


def test_every_page_escapes_what_jobs_and_people_wrote_and_lets_no_script_run(server: TestClient) -> None:
    """Descriptions, reasons, errors and advice with a script in them are shown as text; the policy would stop one that
    slipped through."""
    shown = 0
    for method, path in _routes():
        if method != "GET" or path.startswith(("/api", "/static", "/dags", "/metrics")):
            continue
        answer = _ask(server, method, path, headers=bearer("VIEWER"))
        assert EVIL not in answer.text, path
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe-eval" not in answer.headers["content-security-policy"]
        assert not re.search(r"<[^>]* on\w+=", answer.text), f"{path} has a script in an attribute"
        shown += answer.text.count("&lt;script&gt;")
    assert shown >= 10


def test_the_fleet_says_what_became_of_a_stream_and_who_did_it(server: TestClient) -> None:
    """A crash, and what the platform does about it; a stop, and by whom."""
    text = server.get(f"{PAGES}/", headers=bearer("VIEWER")).text
    counted = text[text.index('data-stream="counted"') : text.index('data-stream="halted"')]
    assert "killed by signal 9" in counted
    assert re.search(r"restarts (now|in [\d.]+\ss)", counted)
    assert "6\N{NO-BREAK SPACE}GB" in counted
    assert "DEVIATED" in counted
    assert "stopped by ann: the disk moves" in text


def test_the_fleet_is_searched_filtered_and_sorted_by_the_server(server: TestClient) -> None:
    def streams(query: str) -> list[str]:
        text = server.get(f"{PAGES}/?part=fleet&{query}", headers=bearer("VIEWER")).text
        return re.findall(r'data-stream="([^"]+)"', text)

    assert streams("sort=stream") == ["counted", "halted", "pair", "pair/left", "pair/right"]
    assert streams("sort=stream&descending=true")[0] == "pair/right"
    assert streams("q=COUNT&sort=stream")[0] == "counted"
    assert streams("state=stopped") == ["halted"]
    assert streams("health=CRITICAL") == ["counted"]
    assert streams("trouble=true") == ["counted"]
    assert streams("sort=state_size&descending=true")[0] == "counted"
    assert streams("limit=2&offset=1&sort=stream") == ["halted", "pair"]
    assert server.get(f"{PAGES}/?sort=password", headers=bearer("VIEWER")).status_code == 422


def test_a_program_reads_the_same(server: TestClient) -> None:
    found = server.get(f"{PAGES}/api/v1/streams?sort=stream", headers=bearer("VIEWER")).json()
    assert found["totals"]["streams"] == 3
    assert found["totals"]["in_trouble"] == 1
    counted = found["streams"][0]
    assert counted["metrics"]["state_size"] | {"at": 0} == {
        "check": "state_size",
        "title": "State size",
        "status": "CRITICAL",
        "value": 6e9,
        "unit": "bytes",
        "shown": "6 GB",
        "limits": "warning from 1 GB, critical above 5 GB",
        "reason": "",
        "advice": "",
        "at": 0,
    }
    assert counted["after_exit"]["next"] == "restarts"
    document = server.get(f"{PAGES}/api/v1/openapi.json", headers=bearer("VIEWER")).json()
    assert document["paths"]["/api/v1/streams"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]


def test_the_journal_can_be_read_by_a_program(server: TestClient) -> None:
    journal = server.get(f"{PAGES}/api/v1/drills/run-1", headers=bearer("VIEWER")).json()
    assert journal["facts"]["reconciliation"]["lost"] == 1
    assert journal["entries"][0]["message"] == EVIL


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "a'%20OR%201=1", "%3Cscript%3E", "x" * 300])
@pytest.mark.parametrize("kind", ["drills", "streams", "api/v1/drills", "api/v1/streams", "static/0"])
def test_names_from_the_url_are_validated(server: TestClient, kind: str, name: str) -> None:
    """A name that cannot be one never reaches the store or a path, and is not echoed as HTML."""
    answer = server.get(f"{PAGES}/{kind}/{name}", headers=bearer("VIEWER"))
    assert answer.status_code in (403, 404, 422)
    assert not answer.headers["content-type"].startswith("text/html")


def test_a_browser_gets_errors_as_pages(server: TestClient) -> None:
    html = {"Accept": "text/html"}
    for headers, status, said in (
        (html, 401, "You are not logged in"),
        ({**html, **bearer(None)}, 403, "You may not see this"),
        ({**html, **bearer("VIEWER")}, 404, "There is no such page"),
    ):
        name = "nothing" if status == 404 else "counted"
        answer = server.get(f"{PAGES}/streams/{name}", headers=headers)
        assert (answer.status_code, said in answer.text) == (status, True)


def test_no_answer_shows_a_secret_that_an_earlier_version_stored(server: TestClient) -> None:
    """The answers are redacted too, whatever the store holds."""
    from streamwarden.airflow.web.api import Event, answer
    from streamwarden.lifecycle.events import EventKind

    secret = "hunter2-hunter2"
    event = Event(
        at=1, kind=EventKind.CRASHED, driver_id="", who="", why=f"password={secret}", next_step="", after=None
    )
    assert secret.encode() not in bytes(answer(event).body)


def test_buttons_are_only_for_users_who_may_run_the_dag(server: TestClient) -> None:
    def disabled(role: str) -> bool:
        text = server.get(f"{PAGES}/streams/counted", headers=bearer(role)).text
        return "disabled" in re.findall(r'<button[^>]*data-action="stop"[^>]*>', text)[0]

    assert disabled("VIEWER")
    assert not disabled("USER")


@pytest.mark.parametrize("path", ["/streams/counted", "/incidents", "/incidents/i-1", "/drills"])
def test_a_viewer_sees_every_button_and_why_it_is_disabled(server: TestClient, path: str) -> None:
    """The same buttons as a user who may press them. The reason is not in a `title`, which neither the keyboard nor a
    finger reaches."""

    def buttons(role: str) -> dict[str, str]:
        text = server.get(f"{PAGES}{path}", headers=bearer(role)).text
        return {f"{tag} {label}": tag for tag, label in BUTTON.findall(text)}

    def pressed(found: dict[str, str]) -> list[str]:
        return sorted(
            re.search(r'data-action="(\w+)"', tag)[1] + key.rpartition(">")[2]  # type: ignore[index]
            for key, tag in found.items()
        )

    mine, others = buttons("VIEWER"), buttons("ADMIN")
    assert pressed(mine) == pressed(others) != []
    for tag in mine.values():
        assert 'aria-disabled="true"' in tag
        assert 'aria-describedby="tip"' in tag
        assert re.search(r'data-tip="You may not [^"]+; ask an administrator of this Airflow\."', tag), tag
    assert not any("aria-disabled" in tag for tag in others.values())


def test_a_viewer_reads_why_no_maintenance_can_be_planned(server: TestClient) -> None:
    shown = "You may not change the DAG health; ask an administrator of this Airflow."
    assert shown in server.get(f"{PAGES}/incidents", headers=bearer("VIEWER")).text
    assert shown not in server.get(f"{PAGES}/incidents", headers=bearer("USER")).text


def test_no_explanation_is_in_a_title_alone(server: TestClient) -> None:
    for method, path in _routes():
        if method == "GET" and not path.startswith(("/api", "/static", "/dags", "/metrics")):
            assert not re.search(r"<[^>]* title=", _ask(server, "GET", path, headers=bearer("VIEWER")).text), path


def test_a_number_and_its_unit_are_never_on_two_lines(server: TestClient) -> None:
    text = server.get(f"{PAGES}/", headers=bearer("VIEWER")).text
    assert "6\N{NO-BREAK SPACE}GB" in text
    torn = re.search(r".*\d (ms|s|m|h|d|B|kB|MB|GB)\b.*", re.sub(r"<[^>]*>", "", text))
    assert torn is None, torn[0]


def test_an_incident_is_acknowledged_by_a_user_who_may_change_its_stream(server: TestClient) -> None:
    """It is recorded with the user's name, shown at once, and can be withdrawn."""
    address = f"{PAGES}/api/v1/incidents/i-1"
    assert server.post(f"{address}/acknowledge", json={}, headers=bearer("VIEWER")).status_code == 403
    done = server.post(f"{address}/acknowledge", json={"reason": f"on it {EVIL}"}, headers=bearer("USER"))
    assert done.status_code == 200, done.text
    assert (done.json()["who"], done.json()["status"]) == ("ann (Airflow)", "CRITICAL")
    listed = server.get(f"{PAGES}/incidents?part=list", headers=bearer("VIEWER")).text
    assert "acknowledged by ann (Airflow)" in listed
    assert EVIL not in listed
    (found,) = server.get(f"{PAGES}/api/v1/incidents", headers=bearer("VIEWER")).json()
    assert found["acknowledged_by"] == "ann (Airflow)"
    assert server.post(f"{address}/withdraw", json={}, headers=bearer("USER")).status_code == 200
    again = server.post(f"{address}/withdraw", json={}, headers=bearer("USER"))
    assert again.status_code == 422
    assert "nothing to withdraw" in again.json()["detail"]
    shown = server.get(f"{PAGES}/incidents/i-1", headers=bearer("VIEWER")).text
    assert shown.count("ann (Airflow)") == 2


def test_a_stream_is_muted_and_the_mute_is_ended(server: TestClient) -> None:
    wanted = {"hours": 2, "reason": "we move it"}
    made = server.post(f"{PAGES}/api/v1/streams/counted/mute", json=wanted, headers=bearer("USER"))
    assert made.status_code == 200, made.text
    assert made.json()["until"] - made.json()["starts_at"] == pytest.approx(7200)
    assert "we move it" in server.get(f"{PAGES}/incidents?part=list", headers=bearer("VIEWER")).text
    end = f"{PAGES}/api/v1/mutes/{made.json()['mute_id']}/end"
    assert server.post(end, json={"reason": "done"}, headers=bearer("VIEWER")).status_code == 403
    assert server.post(end, json={"reason": "done"}, headers=bearer("USER")).status_code == 200
    assert "we move it" not in server.get(f"{PAGES}/incidents?part=list", headers=bearer("VIEWER")).text


@pytest.mark.parametrize(
    ("url", "linked"), [("http://10.0.0.7:40404", True), ("javascript:alert('x')", False)], ids=["a UI", "no address"]
)
def test_a_living_driver_that_serves_sparks_ui_is_linked_to_it(tmp_path: Path, url: str, linked: bool) -> None:
    def fill(space: Workspace) -> None:
        _fill(space)
        alive = replace(_driver(space, 3, time.time(), None), process=process_identity(os.getpid()))
        space.store.drivers.launched(alive)
        space.store.drivers.event(DriverEvent(driver_id="counted-3", at=1.0, kind=UI_SERVED, detail={"url": url}))

    with served(tmp_path, fill) as client:
        text = client.get(f"{PAGES}/streams/counted?part=happened", headers=bearer("VIEWER")).text
    assert (f'<a href="{url}"' in text) is linked
    assert ("Spark’s UI" in text) is linked


def test_a_program_finds_the_drill_that_a_run_of_its_dag_is(tmp_path: Path) -> None:
    """Only if the user may read the drill. The pages ask so for the verdict of what was started on them."""
    dag_run = "manual__2026-11-24T14:40:09.123456+00:00"

    def fill(space: Workspace) -> None:
        _fill(space)
        (run,) = space.store.journals.recent(stream="counted", limit=1)
        space.store.journals.save(replace(run, run_id=drill_run_id("kill_driver", dag_run)))

    with served(tmp_path, fill) as client:

        def found(role: str | None, drill: str, run: str) -> list[str]:
            asked = client.get(f"{PAGES}/api/v1/drills", params={"drill": drill, "dag_run": run}, headers=bearer(role))
            return [each["run_id"] for each in asked.json()]

        assert found("VIEWER", "kill_driver", dag_run) == [drill_run_id("kill_driver", dag_run)]
        assert found("VIEWER", "kill_driver", "manual__another") == []
        assert found("VIEWER", "another", dag_run) == []
        assert found(None, "kill_driver", dag_run) == []


def test_maintenance_is_planned_for_the_fleet_by_who_may_change_the_health_dag(server: TestClient) -> None:
    wanted = BODIES["/api/v1/maintenance"]
    assert server.post(f"{PAGES}/api/v1/maintenance", json=wanted, headers=bearer("VIEWER")).status_code == 403
    made = server.post(f"{PAGES}/api/v1/maintenance", json=wanted, headers=bearer("USER")).json()
    assert (made["scope"], made["planned"], made["starts_at"]) == ("the whole fleet", True, 1893456000.0)
    wrong = server.post(f"{PAGES}/api/v1/maintenance", json={**wanted, "hours": -1}, headers=bearer("USER"))
    assert wrong.status_code == 422


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200)])
def test_no_other_site_acts_in_the_name_of_a_person(server: TestClient, site: str, status: int) -> None:
    """A browser that is logged in says where a request comes from."""
    answer = server.post(
        f"{PAGES}/api/v1/incidents/i-1/comment",
        json={"reason": "seen"},
        cookies={"_token": token("USER")},
        headers={"Sec-Fetch-Site": site},
    )
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://testserver"}, 200),
        ({"Origin": "http://TESTSERVER:80"}, 200),
        ({"Origin": "https://testserver"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://testserver.evil.example"}, 403),
        ({"Origin": "http://testserver:8080"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "file://"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://ops.example", "X-Forwarded-Host": "ops.example"}, 200),
        ({"Origin": "https://ops.example:8443", "X-Forwarded-Host": "ops.example:8443, inner"}, 200),
        ({"Origin": "http://evil.example", "X-Forwarded-Host": "ops.example"}, 403),
        ({"Origin": "https://base.example", "Host": "127.0.0.1:8080"}, 200),
        ({"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://testserver", "Sec-Fetch-Site": "cross-site"}, 403),
    ],
    ids=str,
)
def test_over_plain_http_the_origin_says_where_a_request_comes_from(
    server: TestClient, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], status: int
) -> None:
    """There a browser sends no `Sec-Fetch-Site`. A proxy may hide the host that the browser asked: it says so itself,
    or `[api] base_url` does."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://base.example/airflow/")
    answer = server.post(
        f"{PAGES}/api/v1/incidents/i-1/comment",
        json={"reason": "seen"},
        cookies={"_token": token("USER")},
        headers=headers,
    )
    assert answer.status_code == status


def test_pages_work_under_the_path_of_a_proxy(tmp_path: Path) -> None:
    """Every address in a page begins with that path."""
    with served(tmp_path, _fill, base="/ops/airflow") as client:
        text = client.get("/ops/airflow/streamwarden/", headers=bearer("VIEWER")).text
        found = re.findall(r'(?:href|src|data-prefix|data-airflow)="(/[^"]*)"', text)
        assert len(found) > 10
        assert [each for each in found if not each.startswith("/ops/airflow")] == []
        script = next(each for each in found if each.endswith("pages.js"))
        assert client.get(script, headers=bearer("VIEWER")).headers["content-type"].startswith("text/javascript")


def test_the_plugin_registers_app_navigation_tab_and_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Airflow's loader asks it for."""
    from airflow._shared.plugins_manager.plugins_manager import is_valid_plugin

    from streamwarden.airflow.plugin import StreamwardenPlugin

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://ops.example/airflow/")
    assert is_valid_plugin(StreamwardenPlugin)
    plugin = StreamwardenPlugin()
    assert [app["url_prefix"] for app in plugin.fastapi_apps] == [PAGES]
    assert {view["destination"]: view["href"] for view in plugin.external_views} == {
        "nav": "/airflow/streamwarden/",
        "dag": "/airflow/streamwarden/dags/{DAG_ID}",
    }
    assert [link.name for link in plugin.operator_extra_links] == ["Drill report", "Stream"]
    assert (Path(__file__).resolve().parents[2] / "plugins" / "streamwarden_plugin.py").is_file()


def test_an_airflow_without_a_login_answers_under_its_own_names_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page on the internet can give its own name the address of this machine, and then ask as its user."""
    from streamwarden.airflow.plugin import ALLOWED_HOSTS, StreamwardenPlugin

    monkeypatch.delenv(ALLOWED_HOSTS, raising=False)
    assert StreamwardenPlugin().fastapi_root_middlewares == []

    monkeypatch.setenv(ALLOWED_HOSTS, "127.0.0.1,localhost")
    app = FastAPI()
    app.add_api_route("/", lambda: "here")
    for each in StreamwardenPlugin().fastapi_root_middlewares:
        app.add_middleware(each["middleware"], **each["kwargs"])
    for host in ("127.0.0.1:8080", "localhost:8080", "localhost"):
        assert TestClient(app, base_url=f"http://{host}").get("/").status_code == 200
    for host in ("evil.example:8080", "127.0.0.1.evil.example", "192.0.2.1"):
        assert TestClient(app, base_url=f"http://{host}").get("/").status_code == 400
