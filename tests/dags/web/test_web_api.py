"""What programs read from `/api/v1`, over the store of a stream that has run for weeks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status
from streamwarden.services.overview.charts import CHARTS
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.airflow.web_server import bearer, served
from support.streams.reports import report

PAGES = "/streamwarden"
API = f"{PAGES}/api/v1"
DAY = 86400.0
MEASURED = {"memory_usage", "backlog", "state_partitions", "partition_lag"}
"""Charts of measurements, and of a source with partitions, of which this store has none."""
PARTED = {chart.name for chart in CHARTS if chart.parts is not None}
"""Charts with a line for each part, such as an operator: they end where batches are not kept any more."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with served(tmp_path_factory.mktemp("api"), _fill) as client:
        yield client


def _fill(space: Workspace) -> None:
    """`counted`: a batch an hour for twenty days, housekeeping has just run, and two old incidents; `noisy`: many newer
    incidents."""
    add_stream(space.project, "counted")
    add_stream(space.project, "noisy")
    for number in range(1100):
        space.store.incidents.save(_incident("noisy", f"noisy-{number}", 2000.0 + number))
    for name in ("counted", "counted/left"):
        space.store.incidents.save(_incident(name, name.replace("/", "-"), 1000.0))
    now = time.time()
    reports = [report(number, at=now - 20 * DAY + 3600 * number) for number in range(20 * 24)]
    space.store.batches.upsert_many("counted", reports)
    space.store.roll_up(now)
    space.store.prune(now)


def _incident(stream: str, incident_id: str, at: float) -> Incident:
    return Incident(
        incident_id=incident_id,
        stream=stream,
        check="state_size",
        status=Status.OK,
        opened_at=at,
        updated_at=at + 60,
        resolved_at=at + 60,
        reason="too large",
    )


def get(server: TestClient, path: str, role: str = "VIEWER") -> Any:
    answer = server.get(f"{API}{path}", headers=bearer(role))
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_range_of_seven_days_is_drawn_from_batches(server: TestClient) -> None:
    """As a browser asks for it: its clock minus exactly seven days, a moment before the server reads its own."""
    found = get(server, f"/streams/counted/charts?since={time.time() - 604800}")
    assert len(found["charts"]) == len(CHARTS)
    for chart in found["charts"]:
        assert chart["hourly_until"] is None, chart["name"]
        if chart["name"] not in MEASURED:
            assert len(chart["lines"][0]["at"]) >= 160, chart["name"]


def test_a_longer_range_begins_with_means_of_hours_and_ends_with_batches(server: TestClient) -> None:
    found = get(server, f"/streams/counted/charts?since={time.time() - 90 * DAY}")
    for chart in found["charts"]:
        if chart["name"] in MEASURED | PARTED | {"state_size"}:  # its hours come from measurements
            continue
        at = chart["lines"][0]["at"]
        assert chart["hourly_until"] == pytest.approx(time.time() - 7 * DAY, abs=2 * 3600), chart["name"]
        assert at == sorted(at)
        assert at[0] < time.time() - 19 * DAY
        assert at[-1] > time.time() - 2 * 3600


@pytest.mark.parametrize("limit", [1, 100, 1000])
def test_past_incidents_of_a_stream_are_found_behind_a_thousand_of_another(server: TestClient, limit: int) -> None:
    """For its charts and for its page; with those of its queries."""
    found = get(server, f"/incidents?past=true&stream=counted&limit={limit}")
    assert {each["incident_id"] for each in found} <= {"counted", "counted-left"}
    assert len(found) == min(limit, 2)


def test_the_page_of_a_stream_with_old_incidents_lists_them(server: TestClient) -> None:
    text = server.get(f"{PAGES}/incidents?past=true&stream=counted", headers=bearer("VIEWER")).text
    assert "There was no incident" not in text
    assert "incidents/counted-left" in text
    assert "noisy-" not in text


def test_incidents_of_streams_that_are_hidden_do_not_push_out_those_that_a_user_may_read(
    server: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.api_fastapi.app import get_auth_manager

    manager = type(get_auth_manager())

    def only_counted(self: object, *, details: Any, **_: Any) -> bool:
        return str(details.id) == "stream_counted"

    monkeypatch.setattr(manager, "is_authorized_dag", only_counted)
    assert len(get(server, "/incidents?past=true&limit=10")) == 2


@pytest.mark.parametrize(
    ("query", "allowed"),
    [("health=CRITICL", "'OK', 'WARNING', 'CRITICAL' or 'UNKNOWN'"), ("state=runing", "'running', 'starting'")],
)
def test_a_filter_that_no_stream_can_fit_is_refused_with_what_is_allowed(
    server: TestClient, query: str, allowed: str
) -> None:
    for place in (f"{API}/streams", f"{PAGES}/"):
        answer = server.get(f"{place}?{query}", headers=bearer("VIEWER"))
        assert answer.status_code == 422
        assert allowed in answer.json()["detail"]


@pytest.mark.parametrize(
    ("query", "found"),
    [("", 2), ("health=&state=", 2), ("health=UNKNOWN", 2), ("health=OK", 0), ("state=new", 2), ("state=running", 0)],
)
def test_a_filter_selects_streams_and_an_empty_one_all(server: TestClient, query: str, found: int) -> None:
    assert get(server, f"/streams?{query}")["found"] == found


def test_the_document_lists_the_values_of_each_filter(server: TestClient) -> None:
    document = get(server, "/openapi.json")
    given = {each["name"]: each["schema"] for each in document["paths"]["/api/v1/streams"]["get"]["parameters"]}
    text = {name: json.dumps(_resolved(given[name], document)) for name in ("health", "state")}
    assert '"enum": ["OK", "WARNING", "CRITICAL", "UNKNOWN"]' in text["health"]
    assert '"unresponsive"' in text["state"]


def _resolved(schema: Any, document: Any) -> Any:
    """The schema with each reference replaced by what it refers to."""
    if isinstance(schema, list):
        return [_resolved(each, document) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _resolved(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    return {key: _resolved(value, document) for key, value in schema.items()}
