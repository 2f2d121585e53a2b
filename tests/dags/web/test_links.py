"""Links from task instances: each leads to a page that exists, as the worker makes them when a try has ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.serialization.serialized_objects import DagSerialization
from fastapi.testclient import TestClient

from streamwarden.airflow.dags.audits import audit_dags
from streamwarden.airflow.dags.controls import control_dags
from streamwarden.airflow.dags.drills import drill_dags
from streamwarden.airflow.dags.health import health_dag
from streamwarden.airflow.dags.streams import stream_dags
from streamwarden.airflow.links import PAGES, drill_run_id
from streamwarden.drills.records.journal import DrillRun
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.airflow.web_server import bearer, served
from support.streams.queries import query_record

RUN = "manual__2026-11-21T14:11:05.464473+00:00"
BASE = "/ops/airflow"
AUDIT = '\naudit: {schedule: "30 3 * * *", batches: 50}\n'
FORK = "name: kill\nstream: counted\nfault: {kind: kill_driver}\n"
LIVE = """
name: kill_live
stream: counted
fault: {kind: kill_driver}
target: production
production: {allowed_hours: {start: "09:00", end: "16:00"}, approval_within: 2h, approvers: [ada]}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Airflow behind a proxy, with streams, drills, and a run of each drill."""
    with (
        pytest.MonkeyPatch.context() as patch,
        served(tmp_path_factory.mktemp("links"), _fill, base=BASE) as client,
    ):
        patch.setenv("AIRFLOW__API__BASE_URL", f"https://ops.example{BASE}/")
        yield client


def _fill(space: Workspace) -> None:
    path = add_stream(space.project, "counted")
    path.write_text(path.read_text() + AUDIT)
    add_stream(space.project, "pair")
    for name in ("left", "right"):
        space.store.queries.started(query_record("pair", name, driver="pair-1", at=1.0))
    for name, text in {"kill": FORK, "kill_live": LIVE}.items():
        (space.project / "config" / "drills" / f"{name}.yaml").write_text(text)
        run = DrillRun(run_id=drill_run_id(name, RUN), drill=name, stream="counted", started_at=1.0)
        space.store.journals.save(run)


@pytest.fixture
def dag_file(server: TestClient) -> str:
    from streamwarden.airflow.web.shared_workspace import opened

    return str(opened().project / "dags" / "any.py")


def _links(operator: Any) -> dict[str, str]:
    """Name -> address, as Airflow's worker computes them of an operator whose try has ended."""
    ended = SimpleNamespace(run_id=RUN)
    return {link.name: link.get_link(operator, ti_key=ended) for link in operator.operator_extra_links}


def _leads_to(server: TestClient, address: str) -> str:
    """The page without Airflow's path. It must exist."""
    assert server.get(address, headers=bearer("VIEWER")).status_code == 200, address
    return address.removeprefix(f"{BASE}{PAGES}")


@pytest.mark.parametrize("drill", ["kill", "kill_live"])
def test_every_task_of_a_drill_leads_to_its_run(server: TestClient, dag_file: str, drill: str) -> None:
    dag = drill_dags(dag_file)[f"drill_{drill}"]
    assert ("approval" in dag.task_ids) is (drill == "kill_live")
    for task in dag.tasks:
        (address,) = _links(task).values()
        assert _leads_to(server, address) == f"/drills/{drill_run_id(drill, RUN)}", task.task_id


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
def test_a_verbs_task_leads_to_the_stream_of_its_form(server: TestClient, dag_file: str, verb: str) -> None:
    """Airflow renders the operator before each part of a try, also when it resumes one that was deferred."""
    task = control_dags(dag_file)[f"{verb}_stream"].get_task(verb)
    task.render_template_fields({"params": {"stream": "counted", "reason": "new code"}})
    assert _leads_to(server, _links(task)["Stream"]) == "/streams/counted"


def test_the_tasks_of_a_stream_and_of_its_audit_lead_to_it(server: TestClient, dag_file: str) -> None:
    for dag, task in (
        (stream_dags(dag_file)["stream_counted"], "run"),
        (audit_dags(dag_file)["audit_counted"], "balance"),
    ):
        assert _leads_to(server, _links(dag.get_task(task))["Stream"]) == "/streams/counted"


@pytest.mark.parametrize(
    ("stream", "page"),
    [("counted", "/streams/counted"), ("pair/left", "/streams/pair?query=left"), ("", "/")],
    ids=["a stream", "a query of several", "all that are healthy"],
)
def test_a_health_task_leads_to_the_stream_it_judged(server: TestClient, dag_file: str, stream: str, page: str) -> None:
    """The entries are as XCom hands them to the instances of the task."""
    mapped = health_dag(Path(dag_file).parents[1]).get_task("stream")
    entry = {"title": stream or "2 streams: healthy", "status": "OK", "lines": ["…"], "critical": [], "judged": True}
    instance = mapped.unmap({"result": {**entry, "stream": stream}})
    assert _leads_to(server, _links(instance)["Stream"]) == page
    shown: dict[str, Any] = {}
    instance.execute(shown)
    assert shown == {"label": entry["title"]}


@pytest.mark.parametrize("name", ["../x?a=#b", "..", "{{ params.stream }}"])
def test_what_cannot_be_a_name_leads_to_the_fleet(server: TestClient, dag_file: str, name: str) -> None:
    task = control_dags(dag_file)["stop_stream"].get_task("stop")
    task.render_template_fields({"params": {"stream": name}})
    assert _leads_to(server, _links(task)["Stream"]) == "/"


def test_the_ui_knows_the_links_of_each_dag(server: TestClient, dag_file: str) -> None:
    """It has a DAG only in its serialized form."""
    dags = {
        **control_dags(dag_file),
        **audit_dags(dag_file),
        **drill_dags(dag_file),
        "health": health_dag(Path(dag_file).parents[1]),
    }
    expected = {"drill": "Drill report", "stop": "Stream", "start": "Stream", "restart": "Stream", "audit": "Stream"}
    for name, dag in dags.items():
        again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        for task in again.tasks:
            links = [] if task.task_id in ("evaluate", "notify") else [expected.get(name.partition("_")[0], "Stream")]
            assert list(task.extra_links) == links, (name, task.task_id)
