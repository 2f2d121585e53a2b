"""The DAG that judges once a day what the settings of each stream cost."""

import time
from datetime import timedelta
from typing import Final

from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

from streamwarden.airflow.notifying import report_outages
from streamwarden.airflow.projects import ALWAYS_ON, TAG, project_of
from streamwarden.airflow.workspaces import workspace
from streamwarden.health.verdict import Status

_DOC: Final = """\
### Advice on settings

Once a day it computes the advice of `streamwarden advise` for every stream. A setting that costs more than 20 % is an
incident with the status ADVICE: the pages show it beside the health check that judges the same, and nobody is ever
notified of it. It is resolved when the setting costs less. `streamwarden advise STREAM --apply` tries the advised
settings on a fork. This DAG changes no stream, and you may run it by hand at any time.
"""


def advice_dags(dag_file: str) -> dict[str, DAG]:
    """`advice`."""
    project = str(project_of(dag_file))
    with DAG(
        dag_id="advice",
        description="Judges what the settings of each stream cost",
        doc_md=_DOC,
        schedule="41 4 * * *",  # at night in most places, and not at the full hour, when most other jobs start
        **ALWAYS_ON,
        tags=[TAG, "tuning"],
        default_args={
            "owner": "streamwarden",
            "retries": 2,
            "retry_delay": timedelta(minutes=1),
            "execution_timeout": timedelta(minutes=30),
            **report_outages(project),
        },
    ) as dag:

        @task(doc_md="Opens, updates and resolves the incidents with the status ADVICE.")
        def judge_settings() -> None:
            judge_all(project)

        judge_settings()
    return {dag.dag_id: dag}


def judge_all(project: str) -> None:
    """Judge the settings of every stream of the project. Raises AirflowFailException if one could not be judged."""
    from streamwarden.services.autotuning.incidents import follow_advice

    verdicts, problems = follow_advice(workspace(project), time.time())
    for verdict in verdicts:
        if verdict.status is Status.ADVICE:
            print(f"{verdict.stream}: {verdict.reason}\n  {verdict.advice}")
    if problems:
        raise AirflowFailException("; ".join(problems))
    print(f"{len({verdict.stream for verdict in verdicts})} streams and queries were judged")
