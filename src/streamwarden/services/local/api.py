"""Airflow's REST API, as far as a local installation needs it."""

from __future__ import annotations

from typing import Any

import httpx


class AirflowApi:
    """The API of an Airflow without a login."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._token = ""

    def is_healthy(self) -> bool:
        """Whether every component reports that it is healthy."""
        try:
            health = self.ask("GET", "/monitor/health")
        except httpx.HTTPError:
            return False
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all((health.get(part) or {}).get("status") == "healthy" for part in parts)

    def has_dag(self, dag_id: str) -> bool:
        """Whether Airflow has parsed the DAG. Raises httpx.HTTPError."""
        try:
            self.ask("GET", f"/dags/{dag_id}")
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.NOT_FOUND:
                return False
            raise
        return True

    def import_errors(self) -> list[str]:
        """The import errors of DAG files, one line each. Raises httpx.HTTPError."""
        found = self.ask("GET", "/importErrors").get("import_errors", [])
        return [f"{each['filename']}: {each['stack_trace'].strip().splitlines()[-1]}" for each in found]

    def unpause(self, dag_id: str) -> None:
        """Let the DAG run. Raises httpx.HTTPError."""
        self.ask("PATCH", f"/dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str) -> str:
        """Start a run; returns its id. Raises httpx.HTTPError."""
        return str(self.ask("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None})["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """`queued`, `running`, `success` or `failed`. Raises httpx.HTTPError."""
        return str(self.ask("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """One request to Airflow's API. Raises httpx.HTTPError."""
        if not self._token:
            self._token = str(
                httpx.get(f"{self._url}/auth/token", timeout=20).raise_for_status().json()["access_token"]
            )
        answer = httpx.request(
            method,
            f"{self._url}/api/v2{path}",
            json=body,
            timeout=20,
            headers={"Authorization": f"Bearer {self._token}"},
        )
        if answer.status_code == httpx.codes.UNAUTHORIZED:  # the token has expired
            self._token = ""
        return dict(answer.raise_for_status().json())
