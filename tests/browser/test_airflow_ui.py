"""What a person on call sees in the Airflow UI, in a real browser.

1. Airflow starts with the DAGs of a project; tests/integration/test_compose.py starts it with this repository's own.
2. The list of DAGs shows the stream, the health checks and the drills, and no import error.
3. The page of each says what it is for.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from support.airflow.harness import Airflow
from support.airflow.installation import COUNTED, Installation
from support.airflow.site import KILL_IDLE

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]

DAGS = (COUNTED, "health", KILL_IDLE, "stop_stream")


@pytest.fixture
def airflow(site: Installation) -> Airflow:
    return site.airflow


@pytest.fixture
def page(airflow: Airflow, browser: Browser) -> Page:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.request.get(airflow.login)
    return page


def test_the_list_of_dags_shows_streams_health_and_drills(airflow: Airflow, page: Page) -> None:
    page.goto(f"{airflow.url}/dags")
    for dag_id in DAGS:
        expect(page.get_by_text(dag_id, exact=True).first).to_be_visible()
    assert airflow.import_errors() == []
    expect(page.get_by_text("Dag Import Error")).to_have_count(0)


@pytest.mark.parametrize(
    ("dag_id", "said"),
    [
        (COUNTED, "state_size"),
        # In the first tier dags/test_dag_files holds that each DAG has docs, and this one that Airflow shows them.
        pytest.param("health", "The stream is CRITICAL", marks=pytest.mark.full),
        pytest.param(KILL_IDLE, "A crash of the stream", marks=pytest.mark.full),
    ],
)
def test_each_dag_says_what_it_is_for(airflow: Airflow, page: Page, dag_id: str, said: str) -> None:
    page.goto(f"{airflow.url}/dags/{dag_id}")
    page.get_by_role("button", name="Dag Docs").click()
    expect(page.get_by_text(said).first).to_be_visible()
