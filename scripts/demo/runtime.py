"""The folders and the processes of the demo.

Every process of the demo, including grandchildren, has a mark in its environment. Whatever was killed, and however, the
next demo finds the processes that the last one left behind, and no others.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import psutil

MARK: Final = "STREAMWARDEN_DEMO"
"""Environment variable with the demo's root folder: a process that has it belongs to the demo."""

TAIL_LINES: Final = 25


class DemoFailed(Exception):
    """The demo cannot continue. `logs`: (path, its last lines), to be shown."""

    def __init__(self, message: str, logs: Sequence[Path] = ()) -> None:
        super().__init__(message)
        self.logs = [(path, tail_of(path)) for path in logs if path.is_file()]


class Runtime:
    """The folders of one checkout's demo, and the processes that carry its mark."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.root = project / "var" / "demo"
        self.data = self.root / "data"
        self.logs = self.root / "logs"
        self.airflow_home = self.root / "airflow"
        self._lock: IO[str] | None = None

    def prepare(self) -> None:
        """Take the lock, stop the processes of a demo that died, and make empty folders.

        Raises DemoFailed if a demo is running.
        """
        self.root.parent.mkdir(exist_ok=True)
        lock = (self.root.parent / "demo.lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel frees it, however its holder dies
        except BlockingIOError:
            lock.seek(0)
            raise DemoFailed(f"a demo is running here (pid {lock.read().strip()}): end it with Ctrl-C first") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock
        self.stop_processes(patience=5.0)
        if self.root.exists():
            shutil.rmtree(self.root)
        self.root.mkdir(mode=0o700)  # Airflow keeps its keys there
        for folder in (self.data, self.logs, self.airflow_home):
            folder.mkdir()

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a process of the demo: this one's, without any setting for another workspace."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("STREAMWARDEN_", "AIRFLOW_", "SPARK_", "PYSPARK_"))
        }
        programs = self.project / ".venv" / "bin"
        return {
            **inherited,
            "PATH": f"{programs}:{inherited.get('PATH', '')}",
            "STREAMWARDEN_PROJECT": str(self.project),
            "STREAMWARDEN_DATA": str(self.data),
            MARK: str(self.root),
            "SPT_NOENV": "1",  # Airflow renames its processes, by default over the environment that holds the mark
            "PYTHONUNBUFFERED": "1",
            **(extra or {}),
        }

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a process of the demo in its own session, so that Ctrl-C reaches this process alone."""
        with self.log_path(name).open("ab") as log:
            return subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.project,
                env=dict(env),
            )

    def log_path(self, name: str) -> Path:
        """The file with the output of a process."""
        return self.logs / f"{name}.log"

    def processes(self) -> list[psutil.Process]:
        """Every running process that carries the mark of this checkout's demo."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == str(self.root) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:  # it has ended meanwhile, or belongs to another user
                continue
        return [process for process in found if process.pid != os.getpid()]

    def stop_processes(self, *, patience: float) -> None:
        """Send SIGTERM to all of them, and SIGKILL to those that run after `patience` seconds.

        psutil compares start times, so it never signals another process that has the same id by now.

        Raises:
            DemoFailed: processes still run 10 s after SIGKILL.
        """
        _send(self.processes(), psutil.Process.terminate)
        deadline = time.monotonic() + patience
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.2)
        deadline = time.monotonic() + 10.0
        while (
            left := self.processes()
        ):  # repeatedly: a supervisor process may have started another one just before it ended
            if time.monotonic() > deadline:
                raise DemoFailed(f"these processes do not end: {', '.join(str(each.pid) for each in left)}")
            _send(left, psutil.Process.kill)
            time.sleep(0.2)


def _send(processes: Sequence[psutil.Process], signal: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        try:
            signal(process)
        except psutil.NoSuchProcess:
            continue


def tail_of(path: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a text file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 64 * 1024))
        return "\n".join(file.read().decode("utf-8", errors="replace").splitlines()[-lines:])
