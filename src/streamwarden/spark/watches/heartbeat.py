"""The driver's heartbeat: the Python half asks the JVM, and only a JVM that answers keeps the lease.

An unresponsive JVM (stopped, thrashing, hung in a safepoint) leaves the Python half running. Without this check it
would renew the lease forever, and the stream would count as running. The silence is reported to the store and, past the
bound, to the supervisor process, which kills the driver.
"""

import contextlib
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final, Protocol

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.supervision.heartbeat import (
    JVM_ANSWERS,
    JVM_SILENT,
    Pulse,
    killed_unresponsive,
    pulse,
)
from streamwarden.spark.log import say
from streamwarden.spark.watches.silence import SilenceWatch
from streamwarden.units import Seconds

SUPERVISOR_GRACE: Final = 3.0
"""Seconds past the bound before the Python half kills the JVM itself, if there is no supervisor process to do so: it
was killed, or the driver runs in a cluster."""


class SilenceReport(Protocol):
    """Records an event of the driver; must not wait."""

    def __call__(self, kind: str, **detail: str) -> None: ...


class Heartbeat(SilenceWatch):
    """Measures how long the JVM has been silent, from its construction on.

    Args:
        ask: returns when the JVM answered; raises, or never returns, when it does not.
        bound: seconds of silence after which the driver counts as unresponsive.
        clock: monotonic seconds.
    """

    watched: ClassVar[str] = "heartbeat"

    def __init__(
        self,
        ask: Callable[[], object],
        folder: Path,
        jvm: ProcessIdentity,
        *,
        bound: float,
        report: SilenceReport,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(bound=bound, clock=clock)
        self._ask = ask
        self._folder = folder
        self._jvm = jvm
        self._report = report
        self._noticed = False
        self._reported = False

    @property
    def beats(self) -> bool:
        """Whether the JVM answered within the bound: then the lease may be renewed."""
        return pulse(self._silence.lasted, self._bound) is not Pulse.UNRESPONSIVE

    def _answers(self) -> bool:
        try:
            self._ask()
        except Exception as error:  # any error of the connection means that there is no answer
            say(f"no answer from the JVM: {error}")
            return False
        return True

    def _act(self, before: Seconds) -> None:
        silent = self._silence.lasted
        state = pulse(silent, self._bound)
        if state is Pulse.BEATING and self._noticed:
            self._noticed = False
            self._report(JVM_ANSWERS, silent_for=f"{before:.1f}")
        elif state is not Pulse.BEATING and not self._noticed:
            self._noticed = True
            self._report(JVM_SILENT, silent_for=f"{silent:.1f}")
        if state is Pulse.UNRESPONSIVE:
            self._give_up(silent)

    def _give_up(self, silent: float) -> None:
        if not self._reported:
            self._reported = True
            with contextlib.suppress(OSError):
                files.write_document(self._folder / files.UNRESPONSIVE, {"silent_for": silent})
        if silent >= self._bound + SUPERVISOR_GRACE:
            with contextlib.suppress(OSError):
                record = killed_unresponsive(silent, at=time.time(), by="its Python half")
                files.write_outcome(self._folder, record)
            processes.signal_one(self._jvm, signal.SIGKILL)  # the control loop sees its parent gone and follows
