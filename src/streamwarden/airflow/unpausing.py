"""Unpauses a DAG through Airflow's REST API, as the connection `streamwarden_airflow` (HTTP, with login and password).

A task has no other way: it is kept from Airflow's database on purpose. Without the connection the API of this
installation is tried, which lets everybody in where the local demo runs it so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import httpx
from airflow.configuration import conf
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError

from streamwarden.airflow.projects import PREFIX

if TYPE_CHECKING:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

CONNECTION: Final = "streamwarden_airflow"
TIMEOUT: Final = 10.0
"""Seconds for one request."""


def unpause(dag_id: str) -> str | None:
    """Unpause `dag_id`. None if that succeeded, else the reason why not."""
    url, credentials = _server()
    try:
        with httpx.Client(base_url=url, timeout=TIMEOUT) as client:
            answer = client.post("/auth/token", json=credentials) if credentials else client.get("/auth/token")
            answer.raise_for_status()
            headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}
            client.patch(f"/api/v2/dags/{dag_id}", json={"is_paused": False}, headers=headers).raise_for_status()
    except httpx.HTTPStatusError as error:
        return f"{url} answered {error.response.status_code}; is the connection {CONNECTION} set?"
    except (httpx.HTTPError, KeyError, ValueError) as error:
        return f"{url}: {type(error).__name__}: {error}"
    return None


def paused_streams(streams: Iterable[str], ti: RuntimeTaskInstance) -> frozenset[str]:
    """Those of `streams` whose DAG is paused: Airflow restarts no driver of theirs.

    Needs no account: the task `ti` asks Airflow's execution API, one request for each stream. A stream whose DAG Airflow
    does not know, or about which it does not answer, is left out.
    """
    return frozenset(stream for stream in streams if _is_paused(f"{PREFIX}{stream}", ti))


def _is_paused(dag_id: str, ti: RuntimeTaskInstance) -> bool:
    try:
        return ti.get_dag(dag_id).is_paused
    except AirflowRuntimeError:
        return False


def _server() -> tuple[str, dict[str, Any] | None]:
    try:
        connection = BaseHook.get_connection(CONNECTION)
    except AirflowException:
        base = conf.get("api", "base_url", fallback="") or ""
        return base.rstrip("/") or f"http://127.0.0.1:{conf.getint('api', 'port')}", None
    scheme = connection.schema or "http"
    port = f":{connection.port}" if connection.port else ""
    url = connection.host if "://" in (connection.host or "") else f"{scheme}://{connection.host}"
    if connection.login is None:
        return f"{url}{port}", None
    return f"{url}{port}", {"username": connection.login, "password": connection.password or ""}
