"""Two DAGs run each minute: their old runs and their logs are removed, and nothing else is."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamwarden.adapters.airflow_server import AirflowServer
from streamwarden.airflow.dags.housekeeping import remove_old_runs
from streamwarden.errors import AirflowError
from support.airflow.api import AirflowApi, serving

NOW = 1_800_000_000.0
HOUR = 3600.0


def log_of(root: Path, dag: str, run: str, at: float) -> Path:
    folder = root / f"dag_id={dag}" / f"run_id={run}"
    (folder / "task_id=evaluate").mkdir(parents=True)
    os.utime(folder, (at, at))
    return folder


def test_runs_and_logs_that_are_older_than_a_day_are_removed(tmp_path: Path) -> None:
    """Three hundred old runs and two new ones; the logs of other DAGs stay."""
    at = {f"old-{number}": NOW - 25 * HOUR - number for number in range(300)} | {"new": NOW - HOUR, "now": NOW}
    runs = {run: datetime.fromtimestamp(moment, UTC).isoformat() for run, moment in at.items()}
    old, new = log_of(tmp_path, "health", "old-1", NOW - 25 * HOUR), log_of(tmp_path, "health", "new", NOW - HOUR)
    other = log_of(tmp_path, "stream_counted", "old", NOW - 25 * HOUR)
    with serving(AirflowApi(paused={"health": False}, runs=runs)) as api:
        assert remove_old_runs(AirflowServer(url=api.url), tmp_path, NOW) == (300, 1)
        assert set(api.runs) == {"new", "now"}
    assert not old.exists()
    assert new.exists()
    assert other.exists()


@pytest.mark.parametrize("dag", ["health", "publish_progress"])
def test_an_installation_may_have_only_one_of_them(tmp_path: Path, dag: str) -> None:
    """The DAG that publishes progress exists only where a stream publishes some."""
    runs = {"old": datetime.fromtimestamp(NOW - 25 * HOUR, UTC).isoformat()}
    log = log_of(tmp_path, dag, "old", NOW - 25 * HOUR)
    with serving(AirflowApi(paused={dag: False}, runs=runs)) as api:
        assert remove_old_runs(AirflowServer(url=api.url), tmp_path, NOW) == (1, 1)
    assert not log.exists()


def test_an_installation_that_refuses_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    with serving(AirflowApi(paused={"health": False}, account=("warden", "right"))) as api:
        with pytest.raises(AirflowError, match="401") as caught:
            remove_old_runs(AirflowServer(url=api.url), tmp_path, NOW)
        assert "streamwarden_airflow" in caught.value.next_step
