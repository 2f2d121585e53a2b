"""A run that is one command: started in a group of its own, killed as a group, and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from benchmarks.side_by_side.contender import Output, Place

ENDS_WITHIN = 20.0
"""Seconds after SIGTERM."""


class ProcessRun:
    """One run. Nobody watches it: after a kill it is started again at once, as the best supervisor would.

    Args:
        command: argv; it may look for what an earlier life left.
        seconds: of the checkpoints so far.
    """

    def __init__(
        self,
        place: Place,
        command: Callable[[], Sequence[str]],
        output: Output,
        seconds: Callable[[], Sequence[float]] = tuple,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.output = output
        self.checkpoints = seconds
        self._place, self._command = place, command
        self._environment = {**os.environ, **(environment or {})}
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with (self._place.root / "log").open("ab") as log:
            return subprocess.Popen(
                self._command(),
                env=self._environment,
                cwd=self._place.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._process = self._start()

    def ready(self) -> bool:
        return True

    def end(self) -> None:
        """SIGTERM; SIGKILL to what is left."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ENDS_WITHIN)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signum)


@contextmanager
def running(run: ProcessRun) -> Iterator[ProcessRun]:
    """Ends the run, and closes its output."""
    try:
        yield run
    finally:
        run.end()
        run.output.close()
