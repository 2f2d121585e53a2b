"""Unpauses a DAG through Airflow's REST API, as the connection `streamwarden_airflow` (HTTP, with login and password).

A task has no other way: it is kept from Airflow's database on purpose. Without the connection the API of this
installation is tried, which lets everybody in where the local demo runs it so.
"""

from __future__ import annotations

from typing import Any, Final

import httpx
from airflow.configuration import conf
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException

CONNECTION: Final = "streamwarden_airflow"
TIMEOUT: Final = 10.0
"""Seconds for one request."""


def unpause(dag_id: str) -> str | None:
    """Unpause `dag_id`. None if that succeeded, else the reason why not."""
    url, credentials = server()
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


def server() -> tuple[str, dict[str, Any] | None]:
    """URL of Airflow's API server as its tasks reach it, and the login of the connection; None: without a login."""
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
