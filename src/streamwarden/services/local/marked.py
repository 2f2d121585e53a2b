"""Processes that carry a mark in their environment.

Every process that inherits the mark is found again: also a grandchild in another session, and also after its parent was
killed. No other process is ever signalled.
"""

import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamwarden.adapters import processes
from streamwarden.errors import ProcessError
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.waiting import wait_until

MARK: Final = "STREAMWARDEN_LOCAL"
"""The variable; its value is the root folder, so that two projects do not find each other's processes."""

_FOREIGN: Final = ("STREAMWARDEN_", "AIRFLOW_", "SPARK_", "PYSPARK_")
"""Settings that may lead to another workspace, another Airflow or another Spark."""

_KEPT: Final = ("STREAMWARDEN_NOTIFY_URLS", "AIRFLOW_CONN_", "AIRFLOW_VAR_", "AIRFLOW__SECRETS__")
"""What a person gives to the installation: where alarms go, and how to reach brokers and databases."""

KILL_WITHIN: Final = 10.0
"""Seconds in which a process must be gone after SIGKILL."""


@dataclass(frozen=True)
class MarkedProcesses:
    """The processes of one root folder. Their output goes to files in `logs`."""

    root: Path
    logs: Path

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """This process's environment without settings for another workspace, with the mark, then `extra`."""
        own = (name for name in os.environ if name.startswith(_KEPT) or not name.startswith(_FOREIGN))
        kept = {name: os.environ[name] for name in own}
        # SPT_NOENV: Airflow renames its processes, by default over the environment that holds the mark.
        return {**kept, MARK: str(self.root), "SPT_NOENV": "1", "PYTHONUNBUFFERED": "1", **extra}

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> subprocess.Popen[bytes]:
        """Start a process in its own session, so that Ctrl-C does not reach it."""
        with self.log_path(name).open("ab") as log:
            return subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=cwd,
                env=dict(env),
            )

    def log_path(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def living(self, *, except_sessions: Collection[int] = ()) -> list[ProcessIdentity]:
        """Every living process with the mark, except this one and the members of these sessions."""
        marked = processes.with_variable(MARK, str(self.root))
        return [
            process
            for process in marked
            if process.pid != os.getpid() and session_of(process.pid) not in except_sessions
        ]

    def stop(self, *, patience: float, except_sessions: Collection[int] = ()) -> None:
        """Send SIGTERM to all of them, and SIGKILL to those that are alive after `patience` seconds.

        Raises ProcessError if processes are still alive `KILL_WITHIN` seconds later.
        """
        _send(self.living(except_sessions=except_sessions), signal.SIGTERM)
        wait_until(lambda: not self.living(except_sessions=except_sessions), within=patience, every=0.2)
        deadline = time.monotonic() + KILL_WITHIN
        # Repeatedly: a process may have started another one just before it ended.
        while left := self.living(except_sessions=except_sessions):
            if time.monotonic() > deadline:
                pids = ", ".join(str(process.pid) for process in left)
                raise ProcessError(
                    f"processes are alive {KILL_WITHIN:.0f} s after SIGKILL: {pids}",
                    expected="none",
                    where=str(self.root),
                    next_step="look at their state in `ps`: a process that waits for a disk ends when the disk answers",
                )
            _send(left, signal.SIGKILL)
            time.sleep(0.2)


def session_of(pid: int) -> int | None:
    """The session of a process; None if it has ended."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _send(targets: Sequence[ProcessIdentity], signum: int) -> None:
    for process in targets:
        processes.signal_one(process, signum)
