"""The control loop beside the query: lease, stop request, deadlines, measurements, log size. Runs every 0.25 s."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from streamwarden.adapters import processes
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.health.window import Measurement
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.supervision.stop import StopRequest
from streamwarden.spark.driver.query_registry import QueryRegistry
from streamwarden.spark.driver.sessions import Sessions
from streamwarden.spark.driver.store_link import StoreLink
from streamwarden.spark.groups.engine import Engine
from streamwarden.spark.internals.graceful import Stop, stop_at_boundary, stop_now
from streamwarden.spark.log import cap_log, say
from streamwarden.stream.spec import StreamSpec

TICK: Final = 0.25
MEASURE_EVERY: Final = 10.0
END_GRACE: Final = 15.0
"""Seconds that a script has to come to its end once its queries were stopped."""

SCRIPT_GRACE: Final = 120.0
"""Seconds that a script has to start a query again, or to end, after its last query failed."""

CUT_PATIENCE: Final = 5.0
"""Seconds that a fenced driver's query has to stop before the process is ended over it."""

SUPERVISOR_GRACE: Final = 3.0
"""Seconds past a deadline before the driver enforces it itself; until then that is left to its supervisor process,
which may have been killed."""


class Reason(StrEnum):
    STOP_REQUESTED = "stop_requested"
    LEASE_LOST = "lease_lost"
    TERMINATED = "terminated"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Ending:
    """Reason for which the control loop ended the queries."""

    reason: Reason
    detail: str
    request: StopRequest | None = None


class Control:
    """Runs on a separate thread, so that the job keeps the main thread.

    Args:
        finish: writes the outcome and ends the process; called if the job does not end after its queries did, or at
            once after SIGTERM.
        engine: the driver's processes. Without its JVM this process ends; in a group it says so before.
    """

    def __init__(
        self,
        spec: StreamSpec,
        folder: Path,
        *,
        link: StoreLink,
        sessions: Sessions,
        registry: QueryRegistry,
        engine: Engine,
        finish: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._spec = spec
        self._folder = folder
        self._link = link
        self._sessions = sessions
        self._registry = registry
        self._engine = engine
        self._finish = finish
        self._clock = clock
        self._terminate = threading.Event()
        self._refused_until: float | None = None
        self._failed_at: float | None = None
        self._at_boundaries = threading.Event()
        self._at_boundaries.set()
        self._measure_at = 0.0
        self._ended_at = 0.0
        self._stopped = False
        self.ending: Ending | None = None
        self.finished = threading.Event()

    def start(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self._terminate.set())
        threading.Thread(target=self._run, name="streamwarden control", daemon=True).start()

    def refuse(self) -> None:
        """A query was refused: end the driver, the others at their batch boundaries. Returns at once.

        The script sees the refused query end within milliseconds, long before the next turn: from here on it waits for
        the boundaries of the others before it stops Spark.
        """
        if self._refused_until is None:
            self._at_boundaries.clear()
            self._refused_until = self._clock() + self._spec.stop.batch_deadline
            if self._stopped:  # the queries were ended meanwhile, and no further turn refuses anything
                self._at_boundaries.set()

    def await_boundaries(self) -> None:
        """Wait while queries are being stopped at their batch boundaries.

        A script that waits for any of its queries sees the first one end, and may stop Spark under the others.
        """
        self._at_boundaries.wait()

    def _run(self) -> None:
        while not self.finished.wait(TICK):
            if self._engine.is_gone():  # the JVM was killed: there is nothing left to control
                if self._engine.group is not None:
                    self._finish()
                os._exit(137)
            try:
                self._turn()
            except Exception as error:
                # A defect in here must neither end the query nor go unseen.
                say(f"control loop: {type(error).__name__}: {error}")

    def _turn(self) -> None:
        if self._terminate.is_set():
            if not self._stopped:
                self._end(Ending(Reason.TERMINATED, "SIGTERM", self._request()))
            self._finish()  # the JVM may be going down already: write the outcome while there is time
        elif not self._stopped:
            if self._link.lost is not None:
                self._cut(Ending(Reason.LEASE_LOST, str(self._link.lost)))
            elif (request := self._request()) is not None:
                self._end_at_boundary(request)
            elif self._refused_until is not None:
                self._turn_away()
            elif self._is_abandoned():
                self._finish()
            elif self._has_planned_its_last():
                self._all_at_boundary(self._give_up)  # the job's thread sees its query end, as one without more input
            else:
                self._measure()
        elif time.monotonic() > self._ended_at + END_GRACE:
            self._finish()

    def _request(self) -> StopRequest | None:
        """The stop request, from this host's file or from the store; the latter is copied to this host's file."""
        mirrored = files.read_stop(self._folder)
        stored = self._link.stop
        if stored is not None and (mirrored is None or stored.requested_at > mirrored.requested_at):
            with contextlib.suppress(OSError):
                files.write_stop(self._folder, stored)
            mirrored = stored
        return mirrored if mirrored is not None and mirrored.driver_id == self._folder.name else None

    def _end_at_boundary(self, request: StopRequest) -> None:
        # Said before it happens: the job's thread sees its query end before this one does.
        self.ending = Ending(Reason.STOP_REQUESTED, request.reason, request)
        if self._link.started is None:  # still at its start: there is no batch to wait for, and none shall begin
            self._end(self.ending)
            self._finish()
        if self._all_at_boundary(self._give_up) and not self._give_up():
            self._end(self.ending)

    def _has_planned_its_last(self) -> bool:
        """Whether the batch that the query ends with is planned: the next boundary is its end.

        If that batch begins and ends between two turns, the query ends with the batch after it.
        """
        spec = self._spec
        return spec.last_batch is not None and spec.is_last(log_position(checkpoint_of(spec)).planned)

    def _is_abandoned(self) -> bool:
        """Whether a query failed, no query runs any more, and the script continues without a new one.

        A script that polls its query, instead of waiting for it, would keep a driver alive forever.
        """
        runs, ended = set(self._link.runs), dict(self._link.terminated)
        newest = {event.query_id: event.error for event in ended.values()}
        if not runs or not runs <= set(ended) or not any(newest.values()):
            self._failed_at = None
            return False
        self._failed_at = self._failed_at or time.monotonic()
        return time.monotonic() > self._failed_at + SCRIPT_GRACE

    def _turn_away(self) -> None:
        """End the other queries after one was refused; after the deadline even in the middle of a batch."""
        ending = Ending(Reason.REFUSED, "a query was refused")
        if self._all_at_boundary(lambda: self._give_up() or self._clock() > (self._refused_until or 0.0)):
            self._end(ending)
        elif self._clock() > (self._refused_until or 0.0):
            self._cut(ending)

    def _all_at_boundary(self, give_up: Callable[[], bool]) -> bool:
        """Stop every query, each at its own boundary and all at the same time: one that has a long batch holds up no
        other, and the deadline is for all of them. False if it was given up."""
        self._at_boundaries.clear()
        try:
            while queries := self._sessions.active_queries():
                with ThreadPoolExecutor(len(queries), thread_name_prefix="streamwarden stop") as pool:
                    ends = set(pool.map(partial(stop_at_boundary, give_up=give_up), queries))
                if Stop.GIVEN_UP in ends:
                    return False  # fenced, terminated or out of time: the next turn acts on it
            return True
        finally:
            self._at_boundaries.set()

    def _give_up(self) -> bool:
        if self._terminate.is_set() or self._link.lost is not None:
            return True
        request = self._request()
        if request is None:
            return False
        now = self._clock()
        if now > request.kill_deadline + SUPERVISOR_GRACE:
            processes.signal_one(self._engine.process, signal.SIGKILL)  # if it is the JVM, this process follows
        if now > request.batch_deadline + SUPERVISOR_GRACE:
            self._terminate.set()
        return self._terminate.is_set()

    def _cut(self, ending: Ending) -> None:
        """Stop everything now; a query that cannot be stopped ends with the process."""
        self._end(ending)
        for query in self._sessions.active_queries():
            stopper = threading.Thread(target=stop_now, args=(query,), daemon=True)
            stopper.start()
            stopper.join(CUT_PATIENCE)
        if self._link.started is None or self._sessions.active_queries():
            self._finish()

    def _end(self, ending: Ending) -> None:
        self.ending = ending
        self._stopped = True
        self._ended_at = time.monotonic()
        self._at_boundaries.set()  # no boundary is awaited any more

    # Measuring

    def _measure(self) -> None:
        now = time.monotonic()
        if now < self._measure_at:
            return
        values = [(self._spec.name, "resident_bytes", self._engine.resident_bytes()), *self._state_bytes()]
        at = self._clock()
        self._link.measure(
            Measurement(stream=stream, name=name, at=at, value=float(value), unit="bytes", source="driver")
            for stream, name, value in values
            if value is not None
        )
        cap_log(self._folder / files.LOG)
        took = time.monotonic() - now
        # A huge state directory takes long to walk: never more than a twentieth of one thread.
        self._measure_at = time.monotonic() + max(MEASURE_EVERY, 20 * took)

    def _state_bytes(self) -> Iterator[tuple[str, str, int]]:
        """Bytes that each query keeps under `state/`."""
        for record in self._registry.records():
            state = Path(record.checkpoint) / "state"
            if state.is_dir():
                yield record.identity, "state_dir_bytes", folder_bytes(state)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a local folder; what is removed meanwhile does not count."""
    total = 0
    pending = [str(folder)]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
    return total
