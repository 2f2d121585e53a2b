"""The Spark sessions of a driver: each one that the job opens gets the progress listener."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from streamwarden.spark.graceful import terminated
from streamwarden.spark.listener import ProgressListener, QueryEvent


class Sessions:
    """Watches PySpark open sessions, so that a script which knows nothing of Streamwarden is measured all the same.

    Args:
        emit: gets the events of every session's queries; must return at once.
        opened: is shown each session; must return at once, and not raise.
    """

    def __init__(
        self, emit: Callable[[QueryEvent], None], opened: Callable[[Any], None] = lambda session: None
    ) -> None:
        self._emit = emit
        self._opened = opened
        self._sessions: list[Any] = []
        self._lock = threading.Lock()

    def watch(self) -> None:
        """From now on, attach to each session as it is opened."""
        from pyspark.sql import SparkSession

        opened = SparkSession.__init__

        @functools.wraps(opened)
        def attach(session: Any, *args: Any, **kwargs: Any) -> None:
            opened(session, *args, **kwargs)
            # foreachBatch wraps its batch's own session on a thread of the JVM's: no query is started on that one.
            if threading.current_thread() is threading.main_thread():
                self.attach(session)

        SparkSession.__init__ = attach  # type: ignore[method-assign,assignment]

    def attach(self, session: Any) -> None:
        with self._lock:
            if any(known._jsparkSession.equals(session._jsparkSession) for known in self._sessions):
                return
            session.streams.addListener(ProgressListener(self._emit))
            self._sessions.append(session)
        self._opened(session)

    def active_queries(self) -> list[Any]:
        """Queries of all sessions that run now; none once Spark is gone."""
        from py4j.protocol import Py4JError

        found: list[Any] = []
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            try:
                found.extend(session.streams.active)
            except (Py4JError, OSError):  # stopped by the script, or the JVM is going down
                continue
        return found

    def checkpoint_of(self, run_id: str) -> str | None:
        """The checkpoint of a query, as a plain path where it is local; None if the query is gone."""
        execution = self._execution(run_id)
        return None if execution is None else plain_path(str(execution.resolvedCheckpointRoot()))

    def forbid(self, run_id: str) -> None:
        """End a query that has not begun its first batch; called while it waits for its start event to be taken."""
        execution = self._execution(run_id)
        if execution is not None:
            execution.state().set(terminated())

    def _execution(self, run_id: str) -> Any:
        return next(
            (query._jsq.streamingQuery() for query in self.active_queries() if str(query.runId) == run_id), None
        )


def plain_path(location: str) -> str:
    """`file:///a/b`, `file:/a/b/` and `/a/b` -> `/a/b`; other URLs stay, without a trailing slash."""
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(location)
    path = unquote(parts.path) if parts.scheme == "file" else location
    return path.rstrip("/") or "/"


def same_place(actual: str, declared: str) -> bool:
    """Whether Spark's full name of a location is the declared one, which may leave the host out (`hdfs:///a`)."""
    from urllib.parse import urlsplit

    if plain_path(actual) == plain_path(declared):
        return True
    full, short = urlsplit(actual), urlsplit(declared)
    named = (full.scheme, full.path.rstrip("/")) == (short.scheme, short.path.rstrip("/"))
    return named and not short.netloc and short.scheme not in ("", "file")
