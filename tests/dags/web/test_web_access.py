"""The plugin's pages and API: closed to strangers, empty for users without rights, harmless to read.

The tests of access are made from the app's own routes: a new route is tested without being named here, and fails if
nobody has said what its address looks like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

from streamwarden.airflow.links import PAGES
from support.airflow.web_fleet import EVIL, LOOK, SAVEPOINT, fill
from support.airflow.web_server import bearer, served, token

EXAMPLES = {
    "stream": "counted",
    "run_id": "run-1",
    "dag_id": "compact_state",
    "version": "0",
    "name": "pages.css",
    "file": "api_docs.js",
    "incident_id": "i-1",
    "mute_id": "m-1",
    "driver_id": "counted-1",
    "savepoint": SAVEPOINT,
    "look_id": LOOK,
    "request_id": LOOK,
}
"""A value of each name in an address."""
BODIES = {
    "/api/v1/maintenance": {"starts": "2030-01-01T00:00", "hours": 1, "reason": "a larger disk"},
    "/api/v1/streams/{stream}/deletions": {"keys": "key=k1"},
    "/api/v1/streams/{stream}/assignments": {"keys": "key=k1", "value": "9"},
    "/api/v1/drills": {"drill": "kill_driver"},
    **{f"/api/v1/streams/{{stream}}/{verb}": {"reason": "a test"} for verb in ("start", "stop", "restart")},
}
"""What a request has to say before the rights are asked."""
OPEN_TO_ALL_USERS = (
    "/static/{version}/{name}",
    "/api/v1/",
    "/api/v1/openapi.json",
    "/api/v1/docs",
    "/api/v1/docs/{file}",
    "/dags/{dag_id}",
)
"""They hold nothing of any stream: our own files, the description of the API, and the way to another page."""
OF_WHO_MAY_CHANGE = (
    "/api/v1/streams/{stream}/looks",
    "/api/v1/streams/{stream}/looks/{look_id}",
    "/api/v1/streams/{stream}/deletions",
    "/api/v1/streams/{stream}/deletions/{request_id}",
    "/api/v1/streams/{stream}/assignments",
    "/api/v1/streams/{stream}/assignments/{request_id}",
)
"""They hold data of the stream's state."""
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
    "/api/v1/hosts",
)
"""A user without rights gets them without a single stream."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with served(tmp_path_factory.mktemp("web"), fill) as client:
        yield client


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
    if method == "GET" and path in LISTS:
        assert answer.status_code == 200
        for name in ("counted", "halted", "pair", "run-1"):
            assert name not in answer.text
    elif path in OPEN_TO_ALL_USERS:
        assert answer.status_code in (200, 307, 404)
    else:
        assert answer.status_code in (403, 404), f"{method} {path} answered a user who may read nothing"


@pytest.mark.parametrize("path", [path for method, path in _routes() if method == "GET" and "static" not in path])
def test_a_viewer_may_read(server: TestClient, path: str) -> None:
    """With the header, and with the cookie that the UI sets. The contents of a state are for who may change it."""
    may = (403,) if path in OF_WHO_MAY_CHANGE else (200, 307)
    assert _ask(server, "GET", path, headers=bearer("VIEWER")).status_code in may
    assert _ask(server, "GET", path, cookies={"_token": token("VIEWER")}).status_code in may


def test_the_contents_of_a_state_are_for_who_may_change_the_stream(server: TestClient) -> None:
    for path in OF_WHO_MAY_CHANGE:
        assert EVIL in _ask(server, "GET", path, headers=bearer("USER")).text
    seen = _ask(server, "GET", "/streams/{stream}/state", headers=bearer("USER")).text
    assert "name=&lt;script&gt;" in seen
    for part in ("", "?part=looks", "?part=changes"):
        shown = server.get(f"{PAGES}/streams/counted/state{part}", headers=bearer("VIEWER")).text
        assert "name=&lt;script&gt;" not in shown
        assert LOOK not in shown


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
        answer = _ask(server, method, path, headers=bearer("USER"))
        assert EVIL not in answer.text, path
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe-eval" not in answer.headers["content-security-policy"]
        assert not re.search(r"<[^>]* on\w+=", answer.text), f"{path} has a script in an attribute"
        shown += answer.text.count("&lt;script&gt;")
    assert shown >= 10


def test_no_explanation_is_in_a_title_alone(server: TestClient) -> None:
    for method, path in _routes():
        if method == "GET" and not path.startswith(("/api", "/static", "/dags", "/metrics")):
            assert not re.search(r"<[^>]* title=", _ask(server, "GET", path, headers=bearer("VIEWER")).text), path


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "a'%20OR%201=1", "%3Cscript%3E", "x" * 300])
@pytest.mark.parametrize("kind", ["drills", "streams", "api/v1/drills", "api/v1/streams", "static/0"])
def test_names_from_the_url_are_validated(server: TestClient, kind: str, name: str) -> None:
    """A name that cannot be one never reaches the store or a path, and is not echoed as HTML."""
    answer = server.get(f"{PAGES}/{kind}/{name}", headers=bearer("VIEWER"))
    assert answer.status_code in (403, 404, 422)
    assert not answer.headers["content-type"].startswith("text/html")


def test_no_answer_shows_a_secret_that_an_earlier_version_stored(server: TestClient) -> None:
    """The answers are redacted too, whatever the store holds."""
    from streamwarden.airflow.web.api.fleet import Event
    from streamwarden.airflow.web.api.operations import answer
    from streamwarden.lifecycle.events import EventKind

    secret = "hunter2-hunter2"
    event = Event(
        at=1,
        kind=EventKind.CRASHED,
        driver_id="",
        who="",
        why=f"password={secret}",
        next_step="",
        after=None,
        cures=False,
    )
    assert secret.encode() not in bytes(answer(event).body)


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


@pytest.mark.parametrize(("method", "path"), [each for each in _routes() if each[0] != "GET"])
def test_no_route_takes_a_request_of_another_site(server: TestClient, method: str, path: str) -> None:
    site = {"Sec-Fetch-Site": "cross-site"}
    assert _ask(server, method, path, cookies={"_token": token("USER")}, headers=site).status_code == 403


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
