"""Which DAGs run as soon as Airflow knows them, and what a task learns about a paused one.

Airflow's database and its DAG model are real. The airflow.cfg of many installations pauses each new DAG.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from streamwarden.airflow.unpausing import is_paused
from support.airflow.database import run_with_database
from support.airflow.harness import REPOSITORY

ACTIVE = {
    *("stop_stream", "start_stream", "restart_stream"),
    *("create_savepoint", "look_at_state", "verify_savepoint"),
    *("compact_state", "delete_keys", "set_value"),
    *("repartition_stream", "restore_stream", "rewind_stream", "upgrade_stream"),
    *("health", "housekeeping", "advice"),
}

PAUSED = """
from airflow.models.dag import DagModel
with create_session() as session:
    result = {dag.dag_id: dag.is_paused for dag in session.query(DagModel)}
"""


def test_what_must_always_run_is_not_paused_and_what_starts_something_is(tmp_path: Path) -> None:
    """A stop that a program triggers by REST runs. No stream and no drill starts before a person unpauses it."""
    paused = run_with_database(PAUSED, tmp_path, REPOSITORY, CORE__DAGS_ARE_PAUSED_AT_CREATION="True")
    assert {dag_id for dag_id, is_paused in paused.items() if not is_paused} == ACTIVE
    assert {"stream_flight_departures", "drill_kill_driver"} <= paused.keys() - ACTIVE


@pytest.mark.parametrize("paused", [True, False])
def test_a_task_learns_whether_a_dag_is_paused(paused: bool) -> None:
    """Of a DAG that Airflow does not know yet, the answer is that this is unknown."""

    def get_dag(dag_id: str) -> Any:
        if dag_id != "stream_counted":
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 404}))
        return SimpleNamespace(is_paused=paused)

    ti: Any = SimpleNamespace(get_dag=get_dag)
    assert is_paused(ti, "stream_counted") is paused
    assert is_paused(ti, "stream_other") is None
