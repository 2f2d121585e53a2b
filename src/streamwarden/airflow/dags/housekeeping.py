"""The DAG that keeps store and disk small: it rolls up old rows, deletes expired rows, and removes old drills."""

import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowSkipException

from streamwarden.adapters.airflow_server import AirflowServer
from streamwarden.airflow.notifying import report_outages
from streamwarden.airflow.projects import ALWAYS_ON, TAG, project_of
from streamwarden.airflow.unpausing import own_server
from streamwarden.airflow.workspaces import workspace
from streamwarden.errors import AirflowError
from streamwarden.services.housekeeping import sweep

_DOC = """\
### Housekeeping

Runs once an hour. It rolls up the progress of single batches into hourly numbers, which the growth forecast reads. It
deletes rows past their retention, the folders of drills that ended more than 30 days ago with those of their forks'
drivers, the secrets and temporary files of drivers whose host died, the folders of a stream's ended drivers except the
newest 50, the links to checkpoints that killed audits left, and looks at state after an hour. It deletes the runs of
the DAGs `health` and `publish_progress` that are older than a day, with the account of the connection
`streamwarden_airflow`. It never touches a stream's checkpoint or a driver that may run, and you may run it by hand at
any time.
"""

EACH_MINUTE: Final = ("health", "publish_progress")
"""The DAGs that run each minute, which adds half a million rows a year. Not every installation has the second one."""

KEEP: Final = 86400.0
"""Seconds for which a run and its log are kept: the store has the history of verdicts, incidents and publications."""


def housekeeping_dags(dag_file: str) -> dict[str, DAG]:
    """`housekeeping`."""
    project = str(project_of(dag_file))
    with DAG(
        dag_id="housekeeping",
        description="Rolls up and prunes the progress store, removes old folders",
        doc_md=_DOC,
        schedule="17 * * * *",  # not at the full hour, when most other jobs start
        **ALWAYS_ON,
        tags=[TAG, "maintenance"],
        default_args={
            "owner": "streamwarden",
            "retries": 2,
            "retry_delay": timedelta(minutes=1),
            "execution_timeout": timedelta(minutes=15),
            **report_outages(project),
        },
    ) as dag:

        @task(doc_md="Rolls up measurements and batches into hourly numbers.")
        def roll_up() -> None:
            workspace(project).store.roll_up(time.time())

        @task(doc_md="Deletes rows past their retention.")
        def prune() -> None:
            workspace(project).store.prune(time.time())

        @task(doc_md="Removes old folders of drills and drivers, leftovers of audits, and old looks at state.")
        def sweep_drills() -> None:
            place = workspace(project)
            sweep(place.store, place.data, time.time())

        @task(doc_md="Deletes the runs of the DAGs that run each minute that are older than a day, and their logs.")
        def remove_health_runs() -> None:
            from airflow.configuration import conf

            try:
                runs, logs = remove_old_runs(own_server(), Path(conf.get("logging", "base_log_folder")), time.time())
            except AirflowError as error:  # an installation with accounts and without the connection: see the docs
                raise AirflowSkipException(str(error)) from error
            print(f"removed {runs} runs and the logs of {logs}")

        remove_health_runs()
        sweep_drills()
        roll_up() >> prune()  # a row is dropped only after it was rolled up
    return {dag.dag_id: dag}


def remove_old_runs(server: AirflowServer, logs: Path, now: float) -> tuple[int, int]:
    """Delete the ended runs that are older than `KEEP`, and the folders of their logs; returns how many of each.

    Args:
        logs: Airflow's folder of logs on this host. Logs in a remote storage stay.

    Raises AirflowError.
    """
    before = datetime.fromtimestamp(now - KEEP, UTC)
    there = [dag_id for dag_id in EACH_MINUTE if server.has_dag(dag_id)]
    deleted = sum(server.delete_runs(dag_id, before) for dag_id in there)
    return deleted, sum(_remove_logs(logs / f"dag_id={dag_id}", now - KEEP) for dag_id in EACH_MINUTE)


def _remove_logs(folder: Path, before: float) -> int:
    old = [path for path in folder.glob("run_id=*") if path.is_dir() and path.stat().st_mtime < before]
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return sum(not path.exists() for path in old)
