"""Ends a driver whose host no longer reaches the storage of its checkpoint, such as a mounted folder whose server is
cut off: then another host can go on.

Whoever touches such a folder waits, for hours if need be, while the driver renews its lease. One thread asks, since an
answer may never come; the other one measures the silence. It touches neither the storage nor the driver's log, which
may be in the same folder. A call that the storage has taken already may still be carried out when it answers again; no
call follows it.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from streamwarden.adapters import processes
from streamwarden.checkpoint.formats.layout import METADATA
from streamwarden.lifecycle.driver import ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.location import URL, plain_path
from streamwarden.lifecycle.supervision.heartbeat import Silence
from streamwarden.units import Seconds, format_duration

ASK_EVERY: Final = 2.0
LOOK_EVERY: Final = 0.25

SILENT_CLASS: Final = "StorageUnresponsive"
"""Error class of a driver that ended because the storage of its checkpoint did not answer."""


class StorageWatch:
    """Measures how long the storage of the checkpoint has been silent, from its construction on.

    Args:
        bound: seconds of silence after which the driver ends.
        give_up: records why it ended, and gives its lease back.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        checkpoint: str,
        jvm: ProcessIdentity,
        *,
        bound: Seconds,
        give_up: Callable[[ExitRecord], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checkpoint = plain_path(checkpoint)
        self._jvm = jvm
        self._bound = bound
        self._give_up = give_up
        self._clock = clock
        self._answered = threading.Event()
        self._closed = threading.Event()
        self._silence = Silence(clock())

    def start(self) -> None:
        """Watch a mounted folder. Spark's requests to an object store or to HDFS fail in time by themselves."""
        if URL.match(self._checkpoint):
            return
        for name, work in (("streamwarden storage", self._ask_on), ("streamwarden silence", self._watch)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def probe(self) -> None:
        """Measure the silence now, and end the driver past the bound."""
        heard = self._answered.is_set()
        self._answered.clear()
        self._silence = self._silence.at(self._clock(), heard=heard)
        if self._silence.lasted >= self._bound:
            self._end()

    def ask(self) -> None:
        """Have the storage answer: the server of a mounted folder is asked each time that a file is opened. An error is
        an answer, by which Spark ends the query."""
        with contextlib.suppress(OSError):
            (Path(self._checkpoint) / METADATA).read_bytes()
        self._answered.set()

    def _end(self) -> None:
        """Give the lease up, then end both halves of the driver, whatever became of that."""
        try:
            with contextlib.suppress(Exception):
                self._give_up(unanswered(self._checkpoint, self._silence.lasted, at=time.time()))
        finally:
            processes.signal_one(self._jvm, signal.SIGKILL)
            os._exit(137)

    def _ask_on(self) -> None:
        while not self._closed.is_set():
            self.ask()
            self._closed.wait(ASK_EVERY)

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_EVERY):
            self.probe()


def unanswered(checkpoint: str, silent: Seconds, *, at: float) -> ExitRecord:
    """The record of a driver that ended after `silent` seconds without an answer. It names no signal: nobody has seen
    the end of the process, so that the next driver puts a fence before it."""
    return ExitRecord(
        kind=ExitKind.KILLED,
        ended_at=at,
        error_class=SILENT_CLASS,
        message=f"the storage of the checkpoint {checkpoint} has not answered on this host for "
        f"{format_duration(round(silent))}: the driver ended, so that another host can go on",
        next_step="nothing is lost: an interrupted batch runs again at the next start. Look at the mount of the folder "
        "on this host; restart.unresponsive_after in the stream's file sets how long the storage may stay silent",
    )
