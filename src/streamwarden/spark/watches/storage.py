"""Ends a driver whose host no longer reaches the storage of its checkpoint, such as a mounted folder whose server is
cut off: then another host can go on.

A thread that reads or writes such a folder waits, for hours if need be, while the driver renews its lease. Spark's
clients of object stores try again for many minutes. The thread that measures the silence touches neither the storage
nor the driver's log, which may be in the same folder. A call that the storage has taken already may still be carried
out when it answers again; no call follows it.

A mounted folder that is silent on every host is waited for up to the stream's bound, as while its server restarts, and
an object store or HDFS as long as Spark's client waits. Storage that another host reads meanwhile is given up soon.
"""

import contextlib
import math
import os
import signal
import time
from collections.abc import Callable
from typing import ClassVar, Final

from streamwarden.adapters import processes
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.layout import METADATA
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle.driver import DriverEvent, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.hosts.elsewhere import ASK_AFTER, GIVE_UP_AFTER, STORAGE_SILENT
from streamwarden.lifecycle.location import URL, plain_path
from streamwarden.spark.watches.silence import SilenceWatch
from streamwarden.units import Seconds, format_duration

_LOOK_EVERY: Final[Seconds] = 1.0
"""Seconds between two looks for an answer of another host."""


class StorageWatch(SilenceWatch):
    """Measures how long the storage of the checkpoint has been silent, from its construction on.

    Args:
        connection: of an object store.
        bound: seconds of silence after which a driver with a mounted folder ends, even if no other host gets an answer.
        ask_elsewhere: asks other hosts whether they read the checkpoint, by the text of its metadata; returns the
            question. Raises StreamwardenError.
        reached_by: name of a host that has answered the question; None: there is none yet. Raises StreamwardenError.
        give_up: records why it ended, and gives its lease back.
        clock: monotonic seconds.
    """

    watched: ClassVar[str] = "storage"

    def __init__(
        self,
        checkpoint: str,
        connection: str | None,
        jvm: ProcessIdentity,
        *,
        bound: Seconds,
        ask_elsewhere: Callable[[str, str | None, str], DriverEvent],
        reached_by: Callable[[DriverEvent], str | None],
        give_up: Callable[[ExitRecord], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checkpoint = plain_path(checkpoint)
        self._connection = connection
        self._remote = URL.match(self._checkpoint) is not None
        super().__init__(bound=math.inf if self._remote else bound, clock=clock)
        self._jvm = jvm
        self._ask_elsewhere = ask_elsewhere
        self._reached_by = reached_by
        self._give_up = give_up
        self._metadata: str | None = None
        self._asked: DriverEvent | None = None
        self._look_at = 0.0

    def committed(self) -> None:
        """A query has committed a batch: the storage answers Spark. Safe on any thread."""
        self._answered.set()

    def _answers(self) -> bool:
        """A mounted folder asks its server each time that a file is opened; an error is an answer, by which Spark ends
        the query. Elsewhere this process asks with a client of its own, which may lack what Spark's has: its errors say
        nothing until it has got an answer once."""
        try:
            content = (open_path(self._checkpoint, self._connection) / METADATA).read()
        except FileNotFoundError:
            return True
        except (OSError, StreamwardenError):
            return not self._remote or self._metadata is None
        self._metadata = content.decode(errors="replace")
        return True

    def _act(self, before: Seconds) -> None:
        silent = self._silence.lasted
        if silent < before:
            self._asked = None
        if silent >= self._bound:
            self._end(None)
        elif silent >= ASK_AFTER and self._clock() >= self._look_at:
            self._look_at = self._clock() + _LOOK_EVERY
            host = self._elsewhere()
            if host is not None and silent >= GIVE_UP_AFTER:
                self._end(host)

    def _elsewhere(self) -> str | None:
        """A host on which the stream can go on; None: none is known yet, or the store does not answer either."""
        with contextlib.suppress(StreamwardenError):
            if self._asked is not None:
                return self._reached_by(self._asked)
            if self._metadata is not None:
                self._asked = self._ask_elsewhere(self._checkpoint, self._connection, self._metadata)
        return None

    def _end(self, elsewhere: str | None) -> None:
        """Give the lease up, then end both halves of the driver, whatever became of that."""
        try:
            with contextlib.suppress(Exception):
                self._give_up(unanswered(self._checkpoint, self._silence.lasted, elsewhere, at=time.time()))
        finally:
            processes.signal_one(self._jvm, signal.SIGKILL)
            os._exit(137)


def unanswered(checkpoint: str, silent: Seconds, elsewhere: str | None, *, at: float) -> ExitRecord:
    """The record of a driver that ended after `silent` seconds without an answer. It names no signal: nobody has seen
    the end of the process, so that the next driver puts a fence before it.

    Args:
        elsewhere: name of the host that gets an answer; None: none is known.
    """
    answers = "" if elsewhere is None else f", and {elsewhere} gets an answer"
    return ExitRecord(
        kind=ExitKind.KILLED,
        ended_at=at,
        error_class=STORAGE_SILENT,
        message=f"the storage of the checkpoint {checkpoint} has not answered on this host for "
        f"{format_duration(round(silent))}{answers}: the driver ended, so that another host can go on",
        next_step="nothing is lost: an interrupted batch runs again at the next start. Look at this host's network and "
        "its mount of the folder; restart.unresponsive_after in the stream's file sets how long a storage that is "
        "silent on all hosts is waited for",
    )
