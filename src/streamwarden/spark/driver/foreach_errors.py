"""Keeps the queries that a job starts, and the exceptions that their foreachBatch functions raised.

Spark ends such a query with the text of what the function raised; class, condition and causes are lost on the way from
Python to the JVM and back. So each function is wrapped when a job passes it to Spark, whatever the job is: a table or a
topic of Streamwarden's own sinks, a function of the job, a script that knows nothing of Streamwarden.
"""

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from streamwarden.lifecycle.failures.error_chain import Chain
from streamwarden.spark.driver.failures import chain_of, is_of_function, run_of
from streamwarden.spark.internals.hooks import around
from streamwarden.spark.internals.queries import chain_of_query

_KEPT = "_streamwarden_function"


class Guarded:
    """A foreachBatch function that remembers what it raised; the exception is passed to Spark unchanged."""

    def __init__(self, function: Callable[[Any, int], None]) -> None:
        functools.update_wrapper(self, function)  # first: it also copies the attributes of an object that is called
        self._function = function
        self.failure: BaseException | None = None

    def __call__(self, frame: Any, batch_id: int) -> None:
        try:
            self._function(frame, batch_id)
        except BaseException as error:
            self.failure = error
            raise


@dataclass(frozen=True, slots=True)
class _Started:
    query_id: str
    run_id: str
    query: Any
    function: Guarded | None


class ForeachErrors:
    """Watches PySpark start queries; see the module.

    Of each query the newest run is kept: a script may start its query once a minute for months.
    """

    def __init__(self) -> None:
        self._started: dict[str, _Started] = {}
        self._lock = threading.Lock()

    def watch(self) -> None:
        """From now on, wrap each foreachBatch function and keep each query that is started."""
        around(DataStreamWriter, "foreachBatch", self._guard)
        around(DataStreamWriter, "start", self._start)
        around(DataStreamWriter, "toTable", self._start)

    def _guard(self, hand_over: Callable[..., Any], writer: Any, func: Any) -> Any:
        guard = Guarded(func)
        setattr(writer, _KEPT, guard)
        return hand_over(writer, guard)

    def _start(self, start: Callable[..., Any], writer: Any, *args: Any, **options: Any) -> Any:
        query = start(writer, *args, **options)
        self._keep(_Started(str(query.id), str(query.runId), query, getattr(writer, _KEPT, None)))
        return query

    def _keep(self, started: _Started) -> None:
        with self._lock:
            self._started.pop(started.query_id, None)  # so that the order stays that of the starts
            self._started[started.query_id] = started

    def explain(self, error: BaseException) -> tuple[BaseException | None, Chain]:
        """The exception of a function of foreachBatch that caused `error`, if one did, and the chain of causes."""
        chain = chain_of(error)
        behind = self._failure_of(run_of(error)) if is_of_function(chain) else None
        return behind, chain if behind is None else (*chain, *chain_of(behind))

    def explain_query(self, run_id: str) -> tuple[BaseException | None, Chain]:
        """The same for a query that died while nothing waited for it. The chain is empty if the JVM does not answer."""
        started = self._run(run_id)
        if started is None:
            return None, ()
        behind = started.function.failure if started.function else None
        chain = chain_of_query(started.query)
        return behind, chain if behind is None else (*chain, *chain_of(behind))

    def _run(self, run_id: str) -> _Started | None:
        with self._lock:
            return next((started for started in self._started.values() if started.run_id == run_id), None)

    def _failure_of(self, run_id: str | None) -> BaseException | None:
        """The exception that the function of this run raised. If the run is not known: that of the one query whose
        function raised, if there is only one, since a guess would blame another query."""
        started = self._run(run_id) if run_id is not None else None
        if started is not None:
            return started.function.failure if started.function else None
        with self._lock:
            failures = [query.function.failure for query in self._started.values() if query.function]
        raised = [failure for failure in failures if failure is not None]
        return raised[0] if len(raised) == 1 else None
