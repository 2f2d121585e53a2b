"""The board: the rows of all streams, read at most about once a second, however many people look.

A request is answered with the newest rows at once; if they are older than `FRESH`, a thread reads new ones meanwhile.
Only a request that finds none, or very old ones because nobody looked, waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select

from streamwarden.adapters.airflow_server import PREFIX
from streamwarden.airflow.web.place import catalogs, opened
from streamwarden.errors import StreamwardenError
from streamwarden.health.evaluations import LastRound, last_round
from streamwarden.health.series import STATE_BYTES
from streamwarden.services.overview.catalogs import CatalogCache
from streamwarden.services.overview.facts import read_facts
from streamwarden.services.overview.rows import MadeMetrics, StreamRow, Trend, stream_rows
from streamwarden.services.overview.status import statuses

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.health.verdict import Verdict
    from streamwarden.lifecycle.queries import QueryRecord
    from streamwarden.services.workspace import Workspace

FRESH: Final = 1.0
"""Seconds for which rows are shown without reading new ones."""
REST: Final = 3.0
"""Times as long as the last reading took are the rows of a large fleet shown: so reading takes a quarter of a core at
most, however many people look."""
OLDEST: Final = 15.0
"""Seconds after which a request waits for new rows: a page that is open asks every two seconds."""
SLOW_AGAIN: Final = 60.0
"""Seconds after which verdicts and trends are read again without an evaluation: `streamwarden check STREAM` judges one
stream."""
DAY: Final = 86400.0
TREND_POINTS: Final = 24

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows as they were at `at` (Unix seconds), when the streams were last judged, and how many seconds it took to
    read this."""

    at: float
    rows: tuple[StreamRow, ...]
    last: LastRound
    took: float = 0.0


class Board:
    """Reads and keeps the rows. Threads may share it.

    Args:
        read: reads the rows now.
    """

    def __init__(self, read: Callable[[], Snapshot], clock: Callable[[], float] = time.time) -> None:
        self._read = read
        self._clock = clock
        self._reading = threading.Lock()
        self._newest: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """The newest rows. Raises StreamwardenError if there are none and none can be read."""
        newest = self._newest
        if newest is None or self._clock() - newest.at > OLDEST:
            with self._reading:
                if self._newest is newest:  # nobody else has read meanwhile
                    self._newest = self._read()
                newest = self._newest
        elif self._clock() - newest.at > max(FRESH, REST * newest.took) and self._reading.acquire(blocking=False):
            threading.Thread(target=self._read_behind, daemon=True, name="streamwarden-board").start()
        assert newest is not None
        return newest

    def _read_behind(self) -> None:
        """Read with the lock that the request took. If the store does not answer, the rows stay and grow old."""
        try:
            self._newest = self._read()
        except StreamwardenError as error:
            _log.warning("the streams cannot be read: %s", error)
        finally:
            self._reading.release()


@cache
def board() -> Board:
    """The board of this process."""
    space, slow = opened(), Slow()
    return Board(lambda: read_board(space, catalogs(), slow, time.time()))


class Slow:
    """What only an evaluation of all streams changes: it is read again after each, and once a minute in any case."""

    def __init__(self) -> None:
        self._read_at = 0.0
        self._round: float | None = None
        self.verdicts: Sequence[Verdict] = ()
        self.trends: Mapping[str, Trend] = {}
        self.metrics: MadeMetrics = {}

    def read(self, store: Store, names: Sequence[str], last: LastRound, now: float) -> None:
        """Read the verdicts, and the state sizes of the last day. Raises StoreError.

        Args:
            names: streams and queries.
        """
        if last.at == self._round and 0 <= now - self._read_at <= SLOW_AGAIN:
            return
        self.verdicts, self.metrics = store.verdicts.latest(), {}
        self.trends = store.measurements.sampled(names, STATE_BYTES, now - DAY, now, TREND_POINTS)
        self._round, self._read_at = last.at, now


def read_board(space: Workspace, files: CatalogCache, slow: Slow, now: float) -> Snapshot:
    """The rows of every stream at `now`. Raises StreamwardenError."""
    began = time.monotonic()
    catalog, last = files.of(space), last_round(space.store.evaluations.all(), now)
    names = sorted({*catalog.streams, *catalog.broken})
    slow.read(space.store, [*names, *(each.identity for each in _queries(space, names))], last, now)
    facts = read_facts(space.store, catalog, names, now, slow.verdicts)
    rows = stream_rows(
        statuses(space, facts),
        facts,
        thresholds=files.thresholds(space),
        drills=space.store.journals.newest(),
        paused=paused_dags(PREFIX),
        trends=slow.trends,
        made=slow.metrics,
    )
    return Snapshot(now, rows, last, time.monotonic() - began)


def _queries(space: Workspace, names: Sequence[str]) -> Iterable[QueryRecord]:
    return (each for found in space.store.queries.of_many(names).values() for each in found)


def paused_dags(prefix: str) -> Mapping[str, bool]:
    """Id of each DAG that begins with `prefix` -> whether it is paused, from Airflow's database."""
    query = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.startswith(prefix, autoescape=True))
    with create_session() as session:
        return {dag_id: bool(paused) for dag_id, paused in session.execute(query)}
