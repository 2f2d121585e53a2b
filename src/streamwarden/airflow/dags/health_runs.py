"""Removes old runs of the DAGs that run each minute: each would add half a million rows a year.

The store keeps the history of the verdicts and the incidents, and what was published last, so the runs and their logs
are needed for a day only.
"""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from streamwarden.adapters.airflow_server import AirflowServer

EACH_MINUTE: Final = ("health", "publish_progress")
"""The DAGs that run each minute. Not every installation has the second one."""

KEEP: Final = 86400.0
"""Seconds for which a run and its log are kept."""


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
