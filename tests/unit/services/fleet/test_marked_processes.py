"""The environment of the processes that `streamwarden up` starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.services.local.marked import MARK, MarkedProcesses

GIVEN = {
    "STREAMWARDEN_NOTIFY_URLS": "json://127.0.0.1/hook",
    "AIRFLOW_CONN_EVENTS_BROKER": "kafka://127.0.0.1:9092",
    "AIRFLOW_VAR_REGION": "north",
    "AIRFLOW__SECRETS__BACKEND": "a.backend",
    "TZ": "Europe/Vienna",
}
FOREIGN = {
    "STREAMWARDEN_STORE_URL": "postgresql://other/store",
    "STREAMWARDEN_PROJECT": "/srv/other",
    "AIRFLOW_HOME": "/srv/other/airflow",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://other/airflow",
    "SPARK_HOME": "/opt/other-spark",
}


def test_alarms_and_connections_are_passed_on_and_another_workspace_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**GIVEN, **FOREIGN}.items():
        monkeypatch.setenv(name, value)
    passed = MarkedProcesses(tmp_path, tmp_path).environment({"AIRFLOW_HOME": "here"})
    assert {name: passed.get(name) for name in GIVEN} == GIVEN
    assert FOREIGN.keys() & passed.keys() == {"AIRFLOW_HOME"}
    assert (passed["AIRFLOW_HOME"], passed[MARK]) == ("here", str(tmp_path))
