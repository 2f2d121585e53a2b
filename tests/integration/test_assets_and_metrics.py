"""What other systems get from a real Airflow: a DAG that is scheduled on the progress of a stream, and Prometheus.

The DAG:

1. The stream commits; `publish_progress` emits one asset event, and the other DAG runs with what the event says.
2. More runs of `publish_progress` without progress: no event.
3. The stream commits again, and the run that was to publish it failed: the next run publishes it, once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamwarden.airflow.dags.publishing import DAG_ID, TASK_ID
from streamwarden.lifecycle.publishing import Publication
from streamwarden.services.workspace import Workspace
from support.airflow_harness import Airflow, running, wait_for
from support.airflow_project import add_stream, make_project
from support.promtool import promtool
from support.reports import QUERY, report

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]

TOKEN = "scrape-token-of-this-test"
CONSUMER = '''
import json
from pathlib import Path

from airflow.sdk import DAG, Asset, task

COUNTED = Asset(name="stream_counted", uri="streamwarden://counted")

with DAG("consumer", schedule=[COUNTED], is_paused_upon_creation=False):

    @task
    def note(triggering_asset_events=None):
        """Write down what each event says."""
        with Path(SEEN).open("a") as seen:
            for event in triggering_asset_events[COUNTED]:
                seen.write(json.dumps(event.extra) + "\\n")

    note()
'''


@dataclass
class Installation:
    airflow: Airflow
    space: Workspace
    seen: Path

    def commit(self, *batches: int) -> None:
        for batch in batches:
            self.space.store.batches.upsert_progress("counted", report(batch, rows=10))

    def publish(self) -> dict[str, Any]:
        """Run the task once more, and return its task instance when it has ended."""
        run = self.airflow.trigger(DAG_ID)

        def ended() -> bool:
            return self.task(run)["state"] in ("success", "failed")

        wait_for("the run of publish_progress", ended, timeout=180, explain=lambda: self.airflow.tail("scheduler"))
        return self.task(run)

    def task(self, run: str) -> dict[str, Any]:
        (found,) = self.airflow.tasks(DAG_ID, run)
        return found

    def events(self) -> list[dict[str, Any]]:
        """What Airflow kept, oldest first."""
        found = self.airflow.call("GET", "/assets/events", order_by="timestamp")["asset_events"]
        return [each["extra"] for each in found]

    def consumed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.seen.read_text().splitlines()] if self.seen.exists() else []


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    root = tmp_path_factory.mktemp("assets")
    project = make_project(root / "project")
    path = add_stream(project, "counted")
    path.write_text(f"{path.read_text()}\npublish: {{batches: 1}}\n")
    seen = root / "seen"
    (project / "dags" / "consumer.py").write_text(CONSUMER.replace("SEEN", repr(str(seen))))
    airflow = Airflow(root / "airflow", project, root / "data")
    airflow.env["STREAMWARDEN_METRICS_TOKEN"] = TOKEN
    space = Workspace.open(project, root / "data", environ={})
    try:
        with running(airflow):
            wait_for("the DAGs", lambda: {DAG_ID, "consumer"} <= airflow.dag_ids(), timeout=240)
            airflow.silence()
            yield Installation(airflow, space, seen)
    finally:
        space.close()


def ranges(events: list[dict[str, Any]]) -> list[tuple[int | None, int, int]]:
    return [(each["after_batch_id"], each["batch_id"], each["rows"]) for each in events]


def test_a_dag_runs_once_for_each_step_of_the_stream(there: Installation) -> None:
    """The three steps above."""
    there.commit(0, 1, 2)
    assert there.publish()["state"] == "success"
    wait_for("the DAG that waits for the stream", lambda: len(there.consumed()) == 1, timeout=180)
    assert ranges(there.consumed()) == ranges(there.events()) == [(None, 2, 30)]

    idle = there.publish()
    assert (idle["state"], len(there.events())) == ("success", 1)

    there.airflow.pause(DAG_ID, True)
    there.airflow.mark_failed(DAG_ID, idle)
    failed = Publication(
        stream="counted",
        query_id=QUERY,
        batch_id=4,
        batch_at=time.time(),
        published_at=time.time(),
        run=idle["dag_run_id"],
        pending=True,
    )
    there.commit(3, 4)
    there.space.store.publications.propose([failed])
    there.airflow.pause(DAG_ID, False)
    there.publish()
    there.publish()
    wait_for("the second run of that DAG", lambda: len(there.consumed()) == 2, timeout=180)
    assert ranges(there.events()) == ranges(there.consumed()) == [(None, 2, 30), (2, 4, 20)]
    assert there.task(there.airflow.runs(DAG_ID)[0]["dag_run_id"])["task_id"] == TASK_ID


def test_prometheus_scrapes_the_api_server_with_the_token(there: Installation) -> None:
    """Through Airflow's own middlewares. promtool accepts the text; a wrong token gets nothing, the right one no API.

    A request without any token is that of an administrator here: this Airflow has no login.
    """
    there.commit(0)
    url = f"{there.airflow.url}/streamwarden/metrics"
    token = {"Authorization": f"Bearer {TOKEN}"}
    answer = httpx.get(url, headers=token, timeout=30)
    assert answer.status_code == 200
    assert 'streamwarden_batches_total{query="",stream="counted"}' in answer.text
    checked = promtool("check", "metrics", given=answer.content)
    assert (checked.returncode, checked.stdout) == (0, "")
    assert httpx.get(url, headers={"Authorization": "Bearer wrong"}, timeout=30).status_code == 401
    assert httpx.get(f"{there.airflow.url}/api/v2/dags", headers=token, timeout=30).status_code in (401, 403)
