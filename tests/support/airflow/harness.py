"""Airflow for tests: its real components, each a process of its own on loopback, in a home that is thrown away."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from support.spark.drivers import QUICK
from support.waits import rarer

REPOSITORY = Path(__file__).resolve().parents[3]
AIRFLOW = Path(sys.executable).with_name("airflow")
COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
PRELOADED = ("scheduler", "dag-processor")
"""Those that fork: what they have imported before they do so, no file that is read and no task imports again. A start
takes 54 s of processor time in place of 61. `streamwarden up` and Compose's scheduler start without this."""
_PRELOADING = """
import sys
from airflow.__main__ import main
from streamwarden.airflow import triggers
from streamwarden.airflow.dags import advice, audits, controls, drills, health, housekeeping, publishing, state, streams
main()
"""
CLOCKED = ("health", "housekeeping", "advice")
"""DAGs that run by the clock, from their first reading on."""

T = TypeVar("T")


def wait_for(
    what: str, condition: Callable[[], T], *, timeout: float, poll: float = 0.2, explain: Callable[[], str] = str
) -> T:
    """Poll until `condition()` is truthy and return it; fail, saying what was waited for, after `timeout` seconds."""
    began = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - began
        if waited > timeout:
            raise AssertionError(f"after {timeout:.0f} s still waiting for: {what}\n{explain()}")
        time.sleep(rarer(poll, waited))


class Airflow:
    """One installation: `home` for Airflow, `project` with config and jobs, `data` for what streams leave.

    The settings are Airflow's own, with its periodic duties (heartbeats, orphan checks) made quick, so that a test sees
    in seconds what otherwise takes minutes.
    """

    def __init__(self, home: Path, project: Path, data: Path) -> None:
        self.home, self.project, self.data = home, project, data
        self.port, log_port, trigger_log_port = (free_port() for _ in range(3))
        self.url = f"http://127.0.0.1:{self.port}"
        self.login = f"{self.url}/auth/token/login"
        """Gives a browser the session of an administrator: nobody has a password."""
        self.commands = {component: _command(component) for component in COMPONENTS}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._sessions: list[int] = []
        self._token: str | None = None
        home.mkdir(parents=True, exist_ok=True)
        settings = {
            "CORE__DAGS_FOLDER": str(project / "dags"),
            "CORE__PLUGINS_FOLDER": str(REPOSITORY / "plugins"),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": "3",
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__FERNET_KEY": "",
            "API__HOST": "127.0.0.1",
            "API__PORT": str(self.port),
            "API__BASE_URL": self.url,
            "API__WORKERS": "1",
            "API__SECRET_KEY": secrets.token_hex(16),
            "API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
            "LOGGING__WORKER_LOG_SERVER_PORT": str(log_port),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_log_port),
            "SCHEDULER__ENABLE_HEALTH_CHECK": "False",
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
            "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
            "SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "8",
            "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "2",
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "12",
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
            "WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "1",
            "WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
            "TRIGGERER__JOB_HEARTBEAT_SEC": "1",
            "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "8",
            "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",  # see `parse_again`
            "DAG_PROCESSOR__PARSING_PROCESSES": "1",
        }
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "STREAMWARDEN"))}
        self.env = {
            **inherited,
            "AIRFLOW_HOME": str(home),
            **{f"AIRFLOW__{key}": value for key, value in settings.items()},
            "STREAMWARDEN_PROJECT": str(project),
            "STREAMWARDEN_DATA": str(data),
            "JDK_JAVA_OPTIONS": QUICK["spark.driver.extraJavaOptions"],  # drivers that live for seconds
            "PYTHONUNBUFFERED": "1",
        }

    # Components

    def cli(self, *commands: Sequence[str]) -> None:
        """Run `airflow` commands one after the other in one process: to import Airflow takes longer than they do."""
        program = "import json, sys; from airflow.cli.cli_parser import get_parser\n"
        program += "for words in json.loads(sys.argv[1]): args = get_parser().parse_args(words); args.func(args)"
        done = subprocess.run(
            [sys.executable, "-c", program, json.dumps(commands)],
            env=self.env,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, f"airflow {commands}: {done.returncode}\n{done.stdout}\n{done.stderr}"

    def start(self, component: str) -> None:
        """Start a component as the leader of a session of its own."""
        with (self.home / f"{component}.log").open("ab") as log:
            self.processes[component] = subprocess.Popen(
                self.commands[component],
                env=self.env,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._sessions.append(self.processes[component].pid)

    def has_noticed(self, dag: str, run: str, task: str) -> bool:
        """Whether the scheduler knows that a process of this task has ended. A task that waits for a person and is
        answered before that counts as dead, and asks again."""
        event = f"Received executor event with state success for task instance TaskInstanceKey(dag_id='{dag}', "
        ended = f"{event}task_id='{task}', run_id='{run}'"
        return ended in (self.home / "scheduler.log").read_text(encoding="utf-8", errors="replace")

    def kill(self, component: str) -> None:
        """SIGKILL to the component's main process alone, as the kernel's out-of-memory killer does."""
        process = self.processes[component]
        process.kill()
        process.wait(timeout=10)

    def sweep(self, component: str) -> None:
        """SIGKILL to whatever a killed component left in its session: a test must not, the real world would not."""
        for pid in session_members(self.processes[component].pid):
            _kill(pid)

    def stop(self, component: str, within: float = 15) -> None:
        """SIGTERM, and what is left after `within` seconds is killed."""
        process = self.processes.pop(component, None)
        if process is None:
            return
        members = session_members(process.pid)
        process.terminate()
        try:
            process.wait(timeout=within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)
        for pid in {*members, *session_members(process.pid)}:
            if session_of(pid) == process.pid:
                _kill(pid)

    def up(self, silent: Collection[str] = ()) -> None:
        """Make the database, start everything, and wait until the API answers.

        Args:
            silent: DAGs that are paused before the scheduler starts: their runs would only take time from the test.
        """
        self.cli(["db", "migrate"])
        for component in COMPONENTS:
            if component != "scheduler" or not silent:
                self.start(component)
        wait_for("the API server", self.answers, timeout=240, explain=lambda: self.tail("api-server"))
        if silent:
            wait_for(f"the DAGs {silent}", lambda: self.dag_ids().issuperset(silent), timeout=240)
            for dag_id in silent:
                self.pause(dag_id, True)
            self.start("scheduler")

    def down(self) -> None:
        """SIGKILL to every process of every component: nothing is read from this installation any more."""
        for session in self._sessions:
            while members := session_members(session):
                for pid in members:
                    _kill(pid)
        for process in self.processes.values():
            process.wait(timeout=10)

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/api/v2/version", timeout=5, verify=False).status_code == 200
        except httpx.HTTPError:
            return False

    def tail(self, component: str, size: int = 4000) -> str:
        return (self.home / f"{component}.log").read_text(errors="replace")[-size:]

    # The REST API, as a person in the UI would use it

    def call(self, method: str, path: str, json: Any = None, **params: Any) -> Any:
        """One request; its JSON. Fails with the body for a status that is no success.

        SQLite that is locked for too long makes Airflow answer 500: that is asked again, as a person would.
        """
        if self._token is None:
            self._token = self._request("GET", "/auth/token").json()["access_token"]
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = self._request(method, f"/api/v2{path}", json=json, params=params or None, headers=headers)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def _request(self, method: str, path: str, **what: Any) -> httpx.Response:
        deadline = time.monotonic() + 60
        while True:
            try:
                # Without `verify` it reads all certificates first, for 20 ms: plain HTTP needs none.
                answer = httpx.request(method, f"{self.url}{path}", timeout=30, verify=False, **what)
                if answer.status_code < 500 or time.monotonic() > deadline:
                    return answer
            except httpx.TransportError as error:
                repeatable = method == "GET" or isinstance(error, httpx.ConnectError)  # else it may have been taken
                if not repeatable or time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def dag_ids(self) -> set[str]:
        return {dag["dag_id"] for dag in self.call("GET", "/dags", limit=100)["dags"]}

    def import_errors(self) -> list[Any]:
        return list(self.call("GET", "/importErrors")["import_errors"])

    def parse_again(self, dag_id: str) -> None:
        """Have the file of this DAG read now: its turn comes every ten minutes, as a reading takes processor time."""
        token = self.call("GET", f"/dags/{dag_id}")["file_token"]
        self.call("PUT", f"/parseDagFile/{token}")

    def pause(self, dag_id: str, paused: bool) -> None:
        self.call("PATCH", f"/dags/{dag_id}", {"is_paused": paused})

    def is_paused(self, dag_id: str) -> bool:
        return bool(self.call("GET", f"/dags/{dag_id}")["is_paused"])

    def trigger(self, dag_id: str, **conf: Any) -> str:
        return str(self.call("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"])

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Newest first."""
        return list(self.call("GET", f"/dags/{dag_id}/dagRuns", order_by="-run_after", limit=20)["dag_runs"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        return list(self.call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"])

    def task(self, dag_id: str, task_id: str = "run") -> dict[str, Any] | None:
        """The task instance of the newest run; None before the first."""
        runs = self.runs(dag_id)
        found = self.tasks(dag_id, runs[0]["dag_run_id"]) if runs else []
        return next((task for task in found if task["task_id"] == task_id), None)

    def mark_failed(self, dag_id: str, task: dict[str, Any]) -> None:
        path = f"/dags/{dag_id}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}"
        self.call("PATCH", path, {"new_state": "failed"})

    def clear(self, dag_id: str, task: dict[str, Any]) -> None:
        body = {
            "dry_run": False,
            "only_failed": False,
            "reset_dag_runs": True,
            "dag_run_id": task["dag_run_id"],
            "task_ids": [task["task_id"]],
        }
        self.call("POST", f"/dags/{dag_id}/clearTaskInstances", body)

    def log(self, dag_id: str, task: dict[str, Any], attempt: int) -> str:
        """What the UI shows as the log of one try."""
        path = f"/dags/{dag_id}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}/logs/{attempt}"
        content = self.call("GET", path, full_content=True)["content"]
        return "\n".join(str(line.get("event", line)) if isinstance(line, dict) else str(line) for line in content)

    # Processes

    def runner_of(self, dag_id: str, task_id: str = "run") -> int | None:
        """Pid of the process that runs this DAG's task now, by the title that Airflow gives it; None if none does."""
        task = self.task(dag_id, task_id)
        title = f"airflow worker -- {task['id']}".encode() if task is not None else b""
        for pid in session_members(self.processes["scheduler"].pid) if title else ():
            if title in command_of(pid):
                return pid
        return None


def _command(component: str) -> list[str]:
    return [sys.executable, "-c", _PRELOADING, component] if component in PRELOADED else [str(AIRFLOW), component]


@contextmanager
def running(airflow: Airflow, silent: Collection[str] = ()) -> Iterator[Airflow]:
    """The installation, up (see `Airflow.up`); down again whatever happens."""
    try:
        airflow.up(silent)
        yield airflow
    finally:
        airflow.down()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stat_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def parent_of(pid: int) -> int | None:
    fields = stat_of(pid)
    return int(fields[1]) if fields else None


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def session_of(pid: int) -> int | None:
    fields = stat_of(pid)
    return int(fields[3]) if fields and fields[0] != "Z" else None


def group_leaders() -> list[int]:
    """Pids of all living processes that lead a process group."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if (fields := stat_of(pid)) and fields[0] != "Z" and int(fields[2]) == pid]


def session_members(session: int) -> list[int]:
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if session_of(pid) == session]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
