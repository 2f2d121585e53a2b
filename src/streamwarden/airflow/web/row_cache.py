"""The board: the rows of all streams, read at most about once a second, however many people look.

A request is answered with the newest rows. If they are older than `FRESH`, a thread reads new ones. If the last
reading computed for `QUICK` seconds at most, the request waits up to `PATIENCE` for them before it gets the old ones.
Only a request that finds none, or very old ones because no page was open, waits as long as the reading takes.

An open page asks every two seconds, so it shows a status within 3 s. Without the wait a request starts the reading
whose rows only the next request shows, two seconds later: so it is if many streams of a large fleet change their status
at once, because 95 of 100 answers have to come within 0.1 s. `readings.py` says what is read, and how old numbers are.
"""

import gc
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import cache
from typing import Final

from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select

from streamwarden.adapters.airflow_server import PREFIX
from streamwarden.adapters.store import Store
from streamwarden.adapters.store.marks import Marks
from streamwarden.airflow.web.readings import LOOK_SHARE, Paced, Reader, Readings, Seen, Snapshot
from streamwarden.airflow.web.shared_workspace import catalogs, opened
from streamwarden.errors import StreamwardenError
from streamwarden.health.evaluations import EvaluationRecord, LastRound, last_round
from streamwarden.health.signals.series import STATE_BYTES
from streamwarden.health.thresholds import Thresholds
from streamwarden.health.verdict import Verdict
from streamwarden.services.fleet.undeclared import with_undeclared
from streamwarden.services.overview.catalogs import CatalogCache
from streamwarden.services.overview.facts import RATE_WINDOW, FleetFacts, read_facts
from streamwarden.services.overview.numbers import with_numbers
from streamwarden.services.overview.rows import MadeMetrics, StreamRow, Trend, stream_rows
from streamwarden.services.overview.status import statuses
from streamwarden.services.workspace import Workspace
from streamwarden.units import DAY, HOUR

FRESH: Final = 1.0
"""Seconds for which rows are shown without reading new ones."""
REST: Final = 3.0
"""Times as long as a reading computes are the rows of a large fleet shown: so reading takes about a quarter of a core
at most while many streams change their status, however many people look. The quicker of the last two readings counts,
because the first one and the one after each evaluation have more to do; time in which the thread waited for other
processes does not count."""
QUICK: Final = 0.2
"""Seconds of computing of a reading that a request waits for: those of a few hundred streams."""
PATIENCE: Final = 1.0
"""Seconds for which a request waits for newer rows before it is answered with those that are there: a quick reading may
wait for other processes."""
OLDEST: Final = 15.0
"""Seconds after which a request waits for new rows: a page that is open asks every two seconds."""
SLOW_AGAIN: Final = 60.0
"""Seconds after which verdicts and trends are read again without an evaluation: `streamwarden check STREAM` judges one
stream."""
TREND_POINTS: Final = 24
FEW_POINTS: Final = 4
"""Fewer points of a day, one an hour, are no line."""

Stored = tuple[tuple[int, ...] | None, Marks, tuple[object, ...], Sequence[EvaluationRecord]]
"""The version of the store, and what `Seen` has from it."""

_log = logging.getLogger(__name__)


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

    def whole() -> Snapshot:
        snapshot = read_board(space, catalogs(), slow, time.time())
        settle()
        return snapshot

    return Board(
        Readings(
            Reader(
                whole,
                lambda streams: read_some(space, catalogs(), slow, streams, time.time()),
                lambda rows: read_numbers(space.store, rows, time.time()),
                look_at(space, catalogs()),
                processes,
            )
        )
    )


def look_at(space: Workspace, files: CatalogCache) -> Callable[[], Seen]:
    """What tells whether the rows have changed; the store is asked only if anybody has written into it."""
    store = space.store
    settings = Paced(lambda: (files.newest(space).read_at, paused_dags(PREFIX)), LOOK_SHARE / 2)

    def read() -> Stored:
        version = store.version()  # before the rest: what is written meanwhile is read again
        return version, store.marks.of_streams(time.time()), store.marks.of_people(), store.evaluations.all()

    stored = Paced(read, LOOK_SHARE)
    kept: Stored | None = None

    def look() -> Seen:
        nonlocal kept
        version = store.version()
        if kept is None or version is None or version != kept[0]:
            kept = stored()
        return Seen(version, (settings(), kept[2]), kept[1], last_round(kept[3], time.time()))

    return look


def processes() -> frozenset[str]:
    """The ids of the processes of this host, and some other names."""
    return frozenset(os.listdir("/proc"))  # noqa: PTH208  # thousands of names, and no paths of them


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
    slow.read(space.store, [*names, *_queries(space, names)], last, now)
    rows = _rows(space, read_facts(space.store, catalog, names, now, slow.verdicts), slow, declared.thresholds)
    return Snapshot(now, rows, last, time.thread_time() - began)


def read_some(
    space: Workspace, files: CatalogCache, slow: Slow, streams: Collection[str], now: float
) -> tuple[StreamRow, ...]:
    """The rows of these streams at `now`, with their newest verdicts. Raises StreamwardenError."""
    declared = files.newest(space)
    catalog = with_undeclared(declared.catalog, space.store, space.fleet)
    names = [name for name in catalog.names if name in streams]
    parts = [*names, *_queries(space, names)]
    verdicts = [verdict for name in parts for verdict in space.store.verdicts.latest(name)]
    return _rows(space, read_facts(space.store, catalog, names, now, verdicts), slow, declared.thresholds)


def read_numbers(store: Store, rows: tuple[StreamRow, ...], now: float) -> tuple[StreamRow, ...]:
    """The rows with the numbers of their newest batches at `now`. Raises StoreError."""
    names = [row.stream for row in rows if row.state == "running"]
    return with_numbers(rows, store.batches.newest(names), store.batches.flows_since(names, now - RATE_WINDOW), now)


def _rows(space: Workspace, facts: FleetFacts, slow: Slow, thresholds: Thresholds) -> tuple[StreamRow, ...]:
    return stream_rows(
        statuses(space, facts),
        facts,
        thresholds=thresholds,
        paused=paused_dags(PREFIX),
        trends=slow.trends,
        made=slow.metrics,
    )


def _queries(space: Workspace, names: Sequence[str]) -> Iterable[str]:
    """The queries of these streams, as `STREAM/QUERY`."""
    return (query.identity for queries in space.store.queries.of_many(names).values() for query in queries)


def paused_dags(prefix: str) -> Mapping[str, bool]:
    """Id of each DAG that begins with `prefix` -> whether it is paused, from Airflow's database."""
    query = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.startswith(prefix, autoescape=True))
    with create_session() as session:
        return {dag_id: bool(paused) for dag_id, paused in session.execute(query)}
