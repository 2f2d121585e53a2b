"""Removes old runs of the health DAG: one run a minute would be half a million rows a year.

The store keeps the history of the verdicts and the incidents, so the runs and their logs are needed for a day only.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from streamwarden.adapters.airflow_server import AirflowServer

DAG_ID: Final = "health"

KEEP: Final = 86400.0
"""Seconds for which a run and its log are kept."""


def remove_old_runs(server: AirflowServer, logs: Path, now: float) -> tuple[int, int]:
    """Delete the ended runs that are older than `KEEP`, and the folders of their logs; returns how many of each.

    Args:
        logs: Airflow's folder of logs on this host. Logs in a remote storage stay.

    Raises AirflowError.
    """
    deleted = server.delete_runs(DAG_ID, datetime.fromtimestamp(now - KEEP, UTC))
    return deleted, _remove_logs(logs / f"dag_id={DAG_ID}", now - KEEP)


def _remove_logs(folder: Path, before: float) -> int:
    old = [path for path in folder.glob("run_id=*") if path.is_dir() and path.stat().st_mtime < before]
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return sum(not path.exists() for path in old)
