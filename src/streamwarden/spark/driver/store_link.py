"""The one thread of the driver that talks to the store. No batch ever waits for it.

Progress goes queue -> store; while the store is down or locked it goes to the spill file instead, and is loaded when
the store is back. The same thread renews the lease and reads stop requests. A store that is down neither stops this
driver nor hides a loss of the lease for longer than the outage.
"""

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.formats.layout import COMMITS, OFFSETS
from streamwarden.checkpoint.formats.logs import written_at
from streamwarden.errors import LeaseLost, ProgressError, StoreError, StreamwardenError
from streamwarden.health.window import Measurement
from streamwarden.lifecycle.driver import DriverEvent, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.driver_folder import QUERY_STARTED, append_event, write_queries
from streamwarden.lifecycle.hosts.elsewhere import REACHED, question, reached_by
from streamwarden.lifecycle.hosts.report import host_name
from streamwarden.lifecycle.lease import Lease
from streamwarden.lifecycle.queries import QueryRecord
from streamwarden.lifecycle.supervision.stop import StopRequest
from streamwarden.progress import Progress, parse_progress
from streamwarden.services.fleet.claims import LEASE_TTL
from streamwarden.services.fleet.exits.backfill import fill_from_logs, keep_unreadable, load_spill, spill
from streamwarden.spark.driver.failures import from_spark
from streamwarden.spark.driver.query_registry import Admission, QueryRegistry
from streamwarden.spark.internals.listener import QueryEvent, QueryProgressed, QueryStarted, QueryTerminated
from streamwarden.spark.log import say
from streamwarden.waiting import wait_until

RENEW_EVERY: Final = 5.0
STOP_POLL: Final = 1.0
RETRY_EVERY: Final = 2.0
"""Seconds between two attempts while the store is down."""

MOST_ATTEMPTS: Final = 5
"""Attempts of one call, RETRY_EVERY apart; an outage uses up none, since nothing is tried while the store is down."""

SAID_EACH: Final = 100
"""Of the progress reports that cannot be read, each hundredth is in the driver's log."""
KEPT_MEASUREMENTS: Final = 1000


class Watcher(Protocol):
    """Receives every report, after it was stored or spilled."""

    def __call__(self, progress: Progress) -> None: ...


class StoreLink:
    """Owns the driver's connection to the store.

    Args:
        url: the store's; it may hold a password.
        lease: the launcher's claim, to be bound to `process`.
        watcher: see Watcher; called on this link's thread.
        registry: knows under which names the driver's queries are kept.
        beats: whether the JVM answers; the lease is renewed only then.
    """

    def __init__(
        self,
        url: str,
        *,
        stream: str,
        folder: Path,
        lease: Lease,
        process: ProcessIdentity,
        registry: QueryRegistry,
        watcher: Watcher = lambda progress: None,
        beats: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = Store(url)
        self._stream = stream
        self._folder = folder
        self._lease = lease
        self._checkpoint = lease.checkpoints[0]
        self._leasing = threading.Lock()
        self._process = process
        self._watcher = watcher
        self._registry = registry
        self._beats = beats
        self._clock = clock
        self._queue: queue.SimpleQueue[QueryEvent | None] = queue.SimpleQueue()
        self._owed: deque[tuple[Callable[[], object], int]] = deque()
        self._measurements: deque[Measurement] = deque(maxlen=KEPT_MEASUREMENTS)
        self._down_until = 0.0
        self._spilled = False
        self._reported = False
        self._unreadable = 0
        self._renew_at = 0.0
        self._poll_at = 0.0
        self.renewed_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="streamwarden store", daemon=True)
        self.lost: LeaseLost | None = None
        self.stop: StopRequest | None = None
        self.started: QueryStarted | None = None
        self._newest: dict[str, str] = {}
        self.runs: set[str] = set()
        self.terminated: dict[str, QueryTerminated] = {}

    def bind(self, deadline: float = 60.0) -> None:
        """Adopt the lease for this process; before it is ours no query may start.

        Raises LeaseLost if another driver has it, StoreError if the store stayed down for `deadline` seconds.
        """
        end = time.monotonic() + deadline
        while True:
            try:
                with self._leasing:
                    self._lease = self._store.leases.bind(self._lease, self._process, ttl=LEASE_TTL, now=self._clock())
                self.renewed_at = time.monotonic()
                self._renew_at = self.renewed_at + RENEW_EVERY
                break
            except StoreError as error:
                if time.monotonic() > end:
                    raise
                say(f"waiting for the store: {error}")
                time.sleep(1.0)
        self._owe(lambda: self._store.drivers.bound(self._folder.name, self._process))

    @property
    def lease(self) -> Lease:
        """The lease as it was renewed last, at `renewed_at` (monotonic seconds)."""
        return self._lease

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The checkpoints that this driver has claimed."""
        return self._lease.checkpoints

    @property
    def needs_fence(self) -> bool:
        """Whether this driver can be cut off from the store and still write to its checkpoint."""
        return self._store.is_server

    def lose(self, lost: LeaseLost) -> None:
        """The lease was taken over, as a fence says: nothing is renewed any more."""
        self.lost = self.lost or lost

    def lost_by_now(self) -> LeaseLost | None:
        """The loss of the lease, which the store is asked for once; None: it is held, or the store is down. Safe on any
        thread."""
        try:
            with self._leasing:
                self._lease = self._store.leases.renew(self._lease, ttl=LEASE_TTL, now=self._clock())
        except LeaseLost as lost:
            self.lose(lost)
        except StoreError as error:
            say(f"whether the lease is held is not known: {error}")
        return self.lost

    def ask_elsewhere(self, checkpoint: str, connection: str | None, metadata: str) -> DriverEvent:
        """Ask other hosts whether they reach a checkpoint that does not answer here; see `elsewhere.question`. Safe on
        any thread, and touches no file. Raises StoreError."""
        at = self._clock() + self._store.leases.clock_offset()
        asked = question(self._folder.name, at, checkpoint=checkpoint, connection=connection, metadata=metadata)
        self._store.drivers.event(asked)
        return asked

    def reached_by(self, asked: DriverEvent) -> str | None:
        """A host that has answered the question and may start drivers; None: there is none yet. Safe on any thread.
        Raises StoreError."""
        answers = self._store.drivers.events_since([asked.driver_id], REACHED, asked.at)
        drained = self._store.hosts.drained() if answers else ()
        return reached_by(answers, asked, here=host_name(self._process.host), drained=drained)

    def give_up(self, record: ExitRecord) -> None:
        """Record the driver's end and give its lease back, for a driver that ends at once and may not touch its folder.
        One that has reported a batch has worked, so that the stream starts again at once.

        Raises StoreError.
        """
        self._store.drivers.exited(self._folder.name, replace(record, committed=self._reported))
        self._store.leases.release(self._lease, now=self._clock())

    def claim(self, *checkpoints: str) -> Lease:
        """Claim more checkpoints for this driver, before a query may write to them. Safe on any thread.

        Raises LeaseHeld if another driver has one, LeaseLost if this one was replaced, StoreError if the store is down.
        """
        with self._leasing:
            self._lease = self._store.leases.add(self._lease, *checkpoints, ttl=LEASE_TTL, now=self._clock())
            return self._lease

    def start(self) -> None:
        self._thread.start()

    def emit(self, event: QueryEvent) -> None:
        """Take an event from Spark's listener thread. Never waits."""
        if isinstance(event, QueryTerminated):
            # Spark posts the end of a run to its bus, and may announce the next run of the query before that
            if self._newest.get(event.query_id, event.run_id) == event.run_id:
                self.terminated[event.run_id] = event
        elif isinstance(event, QueryStarted):
            self.started = event
            self.runs.add(event.run_id)
            self._supersede(event)
        self._queue.put(event)

    def _supersede(self, event: QueryStarted) -> None:
        """Keep only the newest run of a query: a script may start it again after a failure, and may
        do so for months."""
        older = self._newest.get(event.query_id)
        self._newest[event.query_id] = event.run_id
        if older is not None and older != event.run_id:
            self.runs.discard(older)
            self.terminated.pop(older, None)

    def known_queries(self) -> tuple[QueryRecord, ...]:
        """The stream's queries of earlier drivers; none while the store is down."""
        try:
            return self._store.queries.of(self._stream)
        except StoreError as error:
            say(f"the names of the queries are not known: {error}")
            return ()

    def admitted(self, admission: Admission) -> None:
        """Store the query's batches under its name from now on; called before its first batch."""
        with contextlib.suppress(OSError):  # the file is for an outage of the store that outlasts the driver
            write_queries(self._folder, self._registry.records())
        if admission.renamed is not None:
            old, new = admission.renamed
            self._owe(lambda: self._store.batches.move(old.identity, new.query_id, new.identity))
            self._owe(lambda: self._store.queries.forget(old.stream, old.name))
            self._owe(lambda: self._store.queries.started(new))
        self._owe(lambda: self._store.queries.started(admission.record))

    def measure(self, measurements: Iterable[Measurement]) -> None:
        """Keep measurements until the store answers; if it does not, the oldest are dropped first."""
        self._measurements.extend(measurements)

    def event(self, kind: str, **detail: str) -> None:
        """Record an event in the store, and in the driver's journal for an outage that outlasts the driver."""
        event = DriverEvent(driver_id=self._folder.name, at=self._clock(), kind=kind, detail=detail)
        with contextlib.suppress(OSError):
            append_event(self._folder, event)
        self._owe(lambda: self._store.drivers.event(event))

    def await_last_report(self, timeout: float = 3.0) -> None:
        """Wait until Spark has reported the end of each query, which it does after all of the query's reports."""
        wait_until(lambda: set(self.runs) <= set(self.terminated), within=timeout, every=0.02)

    def close(self, timeout: float = 10.0) -> None:
        """Store or spill what is still queued, then end the thread."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)
        self._store.close()

    # The thread

    def _run(self) -> None:
        while True:
            events, ended = self._take()
            for event in events:
                self._guarded(partial(self._handle, event))
            self._guarded(self._tend)
            if ended and self._queue.empty():
                return

    def _guarded(self, step: Callable[[], None]) -> None:
        """A defect in a step must end neither the renewals (a driver that cannot see its lease is no longer fenced) nor
        the steps after it."""
        try:
            step()
        except Exception as error:
            say(f"store link: {type(error).__name__}: {error}")

    def _take(self) -> tuple[list[QueryEvent], bool]:
        """The queued items; waits a moment for the first."""
        events: list[QueryEvent] = []
        ended = False
        wait: float | None = 0.2
        while True:
            try:
                event = self._queue.get(timeout=wait) if wait else self._queue.get_nowait()
            except queue.Empty:
                return events, ended
            wait = None
            if event is None:
                ended = True
            else:
                events.append(event)

    def _handle(self, event: QueryEvent) -> None:
        if isinstance(event, QueryStarted):
            at = self._clock()
            self._owe(lambda: self._store.drivers.started(self._folder.name, event.query_id, event.run_id, at))
            self._owe(lambda: self._fill_from_logs(event.query_id))
            started = DriverEvent(
                driver_id=self._folder.name,
                at=at,
                kind=QUERY_STARTED,
                detail={"query_id": event.query_id, "run_id": event.run_id},
            )
            with contextlib.suppress(OSError):  # see `event`
                append_event(self._folder, started)
        elif isinstance(event, QueryProgressed):
            try:
                progress = parse_progress(event.text)
            except ProgressError as error:
                self._unreadable += 1
                if self._unreadable % SAID_EACH == 1:
                    say(f"progress reports that could not be read: {self._unreadable}; the last: {error}")
                keep_unreadable(self._folder, event.text, error)
                return
            self._reported = True
            self._keep(progress)
            self._watcher(progress)
        elif isinstance(event, QueryTerminated):
            self._ended(event)
            self._owe(lambda: self._fill_from_logs(event.query_id))

    def _ended(self, event: QueryTerminated) -> None:
        record = self._registry.record_of(event.query_id)
        if record is None:
            return
        at, why = self._clock(), None
        if event.error is not None:
            error_class, message = from_spark(event.error, event.error_class, self._registry.job)
            why = f"{error_class}: {message}"
        self._owe(lambda: self._store.queries.ended(record.stream, record.name, event.run_id, at, why))

    def _identity(self, query_id: str) -> str:
        record = self._registry.record_of(query_id)
        return self._stream if record is None else record.identity

    def _place(self, query_id: str) -> str:
        record = self._registry.record_of(query_id)
        return self._checkpoint if record is None else record.checkpoint

    def _keep(self, progress: Progress) -> None:
        name = self._identity(progress.query_id)
        if not self._is_down():
            try:
                self._store.batches.upsert_progress(name, progress, *self._logged(progress))
                return
            except StoreError as error:
                self._went_down(error)
        try:
            spill(self._folder, progress)
            self._spilled = True
        except OSError as error:
            say(f"a progress report was lost, neither the store nor the disk took it: {error}")

    def _logged(self, progress: Progress) -> tuple[float | None, float | None]:
        batch = progress.batch_id
        try:
            checkpoint = open_path(self._place(progress.query_id))
            return written_at(checkpoint, OFFSETS, batch), written_at(checkpoint, COMMITS, batch)
        except (OSError, StreamwardenError):
            return None, None

    def _fill_from_logs(self, query_id: str) -> None:
        """Fill in batches whose report a kill lost: the checkpoint's logs have their times."""
        fill_from_logs(self._store, self._identity(query_id), query_id, self._place(query_id))

    def _tend(self) -> None:
        """Do everything that is due. While the store is down, this tries once every few seconds."""
        if self._is_down():
            return
        now = time.monotonic()
        try:
            if now >= self._renew_at and self.lost is None and self._beats():
                self._renew_at = now + RENEW_EVERY
                with self._leasing:
                    self._lease = self._store.leases.renew(self._lease, ttl=LEASE_TTL, now=self._clock())
                self.renewed_at = now
            if now >= self._poll_at:
                self._poll_at = now + STOP_POLL
                self.stop = self._store.stops.pending(self._folder.name) or self.stop
            if self._spilled:
                count = load_spill(self._folder, self._identity, self._store)
                self._spilled = False
                say(f"the store is back: {count} progress reports loaded")
                for record in self._registry.records():
                    self._fill_from_logs(record.query_id)
            self._pay()
            if self._measurements:
                self._store_measurements()
        except LeaseLost as lost:
            self.lost = lost
        except StoreError as error:
            self._renew_at = self._poll_at = 0.0
            self._went_down(error)

    def _pay(self) -> None:
        """Make the calls that are owed. One that fails while all else works (a store that was replaced by an empty one
        knows no driver) is given up after some attempts: it must not hold up the rest."""
        while self._owed:
            call, attempts = self._owed[0]
            try:
                call()
            except StoreError as error:
                if attempts < MOST_ATTEMPTS:
                    self._owed[0] = call, attempts + 1
                    raise
                say(f"given up: {error}")
            self._owed.popleft()

    def _store_measurements(self) -> None:
        taken = []
        while self._measurements:
            taken.append(self._measurements.popleft())
        try:
            self._store.measurements.add(taken)
        except StoreError:
            self._measurements.extendleft(reversed(taken))
            raise

    def _owe(self, call: Callable[[], object]) -> None:
        self._owed.append((call, 1))

    def _is_down(self) -> bool:
        return time.monotonic() < self._down_until

    def _went_down(self, error: StoreError) -> None:
        if self._down_until == 0.0 or time.monotonic() - self._down_until > 60:
            say(f"the store does not answer, progress is spilled: {error}")
        self._down_until = time.monotonic() + RETRY_EVERY
