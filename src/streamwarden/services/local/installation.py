"""Airflow and the streams of one project on this machine, from the start to the end of `streamwarden up`."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

from streamwarden.adapters.airflow_server import AirflowServer
from streamwarden.adapters.store import Store
from streamwarden.disk import locked
from streamwarden.errors import AirflowError, ProcessError, StreamwardenError
from streamwarden.services.fleet.draining import drain
from streamwarden.services.fleet.exits.exit_recorder import Observation
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.local.airflow import FIRST_PORT, LocalAirflow, free_port
from streamwarden.services.local.marked import MarkedProcesses, session_of

HEALTHY_WITHIN: Final = 300.0
"""Seconds in which every component of Airflow must be healthy after the first start; about 15 on an idle machine."""

REQUESTED_BY: Final = "streamwarden up"


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold the lock file. Raises ProcessError if another process holds it.

    The kernel releases it, however its holder ends.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with locked(lock, wait=0) as file:
        if file is None:
            raise ProcessError(
                f"another process runs an Airflow for this folder (pid {lock.read_text().strip()})",
                expected="one at a time",
                where=str(lock),
                next_step="end it with Ctrl-C first",
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


class Installation:
    """One project's Airflow, and the drivers that it started.

    Args:
        settings: environment with which another process opens the same workspace.
    """

    def __init__(
        self,
        project: Path,
        data: Path,
        *,
        store: Store,
        fleet: Fleet,
        settings: Mapping[str, str],
        port: int | None = None,
    ) -> None:
        home = data / "airflow"
        self.marked = MarkedProcesses(data, home / "components")
        self.airflow = LocalAirflow(project, home, self.marked, settings, port or free_port(FIRST_PORT))
        home.mkdir(mode=0o700, parents=True, exist_ok=True)  # Airflow keeps its keys there
        self.marked.logs.mkdir(exist_ok=True)
        self.server = AirflowServer(url=self.airflow.url)
        self._store, self._fleet = store, fleet

    def end_orphans(self) -> None:
        """End the processes of an Airflow whose `up` was killed. Its drivers keep running."""
        self.marked.stop(patience=5.0, except_sessions=self._driver_sessions())

    def start(self) -> None:
        """Start Airflow. Raises ProcessError if a component ends, or not all are healthy within `HEALTHY_WITHIN` s."""
        self.airflow.start()
        deadline = time.monotonic() + HEALTHY_WITHIN
        self._await(lambda: self._unhealthy() is not None, deadline)
        self.airflow.start_scheduler()
        self._await(self.is_healthy, deadline)

    def is_healthy(self) -> bool:
        """Whether the API server answers and every component of Airflow is healthy."""
        return self._unhealthy() == []

    def _unhealthy(self) -> list[str] | None:
        """The components that are not healthy; None while the API server does not answer."""
        try:
            return self.server.unhealthy()
        except AirflowError:
            return None

    def _await(self, condition: Callable[[], bool], deadline: float) -> None:
        while not condition():
            for ended in self.airflow.restart_dead():
                raise ProcessError(
                    f"Airflow's {ended.name} ended with status {ended.status} before it was healthy",
                    next_step=f"read {self.marked.log_path(f'airflow-{ended.name}')}",
                )
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"Airflow is not healthy after {HEALTHY_WITHIN:.0f} s",
                    where=self.airflow.url,
                    next_step="read the logs in " + str(self.marked.logs),
                )
            time.sleep(0.5)

    def keep_running(self, announce: Callable[[str], None]) -> NoReturn:
        """Start each component of Airflow again that ends, until the handler of a signal raises."""
        while True:
            for ended in self.airflow.restart_dead():
                announce(str(ended))
            time.sleep(0.5)

    def stop(self) -> list[Observation]:
        """End Airflow, then stop the drivers that it started at a batch boundary. The next start runs them again.

        Raises ProcessError if a process does not end, StoreError if the store is down: the drivers are then ended with
        SIGTERM, and their batches run again.
        """
        self.airflow.stop()
        pids = {process.pid for process in self.marked.living()}
        try:
            ended = drain(self._store, self._fleet, requested_by=REQUESTED_BY, reason="Airflow was stopped", pids=pids)
            self._store.airflow_servers.forget(self.airflow.url)
            return ended
        finally:
            self.marked.stop(patience=5.0)

    def _driver_sessions(self) -> set[int]:
        """The sessions of the drivers that are alive: each has its own."""
        marked = self.marked.living()
        try:
            drivers = {driver.process.pid for driver in self._store.drivers.unfinished() if driver.process}
        except StreamwardenError:  # without the store no driver can be recognised: none is stopped
            drivers = {process.pid for process in marked}
        return {
            session for process in marked if process.pid in drivers and (session := session_of(process.pid)) is not None
        }
