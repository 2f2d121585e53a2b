"""The board: the rows of all streams, read at most about once a second, however many people look.

A request is answered with the newest rows at once; if they are older than `FRESH`, a thread reads new ones meanwhile.
Only a request that finds none, or very old ones because nobody looked, waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select

from streamwarden.adapters.airflow_server import PREFIX
from streamwarden.airflow.web.place import opened
from streamwarden.errors import StreamwardenError
from streamwarden.health.evaluations import LastRound, last_round
from streamwarden.health.series import STATE_BYTES
from streamwarden.services.overview.catalogs import CatalogCache
from streamwarden.services.overview.facts import read_facts
from streamwarden.services.overview.rows import StreamRow, Trend, stream_rows
from streamwarden.services.overview.status import statuses

if TYPE_CHECKING:
    from streamwarden.services.workspace import Workspace

FRESH: Final = 1.0
"""Seconds for which rows are shown without reading new ones."""
OLDEST: Final = 15.0
"""Seconds after which a request waits for new rows: a page that is open asks every two seconds."""
TRENDS_AGAIN: Final = 60.0
"""Seconds for which the trends are shown without reading new ones."""
DAY: Final = 86400.0
TREND_POINTS: Final = 24

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows as they were at `at` (Unix seconds), and when the streams were last judged.

    `failure`: why no newer rows could be read; empty if they could.
    """

    at: float
    rows: tuple[StreamRow, ...]
    last: LastRound
    failure: str = ""


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
        elif self._clock() - newest.at > FRESH and self._reading.acquire(blocking=False):
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
    space, catalogs, trends = opened(), CatalogCache(), Trends()
    return Board(lambda: read_board(space, catalogs, trends, time.time()))


class Trends:
    """The state sizes of the last day, read once a minute: the checks write no more often."""

    def __init__(self) -> None:
        self._read_at = 0.0
        self._found: Mapping[str, Trend] = {}

    def of(self, space: Workspace, names: Sequence[str], now: float) -> Mapping[str, Trend]:
        """Stream or query -> its (time, bytes). Raises StoreError."""
        if now - self._read_at > TRENDS_AGAIN:
            self._found = space.store.measurements.sampled(names, STATE_BYTES, now - DAY, now, TREND_POINTS)
            self._read_at = now
        return self._found


def read_board(space: Workspace, catalogs: CatalogCache, trends: Trends, now: float) -> Snapshot:
    """The rows of every stream at `now`. Raises StreamwardenError."""
    catalog = catalogs.of(space)
    facts = read_facts(space.store, catalog, sorted({*catalog.streams, *catalog.broken}), now)
    found = statuses(space, facts)
    rows = stream_rows(
        found,
        facts,
        thresholds=catalogs.thresholds(space),
        drills=space.store.journals.newest(),
        paused=paused_dags(PREFIX),
        trends=trends.of(space, [each.stream for each in found], now),
    )
    return Snapshot(now, rows, last_round(space.store.evaluations.all(), now))


def paused_dags(prefix: str) -> Mapping[str, bool]:
    """Id of each DAG that begins with `prefix` -> whether it is paused, from Airflow's database."""
    query = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.startswith(prefix, autoescape=True))
    with create_session() as session:
        return {dag_id: bool(paused) for dag_id, paused in session.execute(query)}
