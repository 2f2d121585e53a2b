"""Lets a query begin its first batch only when the stream knows it and this driver holds its checkpoint."""

import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

from streamwarden.errors import ProcessError, StoreError, StreamwardenError
from streamwarden.lifecycle.location import same_place
from streamwarden.spark.driver.query_registry import QueryRegistry
from streamwarden.spark.driver.sessions import Sessions, StartedQuery
from streamwarden.spark.driver.store_link import StoreLink
from streamwarden.spark.internals.listener import QueryEvent, QueryStarted, QueryTerminated

STORE_PATIENCE: Final = 60.0
"""Seconds that a query waits for its checkpoint to be claimed while the store is down."""

PAUSE: Final = 1.0
"""Seconds between two attempts."""


class StartGate:
    """Examines each event before the link gets it; on Spark's listener thread.

    Args:
        refuse: ends the driver, its other queries at their batch boundaries; called once for each refused query.
        ending: whether the driver is being stopped: then no query begins any more.
    """

    def __init__(
        self,
        registry: QueryRegistry,
        link: StoreLink,
        sessions: Sessions,
        *,
        refuse: Callable[[], None],
        ending: Callable[[], bool],
    ) -> None:
        self._registry = registry
        self._link = link
        self._sessions = sessions
        self._refuse = refuse
        self._ending = ending
        self._one_at_a_time = threading.Lock()  # each session has a listener thread
        self._refused_runs: set[str] = set()
        self.refused: StreamwardenError | None = None

    def lets_pass(self, event: QueryEvent) -> bool:
        """False for an event of a refused query, which is never stored."""
        if isinstance(event, QueryStarted):
            return self._admits(event)
        return not (isinstance(event, QueryTerminated) and event.run_id in self._refused_runs)

    def _admits(self, event: QueryStarted) -> bool:
        if self._ending():
            self._turn_away(event)
            return False
        try:
            query = self._sessions.started(event.query_id, event.run_id)
            if query is not None:  # else it has ended already
                self._admit(query)
        except Exception as error:  # whatever it is, an unsupervised query must not run
            try:
                self._turn_away(event)
            finally:  # the JVM may be gone: the driver ends all the same, and says why
                self.refuse(as_ours(error))
            return False
        return True

    def refuse(self, error: StreamwardenError) -> None:
        """End the driver because of `error`, its other queries at their batch boundaries. Returns at once."""
        self.refused = self.refused or error
        self._refuse()

    def _turn_away(self, event: QueryStarted) -> None:
        self._refused_runs.add(event.run_id)
        self._sessions.forbid(event.run_id)

    def _admit(self, query: StartedQuery) -> None:
        with self._one_at_a_time:
            admission = self._registry.admit(query)
            if not query.temporary:  # in a folder that Spark made up for this run there is no other writer
                self._claim(query.checkpoint)
            self._registry.enter(admission)
            self._link.admitted(admission)

    def _claim(self, checkpoint: str) -> None:
        if any(same_place(checkpoint, claimed) for claimed in self._link.checkpoints):
            return  # the launcher claimed it
        deadline = time.monotonic() + STORE_PATIENCE
        while True:
            try:
                self._link.claim(checkpoint)
                return
            except StoreError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE)


def as_ours(error: Exception) -> StreamwardenError:
    """`error`, or one that it caused. That one does not blame the job: the JVM may go down while a query starts, and
    only the query registry knows that a query is none of this stream's. The record of the driver's end says what to do
    next, by the cause."""
    if isinstance(error, StreamwardenError):
        return error
    traceback.print_exception(error)
    failed = ProcessError(
        f"a query could not be examined before its first batch: {type(error).__name__}: {error}",
        expected="name, checkpoint and trigger of the query",
    )
    failed.__cause__ = error
    return failed
