"""The board: the rows of all streams, read at most about once a second, however many people look.

A request is answered with the newest rows. If they are older than `FRESH`, a thread reads new ones. If the last
reading computed for `QUICK` seconds at most, the request waits up to `PATIENCE` for them before it gets the old ones.
Only a request that finds none, or very old ones because no page was open, waits as long as the reading takes.

An open page asks every two seconds, so it shows what happened within 2.3 s. Without the wait a request starts the
reading whose rows only the next request shows, two seconds later: so it is with a large fleet, because 95 of 100
answers have to come within 0.1 s. If the rows of a fleet rest for longer than two seconds, a page shows what happened
within that rest and two more requests.
"""

import gc
import logging
import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select

from streamwarden.adapters.airflow_server import PREFIX
from streamwarden.adapters.store import Store
from streamwarden.airflow.web.shared_workspace import catalogs, opened
from streamwarden.errors import StreamwardenError
from streamwarden.health.evaluations import LastRound, last_round
from streamwarden.health.signals.series import STATE_BYTES
from streamwarden.health.verdict import Verdict
from streamwarden.lifecycle.queries import QueryRecord
from streamwarden.services.fleet.undeclared import with_undeclared
from streamwarden.services.overview.catalogs import CatalogCache
from streamwarden.services.overview.facts import read_facts
from streamwarden.services.overview.rows import MadeMetrics, StreamRow, Trend, stream_rows
from streamwarden.services.overview.status import statuses
from streamwarden.services.workspace import Workspace
from streamwarden.units import DAY, HOUR

FRESH: Final = 1.0
"""Seconds for which rows are shown without reading new ones."""
REST: Final = 3.0
"""Times as long as a reading computes are the rows of a large fleet shown: so reading takes about a quarter of a core
at most, however many people look. The quicker of the last two readings counts, because the first one and the one after
each evaluation have more to do; time in which the thread waited for other processes does not count."""
QUICK: Final = 0.05
"""Seconds of computing of a reading that a request waits for: those of a few hundred streams."""
PATIENCE: Final = 0.3
"""Seconds for which a request waits for newer rows before it is answered with those that are there: a quick reading may
wait for other processes."""
OLDEST: Final = 15.0
"""Seconds after which a request waits for new rows: a page that is open asks every two seconds."""
LOOK_AGAIN: Final = 60.0
"""Seconds after which the rows are read again although nothing in the store has changed and every process of this host
lives: a lease of another host may have expired, and the mean of five minutes moves."""
SLOW_AGAIN: Final = 60.0
"""Seconds after which verdicts and trends are read again without an evaluation: `streamwarden check STREAM` judges one
stream."""
TREND_POINTS: Final = 24
FEW_POINTS: Final = 4
"""Fewer points of a day, one an hour, are no line."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows as they were at `at` (Unix seconds), when the streams were last judged, and for how many seconds the
    thread that read this computed. Snapshots with the same `reading` say the same."""

    at: float
    rows: tuple[StreamRow, ...]
    last: LastRound
    cost: float = 0.0
    reading: str = ""


class Board:
    """Reads and keeps the rows. Threads may share it.

    Args:
        read: reads the rows now; one thread at a time calls it.
        clock: Unix seconds.
        patience: seconds, see `PATIENCE`.
    """

    def __init__(
        self, read: Callable[[], Snapshot], clock: Callable[[], float] = time.time, patience: float = PATIENCE
    ) -> None:
        self._read = read
        self._clock = clock
        self._patience = patience
        self._lock = threading.Lock()
        self._newest: Snapshot | None = None
        self._fresh = FRESH
        self._reading: Future[Snapshot] | None = None

    def snapshot(self) -> Snapshot:
        """The newest rows. Raises StreamwardenError if there are none and none can be read."""
        with self._lock:
            newest = self._newest
            age = math.inf if newest is None else self._clock() - newest.at
            if newest is not None and age <= self._fresh:
                return newest
            reading = self._reading or self._start()
        if newest is None or age > OLDEST:
            return reading.result()
        if newest.cost <= QUICK:
            wait([reading], self._patience)
        return self._newest or newest

    def _start(self) -> Future[Snapshot]:
        """Start to read in a thread. The caller holds the lock."""
        reading = self._reading = Future()
        threading.Thread(target=self._finish, args=(reading,), daemon=True, name="streamwarden-board").start()
        return reading

    def _finish(self, reading: Future[Snapshot]) -> None:
        """Read. If that fails, the rows stay and grow old, and the requests that must have new ones fail with it."""
        try:
            snapshot = self._read()
        except BaseException as error:
            _log.warning("the streams cannot be read: %s", error, exc_info=not isinstance(error, StreamwardenError))
            with self._lock:
                self._reading = None
            reading.set_exception(error)
        else:
            self._keep(snapshot)
            reading.set_result(snapshot)

    def _keep(self, snapshot: Snapshot) -> None:
        with self._lock:
            before = self._newest
            self._fresh = FRESH if before is None else max(FRESH, REST * min(before.cost, snapshot.cost))
            self._newest, self._reading = snapshot, None


@cache
def board() -> Board:
    """The board of this process."""
    space, slow = opened(), Slow()

    def read() -> Snapshot:
        snapshot = read_board(space, catalogs(), slow, time.time())
        settle()
        return snapshot

    def version() -> tuple[object, ...] | None:
        stored = space.store.version()
        return None if stored is None else (stored, catalogs().newest(space), paused_dags(PREFIX))

    return Board(Unchanged(read, version, living))


def living(rows: Iterable[StreamRow]) -> frozenset[int]:
    """The drivers of `rows` whose processes are there on this host, by pid. A reading finds out whether they are the
    same ones; this is quick, and changes when one dies."""
    there = frozenset(os.listdir("/proc"))  # noqa: PTH208  # thousands of names, and no paths of them
    return frozenset(row.pid for row in rows if row.pid is not None and str(row.pid) in there)


class Unchanged:
    """Reads the rows only if what they are made of has changed, or `LOOK_AGAIN` seconds later.

    Args:
        read: reads the rows now.
        version: of the store, the project's files and the pauses of DAGs; None if a change cannot be seen without
            reading.
        living: which processes of these rows are there.
    """

    def __init__(
        self,
        read: Callable[[], Snapshot],
        version: Callable[[], tuple[object, ...] | None],
        living: Callable[[Iterable[StreamRow]], frozenset[int]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._read, self._version, self._living, self._clock = read, version, living, clock
        self._of: tuple[object, ...] | None = None
        self._lived: frozenset[int] = frozenset()
        self._read_at = -math.inf
        self._kept: Snapshot | None = None
        self._name, self._changes = secrets.token_hex(4), 0  # of this process: another one has read other rows

    def __call__(self) -> Snapshot:
        """The rows; the same ones with a newer time while nothing has changed. Raises StreamwardenError."""
        version, now = self._version(), self._clock()
        if self._kept is not None and self._holds(self._kept, version, now):
            return replace(self._kept, at=now, cost=0.0)
        snapshot = self._read()
        self._changes += self._kept is None or _says(snapshot) != _says(self._kept)
        self._kept = replace(snapshot, reading=f"{self._name}-{self._changes}")
        self._of, self._read_at, self._lived = version, now, self._living(snapshot.rows)
        return self._kept

    def _holds(self, kept: Snapshot, version: tuple[object, ...] | None, now: float) -> bool:
        same = version is not None and version == self._of and 0 <= now - self._read_at <= LOOK_AGAIN
        return same and self._living(kept.rows) == self._lived


def _says(snapshot: Snapshot) -> tuple[object, ...]:
    """Everything but ages."""
    return snapshot.rows, snapshot.last.at, snapshot.last.late


@cache
def settle() -> None:
    """Exclude the objects that this process has now from garbage collection. It does so once, after the first reading.

    Most of them are Airflow's code, which stays in memory. The rows of a large fleet cause a full collection every few
    readings; with these objects it took 0.19 s, in which the process answered no request.
    """
    gc.collect()
    gc.freeze()


class Slow:
    """Data that only an evaluation of all streams changes: read again after each one, and at least once a minute."""

    def __init__(self) -> None:
        self._read_at = 0.0
        self._round: float | None = None
        self._of: tuple[int, ...] | None = None
        self.verdicts: Sequence[Verdict] = ()
        self.trends: Mapping[str, Trend] = {}
        self.metrics: MadeMetrics = {}

    def read(self, store: Store, names: Sequence[str], last: LastRound, now: float) -> None:
        """Read the verdicts, and the state sizes of the last day. Raises StoreError.

        Args:
            names: streams and queries.
        """
        version = store.version()
        same = version is not None and version == self._of
        if same or (last.at == self._round and 0 <= now - self._read_at <= SLOW_AGAIN):
            return
        self.verdicts, self.metrics = store.verdicts.latest(), {}
        self.trends = state_trends(store, names, now)
        self._round, self._read_at, self._of = last.at, now, version


def state_trends(store: Store, names: Sequence[str], now: float) -> Mapping[str, Trend]:
    """The state size of each over the last day, or over the last hour if there are too few points of the day: a stream
    that was started this morning has a line, too. Raises StoreError."""

    def sampled(wanted: Iterable[str], since: float) -> dict[str, Trend]:
        series = store.measurements.sampled([(name, STATE_BYTES) for name in wanted], since, now, TREND_POINTS)
        return {name: points for (name, _), points in series.items()}

    trends = sampled(names, now - DAY)
    recent = sampled((name for name, points in trends.items() if len(points) < FEW_POINTS), now - HOUR)
    return trends | {name: points for name, points in recent.items() if len(points) > len(trends[name])}


def read_board(space: Workspace, files: CatalogCache, slow: Slow, now: float) -> Snapshot:
    """The rows of every stream at `now`. Raises StreamwardenError."""
    began = time.thread_time()
    declared, last = files.newest(space), last_round(space.store.evaluations.all(), now)
    catalog = with_undeclared(declared.catalog, space.store, space.fleet)
    names = catalog.names
    slow.read(space.store, [*names, *(query.identity for query in _queries(space, names))], last, now)
    facts = read_facts(space.store, catalog, names, now, slow.verdicts)
    rows = stream_rows(
        statuses(space, facts),
        facts,
        thresholds=declared.thresholds,
        paused=paused_dags(PREFIX),
        trends=slow.trends,
        made=slow.metrics,
    )
    return Snapshot(now, rows, last, time.thread_time() - began)


def _queries(space: Workspace, names: Sequence[str]) -> Iterable[QueryRecord]:
    return (query for queries in space.store.queries.of_many(names).values() for query in queries)


def paused_dags(prefix: str) -> Mapping[str, bool]:
    """Id of each DAG that begins with `prefix` -> whether it is paused, from Airflow's database."""
    query = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.startswith(prefix, autoescape=True))
    with create_session() as session:
        return {dag_id: bool(paused) for dag_id, paused in session.execute(query)}
