"""What programs read from `/api/v1`, over the store of a stream that has run for weeks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from streamwarden.services.overview.charts import CHARTS
from streamwarden.services.workspace import Workspace
from support.airflow_project import add_stream
from support.reports import report
from support.web_server import bearer, served

API = "/streamwarden/api/v1"
DAY = 86400.0
MEASURED = {"memory_usage", "backlog", "state_partitions"}
"""Charts of measurements, of which this store has none."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with served(tmp_path_factory.mktemp("api"), _fill) as client:
        yield client


def _fill(space: Workspace) -> None:
    """A batch an hour for twenty days; housekeeping has just run."""
    add_stream(space.project, "counted")
    now = time.time()
    reports = [report(number, at=now - 20 * DAY + 3600 * number) for number in range(20 * 24)]
    space.store.batches.upsert_many("counted", reports)
    space.store.roll_up(now)
    space.store.prune(now)


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
        if chart["name"] in MEASURED | {"state_size"}:  # its hours come from measurements
            continue
        at = chart["lines"][0]["at"]
        assert chart["hourly_until"] == pytest.approx(time.time() - 7 * DAY, abs=2 * 3600), chart["name"]
        assert at == sorted(at)
        assert at[0] < time.time() - 19 * DAY
        assert at[-1] > time.time() - 2 * 3600
