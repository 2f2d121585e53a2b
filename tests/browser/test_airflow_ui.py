"""What a person on call sees in the Airflow UI, in a real browser.

1. Airflow starts with this repository's own DAGs.
2. The list of DAGs shows the stream, the health checks and the drills, and no import error.
3. The page of each says what it is for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from support.airflow_harness import REPOSITORY, Airflow, running, wait_for

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(400)]

DAGS = ("stream_flight_departures", "health", "drill_kill_driver", "drill_controlled_restart")


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    root = tmp_path_factory.mktemp("ui")
    with running(Airflow(root / "airflow", REPOSITORY, root / "data")) as found:
        wait_for(
            "the DAGs",
            lambda: found.dag_ids() >= set(DAGS),
            timeout=120,
            explain=lambda: found.tail("dag-processor"),
        )
        found.silence()
        yield found


@pytest.fixture
def page(airflow: Airflow, browser: Browser) -> Page:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(airflow.url)  # the demo's login: none
    return page


def test_the_list_of_dags_shows_streams_health_and_drills(airflow: Airflow, page: Page, tmp_path: Path) -> None:
    page.goto(f"{airflow.url}/dags")
    for dag_id in DAGS:
        expect(page.get_by_text(dag_id, exact=True).first).to_be_visible()
    assert airflow.import_errors() == []
    expect(page.get_by_text("Dag Import Error")).to_have_count(0)


@pytest.mark.parametrize(
    ("dag_id", "said"),
    [
        ("stream_flight_departures", "state_size"),
        ("health", "The stream is CRITICAL"),
        ("drill_kill_driver", "SIGKILL"),
    ],
)
def test_each_dag_says_what_it_is_for(airflow: Airflow, page: Page, dag_id: str, said: str) -> None:
    page.goto(f"{airflow.url}/dags/{dag_id}")
    page.get_by_role("button", name="Dag Docs").click()
    expect(page.get_by_text(said).first).to_be_visible()
