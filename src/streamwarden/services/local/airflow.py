"""A real Airflow for one machine: its four components, on SQLite, without a login, on the loopback interface only."""

import base64
import json
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from streamwarden.adapters import processes
from streamwarden.errors import ProcessError
from streamwarden.extras import missing
from streamwarden.services.local.marked import MarkedProcesses

FIRST_PORT: Final = 8080

SCHEDULER: Final = "scheduler"
COMPONENTS: Final = {
    # A log server would listen on every interface; the API server reads the files themselves.
    SCHEDULER: ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "api-server": ("api-server",),
}

MIGRATE_WITHIN: Final = 300.0
"""Seconds for the creation or migration of Airflow's database; about ten on an idle machine."""

FIRST_DELAY: Final = 1.0
LONGEST_DELAY: Final = 30.0
HEALTHY_AFTER: Final = 60.0
"""Seconds. A component that ends is started again after the first delay. The delay doubles up to the longest one, and
starts over once the component has run for `HEALTHY_AFTER`."""

DAGS: Final = """\
from streamwarden.airflow.dags.advice import advice_dags
from streamwarden.airflow.dags.audits import audit_dags
from streamwarden.airflow.dags.controls import control_dags
from streamwarden.airflow.dags.drills import drill_dags
from streamwarden.airflow.dags.health import health_dags
from streamwarden.airflow.dags.housekeeping import housekeeping_dags
from streamwarden.airflow.dags.publishing import publishing_dags
from streamwarden.airflow.dags.state.dags import state_dags
from streamwarden.airflow.dags.state.savepoints import savepoint_dags
from streamwarden.airflow.dags.streams import stream_dags

MAKERS = (
    advice_dags,
    audit_dags,
    control_dags,
    drill_dags,
    health_dags,
    housekeeping_dags,
    publishing_dags,
    savepoint_dags,
    state_dags,
    stream_dags,
)
for make in MAKERS:
    globals().update(make(__file__))
"""
"""The one file of DAGs: those of all files in the folder `dags` of the repository."""
_PLUGIN: Final = "from streamwarden.airflow.plugin import StreamwardenPlugin\n\n__all__ = ['StreamwardenPlugin']\n"


@dataclass(frozen=True)
class Component:
    """One running component. `delay`: seconds that its next restart waits."""

    process: subprocess.Popen[bytes]
    started_at: float
    delay: float = FIRST_DELAY


@dataclass(frozen=True)
class Restart:
    """A component that ended, and was or will be started again `after` seconds."""

    name: str
    status: int
    after: float

    def __str__(self) -> str:
        how = f"was killed by {signal.Signals(-self.status).name}" if self.status < 0 else f"ended with {self.status}"
        return f"Airflow's {self.name} {how}; it starts again in {self.after:.0f} s. The streams' drivers go on."


@dataclass
class LocalAirflow:
    """Airflow for one project.

    Args:
        home: Airflow's own folder: database, settings, logs. It is kept from one start to the next.
        settings: environment that the components, and with them the drivers, need to find the workspace.
    """

    project: Path
    home: Path
    marked: MarkedProcesses
    settings: Mapping[str, str]
    port: int
    _components: dict[str, Component] = field(default_factory=dict)
    _due: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Migrate the database and start all components but the scheduler, whose tasks fail without the API server.

        Raises ProcessError if the database cannot be migrated.
        """
        migrate = self._run("airflow-db", ("db", "migrate"))
        try:
            status = migrate.wait(timeout=MIGRATE_WITHIN)
        except subprocess.TimeoutExpired:
            migrate.kill()
            status = migrate.wait()
        if status != 0:
            raise ProcessError(
                f"Airflow's database could not be migrated: `airflow db migrate` ended with {status}",
                where=str(self.home),
                next_step=f"read {self.marked.log_path('airflow-db')}",
            )
        for name in COMPONENTS:
            if name != SCHEDULER:
                self._launch(name, FIRST_DELAY)

    def start_scheduler(self) -> None:
        """Start the scheduler. The API server answers."""
        self._launch(SCHEDULER, FIRST_DELAY)

    def restart_dead(self) -> list[Restart]:
        """Start the components again that have ended, each after its delay. Returns what ended since the last call."""
        ended = []
        for name, component in list(self._components.items()):
            status = component.process.poll()
            if status is None:
                continue
            del self._components[name]
            processes.signal_members(component.process.pid, signal.SIGKILL)  # such as the workers of a killed scheduler
            delay = FIRST_DELAY if time.monotonic() - component.started_at > HEALTHY_AFTER else component.delay
            self._due[name] = (time.monotonic() + delay, min(2 * delay, LONGEST_DELAY))
            ended.append(Restart(name=name, status=status, after=delay))
        for name, (due, next_delay) in list(self._due.items()):
            if time.monotonic() >= due:
                del self._due[name]
                self._launch(name, next_delay)
        return ended

    def pid(self, name: str) -> int | None:
        """The main process of a component; None while it waits for its restart."""
        component = self._components.get(name)
        return None if component is None else component.process.pid

    def stop(self, patience: float = 15.0) -> None:
        """End the components, and nothing that they started in sessions of their own."""
        for component in self._components.values():
            processes.signal_members(component.process.pid, signal.SIGTERM)
        deadline = time.monotonic() + patience
        for component in self._components.values():
            try:
                component.process.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                component.process.kill()
                component.process.wait()
            processes.signal_members(component.process.pid, signal.SIGKILL)
        self._components.clear()
        self._due.clear()

    def log_paths(self) -> list[Path]:
        return [self.marked.log_path(f"airflow-{name}") for name in COMPONENTS]

    def task_logs(self, dag_id: str) -> list[Path]:
        """The two newest log files of a DAG's tasks, newest last."""
        folder = self.home / "logs" / f"dag_id={dag_id}"
        return sorted(folder.rglob("*.log"), key=lambda path: path.stat().st_mtime)[-2:]

    def _launch(self, name: str, delay: float) -> None:
        process = self._run(f"airflow-{name}", COMPONENTS[name])
        self._components[name] = Component(process, time.monotonic(), delay)

    def _run(self, name: str, arguments: tuple[str, ...]) -> subprocess.Popen[bytes]:
        program = Path(sys.executable).with_name("airflow")
        if not program.exists():
            raise missing("airflow")
        return self.marked.start(name, [str(program), *arguments], self._environment(), self.project)

    def _environment(self) -> dict[str, str]:
        options = {
            "CORE__DAGS_FOLDER": str(self._files("dags", "streamwarden_dags.py", DAGS)),
            "CORE__PLUGINS_FOLDER": str(self._files("plugins", "streamwarden_plugin.py", _PLUGIN)),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": "4",  # each slot is a process; a running stream holds none
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__HOSTNAME_CALLABLE": "socket.gethostname",  # the default asks the DNS, which may be slow
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / 'airflow.db'}",
            "API__HOST": "127.0.0.1",
            "API__PORT": str(self.port),
            "API__BASE_URL": self.url,
            "API__WORKERS": "1",
            "DAG_PROCESSOR__PARSING_PROCESSES": "2",
            "LOGGING__BASE_LOG_FOLDER": str(self.home / "logs"),
            **self._secrets(),
        }
        programs = f"{Path(sys.executable).parent}:{self.marked.environment({}).get('PATH', '')}"
        airflow = {f"AIRFLOW__{name}": value for name, value in options.items()}
        # There is no login: no other name may lead to this address (DNS rebinding).
        airflow["STREAMWARDEN_ALLOWED_HOSTS"] = "127.0.0.1,localhost"
        return self.marked.environment({"PATH": programs, "AIRFLOW_HOME": str(self.home), **airflow, **self.settings})

    def _files(self, folder: str, name: str, content: str) -> Path:
        """The project's own folder of DAG files or plugins; a project without one gets the product's."""
        if (self.project / folder).is_dir():
            return self.project / folder
        made = self.home / folder
        made.mkdir(exist_ok=True)
        (made / name).write_text(content)
        return made

    def _secrets(self) -> dict[str, str]:
        """Airflow's keys: made once, so that a connection stored in one run can be read in the next."""
        path = self.home / "secrets.json"
        if not path.exists():
            fernet = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()  # as the Fernet specification has it
            keys = {"CORE__FERNET_KEY": fernet, "API__SECRET_KEY": secrets.token_hex(32)}
            path.touch(mode=0o600)
            path.write_text(json.dumps({**keys, "API_AUTH__JWT_SECRET": secrets.token_hex(64)}))
        return {str(name): str(value) for name, value in json.loads(path.read_text()).items()}


def free_port(first: int = FIRST_PORT) -> int:
    """`first`, or the next free port of the loopback interface. Raises ProcessError if a hundred are in use."""
    for port in range(first, first + 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ProcessError(f"all ports from {first} to {first + 99} are in use", next_step="name a port with --port")
