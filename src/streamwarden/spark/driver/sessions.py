"""The Spark sessions of a driver: each one that the job opens gets the progress listener."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.lifecycle.location import is_temporary
from streamwarden.spark.internals.hooks import around
from streamwarden.spark.internals.jvm import JVM_ERRORS, is_same_session
from streamwarden.spark.internals.listener import ProgressListener, QueryEvent
from streamwarden.spark.internals.queries import Execution
from streamwarden.stream.spec import TriggerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedQuery:
    """A query that waits for its first batch, as Spark has it.

    Args:
        given: the name that the script gave it.
        checkpoint: as a plain path where it is local.
        temporary: Spark made up the checkpoint, another one in each run.
    """

    query_id: str
    run_id: str
    given: str | None
    checkpoint: str
    trigger: TriggerSpec
    temporary: bool = False


class Sessions:
    """Watches PySpark open sessions, so that a script that does not import Streamwarden is measured too.

    Args:
        emit: gets the events of every session's queries; must return at once.
        opened: is shown each session; must return at once, and not raise.
        before_stop: called when the job stops a session; the session is stopped when it returns.
    """

    def __init__(
        self,
        emit: Callable[[QueryEvent], None],
        opened: Callable[[Any], None] = lambda session: None,
        before_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._emit = emit
        self._opened = opened
        self._before_stop = before_stop
        self._sessions: list[Any] = []
        self._lock = threading.Lock()

    def watch(self) -> None:
        """From now on, attach to each session as it is opened."""
        around(SparkSession, "__init__", self._open)
        around(SparkSession, "stop", self._stop)

    def _open(self, open_session: Callable[..., None], session: Any, *args: Any, **options: Any) -> None:
        open_session(session, *args, **options)
        # foreachBatch wraps its batch's own session on a thread of the JVM's: no query is started on that one.
        if threading.current_thread() is threading.main_thread():
            self.attach(session)

    def _stop(self, stop: Callable[[Any], None], session: Any) -> None:
        self._before_stop()
        stop(session)

    def attach(self, session: Any) -> None:
        with self._lock:
            if any(is_same_session(known, session) for known in self._sessions):
                return
            session.streams.addListener(ProgressListener(self._emit))
            self._sessions.append(session)
        self._opened(session)

    def active_queries(self) -> list[Any]:
        """Queries of all sessions that run now; none once Spark has stopped."""
        queries: list[Any] = []
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            try:
                queries.extend(session.streams.active)
            except JVM_ERRORS:  # stopped by the script, or the JVM is going down
                continue
        return queries

    def started(self, query_id: str, run_id: str) -> StartedQuery | None:
        """A query that waits for its start event to be taken; None if it has ended."""
        execution = self._execution(run_id)
        if execution is None:
            return None
        place = to_path(execution.checkpoint).rstrip("/")
        return StartedQuery(
            query_id=query_id,
            run_id=run_id,
            given=execution.name,
            checkpoint=place,
            trigger=execution.trigger,
            temporary=is_temporary(place),
        )

    def forbid(self, run_id: str) -> None:
        """End a query that has not begun its first batch; called while it waits for its start event to be taken."""
        execution = self._execution(run_id)
        if execution is not None:
            execution.forbid()

    def _execution(self, run_id: str) -> Execution | None:
        return next((Execution.of(query) for query in self.active_queries() if str(query.runId) == run_id), None)
