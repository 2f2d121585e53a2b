"""The health DAG: each minute it runs all checks on all streams, shows each stream by name and sends notifications."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import DAG, TriggerRule, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from streamwarden.airflow.connections import published
from streamwarden.airflow.projects import START, TAG, project_of
from streamwarden.airflow.unpausing import remember_server
from streamwarden.airflow.workspaces import workspace
from streamwarden.health.verdict import Status

if TYPE_CHECKING:
    from streamwarden.services.monitoring.health_monitor import StreamHealth
    from streamwarden.services.workspace import Workspace

VISIBLE: Final = 50
"""Healthy streams that each get a separate task, which costs a process. The others share one task. A stream that is not
OK always has its own."""

_DOC: Final = """\
### Health of all streams

Each minute, `evaluate` reads the store and the checkpoints, runs every check on every stream, stores the verdicts and
opens, updates or resolves incidents. Then each stream has one task instance with its name. **Red means CRITICAL**; the
log shows every verdict with its advice. Healthy streams beyond the first 50 share one instance. `notify` sends the
notifications that are due, through the notifiers of `config/notifications.yaml` and Apprise, and never twice for one
incident within its resend interval.

A run that takes longer than a minute delays the next one; runs never overlap.
"""


def health_dags(dag_file: str) -> dict[str, DAG]:
    """`health`."""
    dag = health_dag(project_of(dag_file))
    return {dag.dag_id: dag}


def health_dag(project: Path) -> DAG:
    """The DAG over the streams of `project`. Each run reads the files again, so a new stream needs no new DAG."""
    folder = str(project)
    with DAG(
        dag_id="health",
        description="Checks every stream each minute",
        doc_md=_DOC,
        schedule="* * * * *",
        start_date=START,
        catchup=False,
        is_paused_upon_creation=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(minutes=5),
        tags=[TAG, "health"],
        default_args={"owner": "streamwarden", "retries": 0, "execution_timeout": timedelta(seconds=55)},
    ) as dag:

        @task(doc_md="Runs every check on every stream; stores verdicts and incidents.")
        def evaluate() -> list[dict[str, Any]]:
            remember_server(workspace(folder))
            return evaluate_all(folder)

        @task(map_index_template="{{ stream_name }}", doc_md="One stream. Red if one of its verdicts is CRITICAL.")
        def stream(result: dict[str, Any]) -> None:
            get_current_context()["stream_name"] = result["stream"]  # type: ignore[typeddict-unknown-key]
            show(result)

        @task(trigger_rule=TriggerRule.ALL_DONE, doc_md="Sends the notifications that are due.")
        def notify() -> None:
            from streamwarden.airflow.notifying import send_due

            delivery = send_due(workspace(folder), dict(get_current_context()), time.time())
            print(f"{len(delivery.sent)} sent, {len(delivery.taken)} by others, {len(delivery.failed)} failed")
            if delivery.failed:
                raise AirflowFailException("; ".join(f"{each.title}: {reason}" for each, reason in delivery.failed))

        results = evaluate()
        stream.expand(result=results)
        results >> notify()
    return dag


def evaluate_all(project: str) -> list[dict[str, Any]]:
    """Evaluate all streams, one entry for each, the worst first. A stream with a broken file is UNKNOWN."""
    from streamwarden.services.monitoring.config_incidents import follow_files
    from streamwarden.services.monitoring.health_monitor import HealthMonitor

    space = workspace(project)
    catalog = space.catalog()
    follow_files(space.store.incidents, catalog, partial(_runs, space), time.time())
    needed = {name for spec in catalog.streams.values() for name in spec.connections}
    with published(sorted(needed)):
        report = HealthMonitor(space.store, thresholds=space.thresholds()).evaluate(
            catalog.streams.values(), time.time()
        )
    entries = [_entry(health) for health in report.streams.values()]
    for name, error in catalog.broken.items():
        entries.append({"stream": name, "status": Status.UNKNOWN.value, "lines": [f"UNKNOWN configuration: {error}"]})
    return fold(entries)


def _runs(space: Workspace, stream: str) -> bool:
    newest = space.store.drivers.latest(stream)
    return newest is not None and space.fleet.observe(newest.driver_id).alive


def fold(entries: Sequence[Mapping[str, Any]], visible: int = VISIBLE) -> list[dict[str, Any]]:
    """Worst first, then by name; healthy streams beyond the first `visible` become one entry."""
    ordered = sorted(entries, key=lambda each: (-Status(each["status"]).rank, each["stream"]))
    healthy = [dict(each) for each in ordered if each["status"] == Status.OK.value]
    shown = [dict(each) for each in ordered if each["status"] != Status.OK.value] + healthy[:visible]
    folded = healthy[visible:]
    if folded:
        names = [str(each["stream"]) for each in folded]
        shown.append({"stream": f"{len(names)} more healthy streams", "status": Status.OK.value, "lines": names})
    return shown


def show(result: Mapping[str, Any]) -> None:
    """Print one stream's verdicts. Raises AirflowFailException if it is CRITICAL."""
    for line in result["lines"]:
        print(line)
    if result["status"] == Status.CRITICAL.value:
        raise AirflowFailException(f"{result['stream']} is CRITICAL: {'; '.join(result['critical'])}")


def _entry(health: StreamHealth) -> dict[str, Any]:
    ordered = sorted(health.verdicts, key=lambda verdict: -verdict.status.rank)
    lines = [
        f"{verdict.status} {verdict.check}: {verdict.reason}" + (f" Advice: {verdict.advice}" if verdict.advice else "")
        for verdict in ordered
    ]
    return {
        "stream": health.stream,
        "status": health.status.value,
        "lines": [*lines, *health.problems],
        "critical": [line for line, verdict in zip(lines, ordered, strict=True) if verdict.status is Status.CRITICAL],
    }
