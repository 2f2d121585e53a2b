"""A script starts, stops and restarts a stream, runs a drill and an audit: each is a run of the DAG that the page runs.

The requests reach Airflow's own API in this process, which writes the runs to its database. No scheduler executes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from fastapi.testclient import TestClient

from streamwarden.waiting import wait_until
from support.airflow.known_dags import know
from support.airflow.project import add_stream
from support.airflow.web_fleet import fill
from support.airflow.web_server import bearer, served, token

API = "/streamwarden/api/v1"
WHY = {"reason": "the disk moves"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """`counted` with a drill and an audit; `drill_kill_driver` is paused, and `halted` has no audit."""
    root = tmp_path_factory.mktemp("runs")
    with served(root, fill) as client:
        from streamwarden.airflow.dags.audits import audit_dags
        from streamwarden.airflow.dags.controls import control_dags
        from streamwarden.airflow.dags.drills import drill_dags
        from streamwarden.airflow.workspaces import workspace

        file = str(root / "project" / "dags" / "streams.py")
        workspace.cache_clear()
        know([*control_dags(file).values(), *audit_dags(file).values()])
        know(drill_dags(file).values(), paused=True)
        yield client
        workspace.cache_clear()


def post(server: TestClient, path: str, body: Any, status: int = 202, role: str | None = "ADMIN") -> Any:
    answer = server.post(f"{API}{path}", json=body, headers=bearer(role))
    assert answer.status_code == status, answer.text
    return answer.json()


def run_of(answer: Any) -> Any:
    """The run as Airflow's database has it."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        chosen = select(DagRun).where(DagRun.dag_id == answer["dag_id"], DagRun.run_id == answer["dag_run_id"])
        run = session.scalars(chosen).one()
        session.expunge(run)
    return run


def runs(dag_id: str) -> int:
    """How many runs of the DAG Airflow's database has."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    with create_session() as session:
        return session.scalar(select(func.count()).where(DagRun.dag_id == dag_id)) or 0


def paused(dag_id: str, value: bool) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == dag_id).values(is_paused=value))


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
def test_a_verb_is_a_run_of_its_dag_by_the_user(server: TestClient, verb: str) -> None:
    found = post(server, f"/streams/counted/{verb}", WHY)
    run = run_of(found)
    assert found["dag_id"] == f"{verb}_stream"
    assert found["state"] == run.state == "queued"
    assert run.conf == {"stream": "counted", **WHY}
    assert run.triggering_user_name == "ann"
    assert found["url"].startswith(f"/dags/{verb}_stream/runs/manual__")
    assert found["follow"].startswith(f"/api/v2/dags/{verb}_stream/dagRuns/manual__")


def test_a_start_may_begin_anew(server: TestClient) -> None:
    found = post(server, "/streams/counted/start", {**WHY, "begin_anew": "the topic is new"})
    assert run_of(found).conf["begin_anew"] == "the topic is new"


def test_the_cookie_of_the_pages_is_enough(server: TestClient) -> None:
    answer = server.post(f"{API}/streams/counted/stop", json=WHY, cookies={"_token": token("ADMIN")})
    assert answer.status_code == 202, answer.text


def test_airflow_logs_who_asked(server: TestClient) -> None:
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    post(server, "/streams/counted/stop", WHY)
    with create_session() as session:
        events = session.execute(select(Log.event, Log.owner).where(Log.dag_id == "stop_stream")).all()
    assert ("trigger_dag_run", "ann") in [tuple(event) for event in events]


def test_an_audit_is_run(server: TestClient) -> None:
    assert run_of(post(server, "/streams/counted/audit", None)).dag_id == "audit_counted"


def test_a_stream_without_an_audit_says_how_to_get_one(server: TestClient) -> None:
    refusal = post(server, "/streams/halted/audit", None, 404)
    assert refusal["observed"] == "Airflow has no DAG audit_halted"
    assert "audit.schedule" in refusal["next_step"]


def test_a_drill_is_run_and_its_journal_named(server: TestClient) -> None:
    paused("drill_kill_driver", False)
    found = post(server, "/drills", {"drill": "kill_driver"})
    assert run_of(found).dag_id == "drill_kill_driver"
    assert found["drill_run_id"].startswith("kill_driver-")


def test_a_paused_dag_refuses_and_says_the_way_out(server: TestClient) -> None:
    """A run of it would be queued for ever, and a script would wait for it."""
    paused("drill_kill_driver", True)
    refusal = post(server, "/drills", {"drill": "kill_driver"}, 409)
    assert "drill_kill_driver is paused" in refusal["observed"]
    assert "airflow dags unpause drill_kill_driver" in refusal["next_step"]
    assert refusal["expected"]
    assert refusal["where"] == "drill_kill_driver"


def test_the_right_to_trigger_is_needed(server: TestClient) -> None:
    for path, body in {"/streams/counted/stop": WHY, "/streams/counted/audit": None, "/drills": {"drill": "x"}}.items():
        assert "you may not trigger" in post(server, path, body, 403, "VIEWER")["detail"]


def test_a_stream_that_is_not_there_is_not_stopped(server: TestClient) -> None:
    before = runs("stop_stream")
    refusal = post(server, "/streams/nobody/stop", WHY, 404)
    assert refusal["detail"] == "there is no stream nobody"
    assert runs("stop_stream") == before


@pytest.mark.parametrize("body", [{}, {"reason": ""}])
def test_a_verb_needs_a_reason(server: TestClient, body: dict[str, str]) -> None:
    before = runs("stop_stream")
    refusal = post(server, "/streams/counted/stop", body, 422)
    assert refusal["detail"].startswith("body.reason: ")
    assert runs("stop_stream") == before


def test_what_airflow_refuses_is_said_in_its_words(server: TestClient) -> None:
    """`late` was declared after Airflow had read the choice of streams of its form."""
    from streamwarden.airflow.web.shared_workspace import opened

    add_stream(opened().project, "late")
    stop = partial(server.post, f"{API}/streams/late/stop", json=WHY, headers=bearer("ADMIN"))
    assert wait_until(lambda: stop().status_code == 422, within=20, every=0.5), stop().text
    refusal = stop().json()
    assert refusal["where"] == "stop_stream"
    assert "status 400" in refusal["observed"]
