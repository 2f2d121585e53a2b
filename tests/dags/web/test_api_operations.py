"""What scripts rely on: names that stay, parameters that are checked, answers cut to what is wanted, plain errors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from streamwarden.airflow.web.api.operations import described
from streamwarden.airflow.web.app import build_app
from streamwarden.health.evaluations import EvaluationRecord, Evaluator
from streamwarden.health.verdict import APPLIES, Status, Verdict
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.airflow.web_server import bearer, served

API = "/streamwarden/api/v1"

OPERATIONS = {
    "acknowledge_incident",
    "ask_for_assignment",
    "ask_for_deletion",
    "ask_for_look",
    "audit_stream",
    "comment_on_incident",
    "end_mute",
    "get_advice",
    "get_assignment",
    "get_charts",
    "get_checkpoint",
    "get_declaration",
    "get_deletion",
    "get_drill_journal",
    "get_driver_log",
    "get_incident",
    "get_index",
    "get_look",
    "get_resilience_matrix",
    "get_savepoint",
    "get_state",
    "get_stream",
    "list_assignments",
    "list_deletions",
    "list_drill_runs",
    "list_drivers",
    "list_events",
    "list_hosts",
    "list_incidents",
    "list_looks",
    "list_mutes",
    "list_savepoints",
    "list_streams",
    "mute_check",
    "mute_stream",
    "plan_change",
    "plan_maintenance",
    "plan_maintenance_of_stream",
    "restart_stream",
    "start_drill",
    "start_stream",
    "stop_stream",
    "withdraw_acknowledgement",
}
"""Generated clients name their functions after these: a name is added, and never changed."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with served(tmp_path_factory.mktemp("operations"), _fill) as client:
        yield client


def _fill(space: Workspace) -> None:
    """`counted`: a query without state."""
    add_stream(space.project, "counted")
    now = time.time()
    judged = {"state_size": 0.0, "state_growth": None}
    space.store.verdicts.save(
        Verdict(stream="counted", check=check, status=Status.OK, at=now, value=value, evidence={APPLIES: False})
        for check, value in judged.items()
    )
    space.store.evaluations.record(
        EvaluationRecord(at=now, evaluator=Evaluator.WATCH, host="node-1", seconds=0.5, streams=1)
    )


def ask(server: TestClient, path: str, status: int = 200, role: str = "VIEWER") -> Any:
    answer = server.get(f"{API}{path}", headers=bearer(role))
    assert answer.status_code == status, answer.text
    return answer.json()


def test_the_names_of_operations_stay(server: TestClient) -> None:
    document = ask(server, "/openapi.json")
    found = [each["operationId"] for methods in document["paths"].values() for each in methods.values()]
    assert sorted(found) == sorted(OPERATIONS)


def test_the_index_names_every_operation_and_its_description(server: TestClient) -> None:
    found = ask(server, "/")
    assert {each["id"] for each in found["operations"]} == OPERATIONS
    assert all(each["description"] for each in found["operations"])
    assert ask(server, found["openapi"].removeprefix("/api/v1"))["info"]["title"] == "Streamwarden"


def test_requests_that_come_at_once_share_one_description() -> None:
    app = build_app()
    with ThreadPoolExecutor(8) as requests:
        documents = list(requests.map(lambda _: described(app), range(8)))
    assert len({id(document) for document in documents}) == 1


def test_the_documentation_loads_its_files_from_here(server: TestClient) -> None:
    shown = server.get(f"{API}/docs", headers={**bearer("VIEWER"), "Accept": "text/html"})
    assert "script-src 'self';" in shown.headers["content-security-policy"]
    assert "//" not in shown.text.replace("<!doctype", "")
    for name, kind in {
        "swagger-ui.css": "css",
        "swagger-ui-bundle.js": "javascript",
        "api_docs.js": "javascript",
    }.items():
        assert f'"docs/{name}"' in shown.text
        answer = server.get(f"{API}/docs/{name}", headers=bearer("VIEWER"))
        assert answer.status_code == 200
        assert kind in answer.headers["content-type"]
    assert server.get(f"{API}/docs/main.py", headers=bearer("VIEWER")).status_code == 404


def test_an_unknown_parameter_is_refused_with_those_that_there_are(server: TestClient) -> None:
    """A filter with a typing error would otherwise select everything."""
    refusal = ask(server, "/streams?healthy=OK&limit=1", 422)
    assert refusal["observed"] == "unknown parameter 'healthy'"
    assert refusal["where"] == "operation list_streams"
    for name in ("fields", "health", "limit", "q"):
        assert name in refusal["expected"]
    assert refusal["next_step"]
    assert refusal["detail"].startswith("operation list_streams: unknown parameter 'healthy'; expected only: ")


def test_a_stranger_does_not_learn_the_parameters(server: TestClient) -> None:
    answer = server.get(f"{API}/streams?healthy=OK")
    assert answer.status_code == 401
    assert "limit" not in answer.text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/streams?fields=found,streams.stream", {"found": 1, "streams": [{"stream": "counted"}]}),
        (
            "/streams?fields=evaluation.host,totals.streams",
            {"evaluation": {"host": "node-1"}, "totals": {"streams": 1}},
        ),
        ("/streams/counted?fields=rows.metrics.state_size.status", None),
        ("/streams/counted?fields= rows.forecast.status , rows.state", None),
        ("/incidents?fields=incident_id", []),
        ("/mutes?fields=who", []),
    ],
)
def test_an_answer_has_the_wanted_fields_alone(server: TestClient, path: str, expected: Any) -> None:
    found = ask(server, path)
    if expected is None:
        (row,) = found["rows"]
        assert list(found) == ["rows"]
        assert row in (
            {"metrics": {"state_size": {"status": "NOT_APPLICABLE"}}},
            {"forecast": {"status": "NOT_APPLICABLE"}, "state": "new"},
        )
    else:
        assert found == expected


@pytest.mark.parametrize("fields", ["streams.name", "stream", "at.seconds", "streams.forecast.secs"])
def test_a_field_that_an_answer_lacks_is_refused_with_those_that_it_has(server: TestClient, fields: str) -> None:
    refusal = ask(server, f"/streams?fields={fields}", 422)
    assert refusal["observed"] == f"the answer has no field {fields!r}"
    assert refusal["expected"]


def test_a_change_is_not_made_if_its_answer_cannot_be_given(server: TestClient) -> None:
    wanted = {"hours": 1, "reason": "a larger disk"}
    answer = server.post(f"{API}/streams/counted/mute?fields=nothing", json=wanted, headers=bearer("ADMIN"))
    assert answer.status_code == 422
    assert ask(server, "/mutes") == []


def test_every_operation_takes_the_parameter(server: TestClient) -> None:
    document = ask(server, "/openapi.json")
    for methods in document["paths"].values():
        for each in methods.values():
            assert "fields" in {parameter["name"] for parameter in each["parameters"]}, each["operationId"]


def test_the_last_evaluation_is_a_sentence_and_fields(server: TestClient) -> None:
    found = ask(server, "/streams")
    assert "by `streamwarden watch` on node-1." in found["last_evaluation"]
    evaluation = found["evaluation"]
    assert (evaluation["late"], evaluation["evaluator"], evaluation["host"]) == (False, "watch", "node-1")
    assert evaluation["at"] == pytest.approx(time.time(), abs=60)


def test_a_user_who_may_not_read_the_health_dag_learns_nothing_of_the_evaluation(server: TestClient) -> None:
    answer = server.get(f"{API}/streams", headers=bearer(None)).json()
    assert (answer["evaluation"], answer["last_evaluation"]) == (None, "")


def test_what_does_not_apply_has_a_value_of_its_own(server: TestClient) -> None:
    (row,) = ask(server, "/streams")["streams"]
    assert row["metrics"]["state_size"]["status"] == "NOT_APPLICABLE"
    assert row["forecast"]["status"] == "NOT_APPLICABLE"
    assert row["forecast"]["limit_bytes"] == 5e9


def test_a_refusal_is_plain_text(server: TestClient) -> None:
    """It is JSON, which no browser reads as a page: whoever shows it escapes it."""
    answer = server.get(f"{API}/streams?state=%3Cb%3E", headers=bearer("VIEWER"))
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    refusal = ask(server, "/streams?%3Cb%3E=1", 422)
    assert "'<b>'" in refusal["detail"]
    assert "&lt;" not in json.dumps(refusal)
