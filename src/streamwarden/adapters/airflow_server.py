"""Airflow's REST API, as far as Streamwarden needs it: DAGs, their runs, and notes that the grid marks.

A task, and every shell, is kept from Airflow's database on purpose. An installation without accounts, as the demo has
it, gives a token to every caller on this host.
"""

import ssl
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

from streamwarden.adapters.connections import Connection
from streamwarden.errors import AirflowError

CONNECTION: Final = "streamwarden_airflow"
"""The connection (HTTP, with login and password) of the account that unpauses DAGs and writes notes."""

PREFIX: Final = "stream_"
"""Prefix of the id of a stream's DAG."""

NOTE_SIZE: Final = 1000
"""Characters that Airflow keeps of a note."""

_ENDED: Final = ("success", "failed")
_PAGE: Final = 100
"""Runs that are deleted with one request."""

_BUSY: Final = 500
"""The status with which Airflow on SQLite answers when its database was locked for longer than it waits, 5 s."""
_REPEATS: Final = 2

_ACCOUNT: Final = f"set the connection {CONNECTION} to an account that may edit DAGs"
_STEPS: Final = {404: "wait until Airflow has read the DAG's file, and see its import errors"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowServer:
    """An API server and the account to use there. Every method raises AirflowError if it does not answer or refuses.

    Args:
        timeout: seconds for one request.
    """

    url: str
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    timeout: float = 10.0

    @classmethod
    def of(cls, connection: Connection, *, timeout: float = 10.0) -> Self:
        """The server that a connection names: `host` may be a whole URL; `schema` is http or https."""
        host = connection.host or ""
        port = f":{connection.port}" if connection.port else ""
        url = host if "://" in host else f"{connection.schema or 'http'}://{host}"
        return cls(url=f"{url}{port}", login=connection.login, password=connection.password, timeout=timeout)

    def is_paused(self, dag_id: str) -> bool:
        return bool(self._call("GET", f"/dags/{quote(dag_id)}")["is_paused"])

    def unpause(self, dag_id: str) -> None:
        self._call("PATCH", f"/dags/{quote(dag_id)}", {"is_paused": False})

    def has_dag(self, dag_id: str) -> bool:
        """Whether Airflow has parsed the DAG."""
        dags = self._call("GET", f"/dags?dag_id_pattern={quote(dag_id)}&limit=100")["dags"]
        return any(dag["dag_id"] == dag_id for dag in dags)

    def import_errors(self) -> list[str]:
        """The import errors of DAG files, one line each."""
        errors = self._call("GET", "/importErrors")["import_errors"]
        return [f"{error['filename']}: {error['stack_trace'].strip().splitlines()[-1]}" for error in errors]

    def trigger(self, dag_id: str) -> str:
        """Start a run; returns its id."""
        return str(self._call("POST", f"/dags/{quote(dag_id)}/dagRuns", {"logical_date": None})["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """`queued`, `running`, `success` or `failed`."""
        return str(self._call("GET", f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}")["state"])

    def unhealthy(self) -> list[str]:
        """The components of Airflow that do not report that they are healthy."""
        health = self._call("GET", "/monitor/health")
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return [part for part in parts if (health.get(part) or {}).get("status") != "healthy"]

    def annotate(self, dag_id: str, run_id: str, note: str, *, task_id: str | None = None) -> None:
        """Set the note of a DAG run, or of one of its tasks; an empty note removes it.

        Airflow's grid marks the bar of the run, or the cell of the task. Its page shows the note.
        """
        path = f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"
        task = f"/taskInstances/{quote(task_id)}" if task_id is not None else ""
        self._call("PATCH", path + task, {"note": note[:NOTE_SIZE]})

    def delete_runs(self, dag_id: str, before: datetime, *, at_most: int = 2000) -> int:
        """Delete the ended runs of a DAG that were due before this time, the oldest first; returns how many."""
        path = f"/dags/{quote(dag_id)}/dagRuns?" + urlencode(
            {"run_after_lt": before.isoformat(), "state": _ENDED, "order_by": "run_after", "limit": _PAGE}, doseq=True
        )
        deleted = 0
        while deleted < at_most and (runs := self._call("GET", path)["dag_runs"]):
            ids = [run["dag_run_id"] for run in runs]
            action = {"action": "delete", "entities": ids, "action_on_non_existence": "skip"}
            done = self._call("PATCH", f"/dags/{quote(dag_id)}/dagRuns", {"actions": [action]})["delete"]["success"]
            deleted += len(done)
            if not done:
                break
        return deleted

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        import httpx

        try:
            with httpx.Client(base_url=self.url.rstrip("/"), timeout=self.timeout, verify=_trusted()) as client:
                headers = {"Authorization": f"Bearer {self._token(client)}"}
                for _ in range(1 if method == "POST" else 1 + _REPEATS):  # a second POST would begin a second run
                    answer = client.request(method, f"/api/v2{path}", json=body, headers=headers)
                    if answer.status_code != _BUSY:
                        break
                answer.raise_for_status()
                return answer.json()
        except httpx.HTTPStatusError as error:
            raise AirflowError(
                f"{self.url} answered {error.response.status_code}",
                where=f"{error.request.method} {error.request.url.path}",
                next_step=_STEPS.get(error.response.status_code, _ACCOUNT),
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL, KeyError, TypeError, ValueError) as error:
            raise AirflowError(
                f"{self.url} does not answer as Airflow's API server: {type(error).__name__}: {error}",
                where=f"{method} {path}",
                next_step=f"start Airflow's API server, or correct the host of the connection {CONNECTION}",
            ) from error

    def _token(self, client: Any) -> str:
        if self.login is None:
            answer = client.get("/auth/token")
        else:
            answer = client.post("/auth/token", json={"username": self.login, "password": self.password or ""})
        answer.raise_for_status()
        return str(answer.json()["access_token"])


@cache
def _trusted() -> ssl.SSLContext:
    """The authorities that vouch for a server. To read them takes longer than a request."""
    import httpx

    return httpx.create_ssl_context()
