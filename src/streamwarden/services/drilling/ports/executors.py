"""The executors of a fork's driver that run on this host, found by the tag that its driver gives each of them."""

import re
import signal
from collections.abc import Sequence
from typing import Final

from streamwarden.adapters import processes
from streamwarden.drills.faults.driver.kill_executor import EXECUTORS, ExecutorProcess
from streamwarden.errors import DrillAborted
from streamwarden.lifecycle.submission import executor_tag
from streamwarden.services.drilling.ports import Offer

_MAIN: Final = re.compile(r"org\.apache\.spark\.[a-z.0-9]+\.\w*ExecutorBackend")
"""The main class of an executor on a standalone cluster, YARN or Kubernetes. A shell that starts one does not have it
as a separate argument."""


class ForkExecutors:
    """Implements `Executors`."""

    def find(self, driver_id: str) -> Sequence[ExecutorProcess]:
        tag = executor_tag(driver_id)
        executors = []
        for pid, command in processes.commands().items():
            if tag in command and any(_MAIN.fullmatch(part) for part in command):
                process = processes.identity(pid)
                if process is not None:
                    executors.append(ExecutorProcess(id=_id(command), process=process))
        return sorted(executors, key=lambda executor: (len(executor.id), executor.id))

    def kill(self, executor: ExecutorProcess) -> bool:
        try:
            return processes.signal_one(executor.process, signal.SIGKILL)
        except PermissionError:
            raise DrillAborted(
                f"this user may not kill executor {executor.id} (pid {executor.process.pid})",
                expected="executors that run as the user who drills",
                where="kill_executor",
                next_step="run the drill as the user of the cluster's workers",
            ) from None

    def is_alive(self, executor: ExecutorProcess) -> bool:
        """A process that is dead but not yet reaped does not count as alive."""
        return processes.is_alive(executor.process) is True


def _id(command: Sequence[str]) -> str:
    try:
        return command[list(command).index("--executor-id") + 1]
    except (ValueError, IndexError):
        return "?"


OFFERS: Final = (Offer(EXECUTORS, lambda _: ForkExecutors()),)
