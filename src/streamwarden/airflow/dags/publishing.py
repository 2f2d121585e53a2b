"""The DAG that publishes the progress of streams as asset events, so that other DAGs can be scheduled on it."""

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, Asset, AssetAlias, get_current_context, get_parsing_context, task

from streamwarden.airflow.notifying import report_outages
from streamwarden.airflow.projects import ALWAYS_ON, TAG, project_of
from streamwarden.airflow.workspaces import workspace
from streamwarden.lifecycle.publishing import Ending

DAG_ID: Final = "publish_progress"
TASK_ID: Final = "publish"

ALIAS: Final = AssetAlias("streamwarden")
"""The task's outlet. It emits events of the assets that it names, and of no other: a task with the assets themselves as
outlets would emit an event of each of them whenever it succeeds."""

_OPEN: Final = frozenset({None, "scheduled", "queued", "running", "restarting", "deferred", "up_for_retry"})
"""States of a task that has not ended, as Airflow calls them."""

_DOC: Final = """\
### Progress of streams as assets

Each minute it looks at the streams whose file has `publish`, and emits an event of the asset `stream_NAME` if one is
due and new batches were committed. A run in which nothing is due emits nothing. The extra of an event has the newest
batch, the watermark, and how many batches and rows came since the event before.

    @dag(schedule=[Asset(name="stream_NAME", uri="streamwarden://NAME")])
"""


def publishing_dags(dag_file: str) -> dict[str, DAG]:
    """`publish_progress`, if a stream publishes its progress; otherwise none. Its own task need not read every stream's
    file to find that out."""
    project = project_of(dag_file)
    if get_parsing_context().dag_id == DAG_ID:
        return {DAG_ID: publishing_dag(project)}
    streams = workspace(str(project)).catalog().streams
    return {DAG_ID: publishing_dag(project)} if any(stream.publish.wanted for stream in streams.values()) else {}


def publishing_dag(project: Path) -> DAG:
    """The DAG: one task for all streams. Each run reads the streams' files again."""
    folder = str(project)
    with DAG(
        dag_id=DAG_ID,
        description="Publishes the progress of streams as asset events",
        doc_md=_DOC,
        schedule="* * * * *",
        **ALWAYS_ON,
        dagrun_timeout=timedelta(minutes=5),
        tags=[TAG, "assets"],
        default_args={"owner": "streamwarden", "execution_timeout": timedelta(seconds=55)},
    ) as dag:

        @task(task_id=TASK_ID, outlets=[ALIAS], doc_md="Emits the events that are due.", **report_outages(folder))
        def publish() -> None:
            publish_due(folder, dict(get_current_context()), time.time())

        publish()
    return dag


def asset(stream: str) -> Asset:
    """The asset of a stream, or of `STREAM/QUERY`."""
    return Asset(name=f"stream_{stream}", uri=f"streamwarden://{stream}")


def publish_due(project: str, context: Mapping[str, Any], now: float) -> None:
    """Emit the events that are due. Raises StoreError."""
    from streamwarden.services.exporting.progress_events import due_events

    space, ti = workspace(project), context["ti"]
    specs = space.catalog().streams.values()
    events = due_events(space.store, specs, run=ti.run_id, endings=lambda runs: _endings(ti, runs), now=now)
    for event in events:
        context["outlet_events"][ALIAS].add(asset(event.publication.stream), extra=dict(event.extra))
        print(f"{event.publication.stream}: batch {event.publication.batch_id}, {event.extra['rows']} new rows")
    print(f"{len(events)} events")


def _endings(ti: Any, runs: Sequence[str]) -> dict[str, Ending]:
    """Final states of earlier runs of this task. A deleted run had ended, and counts as published: an event must not
    be sent twice."""
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=list(runs))
    return {run: _ending(states[run].get(ti.task_id)) if run in states else Ending.PUBLISHED for run in runs}


def _ending(state: str | None) -> Ending:
    if state in _OPEN:
        return Ending.OPEN
    return Ending.PUBLISHED if state == "success" else Ending.LOST
