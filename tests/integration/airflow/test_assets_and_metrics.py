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

from streamwarden.airflow.dags.publishing import TASK_ID
from streamwarden.lifecycle.publishing import Publication
from streamwarden.services.workspace import Workspace
from support.airflow.harness import Airflow, wait_for
from support.airflow.installation import LONG, Installation
from support.airflow.site import METRICS_TOKEN, PUBLISHING, noted_events
from support.servers.promtool import promtool
from support.streams.reports import QUERY, report

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]


@dataclass
class Publishing:
    airflow: Airflow
    space: Workspace
    seen: Path

    def commit(self, *batches: int) -> None:
        for batch in batches:
            self.space.store.batches.upsert_progress("published", report(batch, rows=10))

    def publish(self) -> dict[str, Any]:
        """Run the task once more, and return its task instance when it has ended."""
        run = self.airflow.trigger(PUBLISHING)

        def ended() -> bool:
            return self.task(run)["state"] in ("success", "failed")

        wait_for("the run of publish_progress", ended, timeout=180, explain=lambda: self.airflow.tail("scheduler"))
        return self.task(run)

    def task(self, run: str) -> dict[str, Any]:
        (found,) = self.airflow.tasks(PUBLISHING, run)
        return found

    def events(self) -> list[dict[str, Any]]:
        """What Airflow kept, oldest first."""
        found = self.airflow.call("GET", "/assets/events", order_by="timestamp")["asset_events"]
        return [each["extra"] for each in found]

    def consumed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.seen.read_text().splitlines()] if self.seen.exists() else []


@pytest.fixture
def there(site: Installation) -> Iterator[Publishing]:
    site.airflow.pause(PUBLISHING, False)
    wait_for("the other DAG", lambda: "consumer" in site.airflow.dag_ids(), timeout=LONG)
    yield Publishing(site.airflow, site.space, noted_events(site.space.data))
    site.airflow.pause(PUBLISHING, True)


def ranges(events: list[dict[str, Any]]) -> list[tuple[int | None, int, int]]:
    return [(each["after_batch_id"], each["batch_id"], each["rows"]) for each in events]


def test_a_dag_runs_once_for_each_step_of_the_stream(there: Publishing) -> None:
    """The three steps above."""
    there.commit(0, 1, 2)
    assert there.publish()["state"] == "success"
    wait_for("the DAG that waits for the stream", lambda: len(there.consumed()) == 1, timeout=180)
    assert ranges(there.consumed()) == ranges(there.events()) == [(None, 2, 30)]

    idle = there.publish()
    assert (idle["state"], len(there.events())) == ("success", 1)

    there.airflow.pause(PUBLISHING, True)
    there.airflow.mark_failed(PUBLISHING, idle)
    failed = Publication(
        stream="published",
        query_id=QUERY,
        batch_id=4,
        batch_at=time.time(),
        published_at=time.time(),
        run=idle["dag_run_id"],
        pending=True,
    )
    there.commit(3, 4)
    there.space.store.publications.propose([failed])
    there.airflow.pause(PUBLISHING, False)
    there.publish()
    there.publish()
    wait_for("the second run of that DAG", lambda: len(there.consumed()) == 2, timeout=180)
    assert ranges(there.events()) == ranges(there.consumed()) == [(None, 2, 30), (2, 4, 20)]
    assert there.task(there.airflow.runs(PUBLISHING)[0]["dag_run_id"])["task_id"] == TASK_ID


def test_prometheus_scrapes_the_api_server_with_the_token(there: Publishing) -> None:
    """Through Airflow's own middlewares. promtool accepts the text; a wrong token gets nothing, the right one no API.

    A request without any token is that of an administrator here: this Airflow has no login.
    """
    there.commit(0)
    url = f"{there.airflow.url}/streamwarden/metrics"
    token = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    answer = httpx.get(url, headers=token, timeout=30)
    assert answer.status_code == 200
    assert 'streamwarden_batches_total{query="",stream="published"}' in answer.text
    checked = promtool("check", "metrics", given=answer.content)
    assert (checked.returncode, checked.stdout) == (0, "")
    assert httpx.get(url, headers={"Authorization": "Bearer wrong"}, timeout=30).status_code == 401
    assert httpx.get(f"{there.airflow.url}/api/v2/dags", headers=token, timeout=30).status_code in (401, 403)
