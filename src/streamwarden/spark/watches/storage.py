"""Ends a driver whose host no longer reaches the storage of its checkpoint, such as a mounted folder whose server is
cut off: then another host can go on.

A thread that reads or writes such a folder waits, for hours if need be, while the driver renews its lease. Spark's
clients of object stores try again for many minutes. The thread that measures the silence touches neither the storage
nor the driver's log, which may be in the same folder. A call that the storage has taken already may still be carried
out when it answers again; no call follows it.

A storage that is silent on every host is waited for up to the stream's bound. One that answers another host, as that
host's reports say, is given up much sooner.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from streamwarden.adapters import processes
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.layout import METADATA
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle.driver import ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.hosts.elsewhere import ASK_AFTER, STORAGE_SILENT
from streamwarden.lifecycle.hosts.report import REPORT_EVERY
from streamwarden.lifecycle.location import URL, plain_path
from streamwarden.services.fleet.hosts.placement import storage_id
from streamwarden.spark.watches.silence import SilenceWatch
from streamwarden.units import Seconds, format_duration


class StorageWatch(SilenceWatch):
    """Measures how long the storage of the checkpoint has been silent, from its construction on.

    Args:
        connection: of an object store.
        data: the data folder, by which hosts that share a storage know each other.
        bound: seconds of silence after which the driver ends, even if no other host gets an answer.
        reached_by: name of another host that gets answers from the storage with this id, which has been silent here
            for so many seconds; None: there is none. Raises StreamwardenError.
        give_up: records why it ended, and gives its lease back.
        clock: monotonic seconds.
    """

    watched: ClassVar[str] = "storage"

    def __init__(
        self,
        checkpoint: str,
        connection: str | None,
        jvm: ProcessIdentity,
        data: Path,
        *,
        bound: Seconds,
        reached_by: Callable[[str, Seconds], str | None],
        give_up: Callable[[ExitRecord], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(bound=bound, clock=clock)
        self._checkpoint = plain_path(checkpoint)
        self._connection = connection
        self._known = False
        self._jvm = jvm
        self._data = data
        self._reached_by = reached_by
        self._give_up = give_up
        self._storage: str | None = None
        self._ask_at = ASK_AFTER

    def committed(self) -> None:
        """A query has committed a batch: the storage answers Spark. Safe on any thread."""
        self._answered.set()

    def _answers(self) -> bool:
        return self._remote_answers() if URL.match(self._checkpoint) else self._mounted_answers()

    def _remote_answers(self) -> bool:
        """Asks with a client of this process, whose errors say nothing until it has got an answer once: it may lack
        what Spark's client has."""
        try:
            (open_path(self._checkpoint, self._connection) / METADATA).read()
        except FileNotFoundError:
            return True
        except (OSError, StreamwardenError):
            return not self._known
        self._known = True
        return True

    def _mounted_answers(self) -> bool:
        """A mounted folder asks its server each time that a file is opened. An error is an answer, by which Spark ends
        the query."""
        with contextlib.suppress(OSError):
            (Path(self._checkpoint) / METADATA).read_bytes()
            if self._storage is None and Path(self._checkpoint).stat().st_dev == self._data.stat().st_dev:
                self._storage = storage_id(self._data)
        return True

    def _act(self, before: Seconds) -> None:
        silent = self._silence.lasted
        if silent < before:
            self._ask_at = ASK_AFTER
        if silent >= self._bound:
            self._end(None)
        elif silent >= self._ask_at:
            self._ask_at = silent + REPORT_EVERY
            if (host := self._elsewhere(silent)) is not None:
                self._end(host)

    def _elsewhere(self, silent: Seconds) -> str | None:
        """A host on which the stream can go on; None: none is known, or the store does not answer either."""
        with contextlib.suppress(StreamwardenError):
            return None if self._storage is None else self._reached_by(self._storage, silent)
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
