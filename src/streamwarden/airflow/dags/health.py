"""The health DAG: each minute it judges every stream, shows what is not healthy, and sends notifications."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, BaseOperator, TriggerRule, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from streamwarden.airflow.connections import published
from streamwarden.airflow.links import StreamPageLink
from streamwarden.airflow.notifying import report_outages, send_now
from streamwarden.airflow.projects import ALWAYS_ON, TAG, project_of
from streamwarden.airflow.unpausing import is_paused, own_url, remember_server
from streamwarden.airflow.workspaces import workspace
from streamwarden.health.evaluations import Evaluator
from streamwarden.health.verdict import Status
from streamwarden.services.monitoring.round_entries import Entry

_DOC: Final = """\
### Health of all streams

Each minute, `evaluate` reads the store and the checkpoints, runs every check on every stream, stores the verdicts and
opens, updates or resolves incidents. The task `stream` has one instance for all healthy streams together, one for each
stream that is not healthy, and one for the streams that never started or were stopped on purpose.

| colour | meaning |
|---|---|
| red | The stream is CRITICAL. The log shows every verdict with its advice. |
| green | All these streams are healthy, or the one that the label names has a WARNING. |
| pink (skipped) | The stream was not judged: it should not run, or an essential check has no data. |

`notify` sends the notifications that are due, through the notifiers of `config/notifications.yaml` and Apprise. It
never sends one twice within the resend interval.

A run that takes longer than a minute delays the next one. Runs never overlap. The DAG `housekeeping` deletes the runs
that are older than a day.
"""


_PATIENCE: Final = {"execution_timeout": timedelta(seconds=55), "retries": 2, "retry_delay": timedelta(seconds=10)}
"""A task fails if the API server does not answer when it begins: that alone must not be an incident of all streams."""


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
        **ALWAYS_ON,
        dagrun_timeout=timedelta(minutes=5),
        tags=[TAG, "health"],
        default_args={"owner": "streamwarden", **_PATIENCE},
    ) as dag:

        @task(doc_md="Runs every check on every stream; stores verdicts and incidents.", **report_outages(folder))
        def evaluate() -> list[dict[str, Any]]:
            remember_server(workspace(folder))
            return evaluate_all(folder)

        @task(trigger_rule=TriggerRule.ALL_DONE, doc_md="Sends the notifications that are due.")
        def notify() -> None:
            report = send_now(workspace(folder), dict(get_current_context()), time.time())
            print(f"{len(report.sent)} sent, {report.taken} by others, {len(report.refused)} refused")
            if report.refused:
                raise AirflowFailException(
                    "; ".join(f"{refusal.channel}: {refusal.reason}" for refusal in report.refused)
                )

        results = evaluate()
        StreamHealthOperator.partial(
            task_id="stream",
            map_index_template="{{ label }}",
            doc_md="All healthy streams, or one stream that is not healthy.",
        ).expand(result=results)
        results >> notify()
    return dag


class StreamHealthOperator(BaseOperator):
    """Shows one entry of a round: it fails if the entry is CRITICAL, and is skipped if it was not judged.

    Args:
        result: the entry, as `evaluate_all` returns it.
    """

    operator_extra_links = (StreamPageLink(),)

    def __init__(self, *, result: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.result = result

    @property
    def stream(self) -> str:
        """The stream that the link leads to; empty if the entry is of several."""
        return _entry(self.result).stream

    def execute(self, context: Any) -> None:
        entry = _entry(self.result)
        context["label"] = label(entry)
        show(entry)


def evaluate_all(project: str) -> list[dict[str, Any]]:
    """Run one round over all streams of the project; its entries as XCom keeps them, the worst first."""
    from streamwarden.services.monitoring.rounds import Surroundings, run_round
    from streamwarden.services.notifying.watching import usable_settings

    space = workspace(project)
    settings, _ = usable_settings(space.project)
    around = Surroundings(
        publish=published,
        airflow=own_url(),
        is_paused=partial(is_paused, get_current_context()["ti"]),
        heartbeat_url=settings.heartbeat_url,
    )
    done = run_round(space, Evaluator.DAG, around)
    return [{**asdict(entry), "status": entry.status.value} for entry in done.entries]


def label(entry: Entry) -> str:
    """The title of the task instance; a state that has no colour is part of it."""
    shown = entry.judged and entry.status in (Status.WARNING, Status.UNKNOWN)
    return f"{entry.title}: {entry.status}" if shown else entry.title


def show(entry: Entry) -> None:
    """Print one entry. Raises AirflowFailException if it is CRITICAL, AirflowSkipException if it was not judged."""
    for line in entry.lines:
        print(line)
    if entry.status is Status.CRITICAL:
        raise AirflowFailException(f"{entry.title} is CRITICAL: {'; '.join(entry.critical)}")
    if entry.status is Status.UNKNOWN:
        raise AirflowSkipException(f"{entry.title}: no data, which does not mean that all is well")


def _entry(result: Mapping[str, Any]) -> Entry:
    return Entry(**{**result, "status": Status(result["status"])})
