"""A real Airflow for the demo: its four components, on SQLite, without a login, reachable from this machine alone."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from runtime import DemoFailed, Runtime

FIRST_PORT: Final = 8080

COMPONENTS: Final = {
    # A log server would listen on every interface; the API server reads the files themselves.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "api-server": ("api-server",),
}


class LocalAirflow:
    """Starts Airflow and asks its API. `Runtime` stops it: it also knows the processes that lost their parent."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._token = ""
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.port = free_port(FIRST_PORT)
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Create the database and start the components. Raises DemoFailed if the database cannot be created."""
        env = self._environment()
        migrate = self._runtime.start("airflow-db", ["airflow", "db", "migrate"], env)
        try:
            code = migrate.wait(timeout=300)
        except subprocess.TimeoutExpired:
            code = -1
        if code != 0:
            raise DemoFailed("Airflow's database could not be created", [self._runtime.log_path("airflow-db")])
        for name, arguments in COMPONENTS.items():
            self._running[name] = self._runtime.start(f"airflow-{name}", ["airflow", *arguments], env)

    def _environment(self) -> dict[str, str]:
        home = self._runtime.airflow_home
        settings = {
            "AIRFLOW__CORE__DAGS_FOLDER": str(self._runtime.project / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(self._runtime.project / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",  # each slot is a process; a running stream holds none
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",  # the default asks the DNS, which may be slow
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            # There is no login: no other name may stand for this address (DNS rebinding).
            "STREAMWARDEN_ALLOWED_HOSTS": "127.0.0.1,localhost",
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "2",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self._runtime.logs / "tasks"),
        }
        return self._runtime.environment({"AIRFLOW_HOME": str(home), **settings})

    def check_alive(self) -> None:
        """Raise DemoFailed, with its log, for a component that ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                log = self._runtime.log_path(f"airflow-{name}")
                raise DemoFailed(f"Airflow's {name} ended with status {process.returncode}", [log])

    def logs(self) -> list[Path]:
        """The components' logs."""
        return [self._runtime.log_path(f"airflow-{name}") for name in COMPONENTS]

    def is_healthy(self) -> bool:
        """Whether every component answers."""
        try:
            health = self._ask("GET", "/api/v2/monitor/health")
        except OSError:
            return False
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all((health.get(part) or {}).get("status") == "healthy" for part in parts)

    def has_dag(self, dag_id: str) -> bool:
        """Whether Airflow has parsed the DAG."""
        try:
            self._ask("GET", f"/api/v2/dags/{dag_id}")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return False
            raise
        return True

    def import_errors(self) -> list[str]:
        """The import errors of DAG files, one line each."""
        found = self._ask("GET", "/api/v2/importErrors").get("import_errors", [])
        return [f"{each['filename']}: {each['stack_trace'].strip().splitlines()[-1]}" for each in found]

    def unpause(self, dag_id: str) -> None:
        """Let the DAG run."""
        self._ask("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str) -> str:
        """Start a run; returns its id."""
        return str(self._ask("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None})["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """`queued`, `running`, `success` or `failed`."""
        return str(self._ask("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def task_logs(self, dag_id: str) -> list[Path]:
        """The newest log files of a DAG's tasks, newest last."""
        folder = self._runtime.logs / "tasks" / f"dag_id={dag_id}"
        return sorted(folder.rglob("*.log"), key=lambda path: path.stat().st_mtime)[-2:]

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        if not self._token and path != "/auth/token":
            self._token = str(self._ask("GET", "/auth/token")["access_token"])
        request = urllib.request.Request(  # noqa: S310  always http://127.0.0.1
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"},
        )
        with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310
            return dict(json.load(response))


def free_port(first: int) -> int:
    """`first`, or the next free port. Raises DemoFailed if a hundred are taken."""
    for port in range(first, first + 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise DemoFailed(f"no free port from {first} to {first + 99}")
