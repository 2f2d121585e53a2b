"""The plugin's pages: closed to strangers, empty for users without rights, harmless to read."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from streamwarden.drills.journal import DrillRun, DrillStatus, DrillStep, JournalEntry
from streamwarden.services.workspace import Workspace
from support.airflow_project import add_stream, make_project
from support.queries import query_record
from support.stored_journals import facts_with

ROUTES = ("/streamwarden/api/streams", "/streamwarden/api/drills/run-1", "/streamwarden/drills/run-1")
EVIL = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """The plugin's app, mounted as Airflow mounts it, with Airflow's simple auth manager and real tokens."""
    patch = pytest.MonkeyPatch()
    root = tmp_path_factory.mktemp("web")
    project = make_project(root / "project")
    add_stream(project, "counted")
    add_stream(project, "pair")
    for key, value in {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "ann:viewer",
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "STREAMWARDEN_PROJECT": str(project),
        "STREAMWARDEN_DATA": str(root / "data"),
    }.items():
        patch.setenv(key, value)
    from airflow import settings
    from airflow.api_fastapi.app import init_auth_manager
    from airflow.models.revoked_token import RevokedToken

    from streamwarden.airflow import web
    from streamwarden.airflow.plugin import PREFIX

    settings.configure_orm()
    RevokedToken.metadata.create_all(settings.engine, tables=[RevokedToken.__table__])
    init_auth_manager()
    web._workspace.cache_clear()
    _fill(web._workspace())
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.mount(PREFIX, web.build_app())
    yield TestClient(app)
    web._workspace().close()
    web._workspace.cache_clear()
    patch.undo()


def _fill(space: Workspace) -> None:
    facts = facts_with("kill_driver", lost=1, samples={"lost": [EVIL]})
    run = DrillRun(
        run_id="run-1",
        drill="kill_driver",
        stream="counted",
        started_at=time.time(),
        status=DrillStatus.COMPLETED,
        deviated=True,
        reason=f"the output is not exactly-once {EVIL}",
        facts={**facts, "fault": {**facts["fault"], "message": EVIL}},
    )
    for name, error in {"left": None, "right": EVIL}.items():
        ended = {"ended_at": 2.0, "error": error} if error else {}
        space.store.queries.started(query_record("pair", name, driver="pair-1", at=1.0, **ended))
    space.store.journals.save(run)
    space.store.journals.append("run-1", JournalEntry(step=DrillStep.FAULT, at=time.time(), kind="note", message=EVIL))


def token(role: str | None) -> str:
    """A token as Airflow issues it, for a user of this role; None: a user who may do nothing."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    return str(get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="ann", role=role)))


def bearer(role: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(role)}"}


@pytest.mark.parametrize("route", ROUTES)
def test_a_stranger_gets_nothing(server: TestClient, route: str) -> None:
    """No token, or one that was never issued."""
    assert server.get(route).status_code == 401
    assert server.get(route, headers={"Authorization": "Bearer e30.e30.x"}).status_code == 403


@pytest.mark.parametrize("route", ROUTES)
def test_a_viewer_may_read(server: TestClient, route: str) -> None:
    """With the header, and with the cookie that the UI sets."""
    assert server.get(route, headers=bearer("VIEWER")).status_code == 200
    assert server.get(route, cookies={"_token": token("VIEWER")}).status_code == 200


def test_a_user_without_rights_sees_no_stream_and_no_drill(server: TestClient) -> None:
    """The answer does not reveal whether a run exists."""
    assert server.get(ROUTES[0], headers=bearer(None)).json() == {"streams": []}
    there = server.get("/streamwarden/drills/run-1", headers=bearer(None))
    nowhere = server.get("/streamwarden/drills/run-2", headers=bearer("VIEWER"))
    assert there.status_code == nowhere.status_code == 404
    assert there.json() == nowhere.json()


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_no_description_of_the_api_is_served(server: TestClient, path: str) -> None:
    """Not even to a viewer."""
    assert server.get(f"/streamwarden{path}", headers=bearer("VIEWER")).status_code == 404


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "a'%20OR%201=1", "%3Cscript%3E", "x" * 300])
def test_names_from_the_url_are_validated(server: TestClient, name: str) -> None:
    """A name that is not a run id never reaches the store or a path, and is not echoed as HTML."""
    answer = server.get(f"/streamwarden/drills/{name}", headers=bearer("VIEWER"))
    assert answer.status_code in (404, 422)
    assert not answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("route", ROUTES)
def test_nothing_can_be_changed(server: TestClient, route: str, method: str) -> None:
    """The pages are read-only, for an admin too."""
    assert server.request(method, route, headers=bearer("ADMIN")).status_code == 405


def test_text_from_jobs_and_data_is_escaped_and_no_script_may_run(server: TestClient) -> None:
    """It is shown, as text; the policy would stop a script that slipped through."""
    answer = server.get("/streamwarden/drills/run-1", headers=bearer("VIEWER"))
    assert EVIL not in answer.text
    assert answer.text.count("&lt;script&gt;") >= 4
    assert "DEVIATED" in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_journal_can_be_read_by_a_program(server: TestClient) -> None:
    """Facts and entries, as JSON."""
    journal = server.get("/streamwarden/api/drills/run-1", headers=bearer("VIEWER")).json()
    assert journal["facts"]["reconciliation"]["lost"] == 1
    assert journal["entries"][0]["message"] == EVIL
    assert json.dumps(journal)


def test_the_status_names_each_stream(server: TestClient) -> None:
    """A stream that never ran is wanted running, and nothing is known of its health."""
    answer = server.get("/streamwarden/api/streams", headers=bearer("VIEWER")).json()
    assert answer["last_evaluation"]["late"]
    stream, _ = answer["streams"]
    assert stream["stream"] == "counted"
    assert stream["desired"] == "running"
    assert stream["driver"] is None
    assert stream["health"] == "UNKNOWN"
    assert stream["queries"] == []


def test_the_status_names_each_query_of_a_script_that_starts_several(server: TestClient) -> None:
    _, stream = server.get("/streamwarden/api/streams", headers=bearer("VIEWER")).json()["streams"]
    assert [(each["query"], each["health"], each["error"]) for each in stream["queries"]] == [
        ("pair/left", "UNKNOWN", None),
        ("pair/right", "UNKNOWN", EVIL),
    ]


def test_the_plugin_registers_the_app_and_the_link() -> None:
    """What Airflow's loader asks it for."""
    from airflow._shared.plugins_manager.plugins_manager import is_valid_plugin

    from streamwarden.airflow.plugin import StreamwardenPlugin

    assert is_valid_plugin(StreamwardenPlugin)
    plugin = StreamwardenPlugin()
    assert [app["url_prefix"] for app in plugin.fastapi_apps] == ["/streamwarden"]
    assert [link.name for link in plugin.operator_extra_links] == ["Drill report"]
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


def test_no_page_shows_a_secret_that_an_earlier_version_stored(server: TestClient) -> None:
    """The answers are redacted too, whatever the store holds."""
    from streamwarden.airflow import web

    secret = "hunter2-hunter2"
    answer = web._answer({"conf": {"spark.ssl.keyPassword": secret}, "reason": f"password={secret}"})
    assert secret.encode() not in bytes(answer.body)
