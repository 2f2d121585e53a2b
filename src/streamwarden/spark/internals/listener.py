"""The progress listener: takes Spark's reports off its thread and hands them to a queue. It never waits."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class QueryStarted:
    query_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class QueryProgressed:
    """`text` is Spark's own JSON of the report, parsed by the thread that takes it off the queue."""

    text: str


@dataclass(frozen=True, slots=True)
class QueryTerminated:
    """`error` and `error_class` are None if the query was stopped or came to its end."""

    query_id: str
    run_id: str
    error: str | None
    error_class: str | None


QueryEvent = QueryStarted | QueryProgressed | QueryTerminated


class ProgressListener:
    """Forwards the events of all queries of a session to `emit`, which must return at once.

    It is given to `streams.addListener` and is not a subclass of PySpark's listener: that one builds a Python object of
    every field of a report, one call into the JVM each. This one takes the report as the JSON that the JVM makes of it,
    in two calls; all that PySpark asks of a listener is its half in the JVM, `_jlistener`.
    """

    def __init__(self, emit: Callable[[QueryEvent], None]) -> None:
        jvm: Any = SparkContext._jvm
        self._jlistener = jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(_JavaSide(emit))


class _JavaSide:
    """The object that the JVM calls, on its listener thread."""

    def __init__(self, emit: Callable[[QueryEvent], None]) -> None:
        self._emit = emit

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self._emit(QueryStarted(event.id().toString(), event.runId().toString()))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._emit(QueryProgressed(event.progress().json()))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """An idle query made no batch: there is nothing to store."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        error, error_class = event.exception(), event.errorClassOnException()
        self._emit(
            QueryTerminated(
                event.id().toString(),
                event.runId().toString(),
                error.get() if error.isDefined() else None,
                error_class.get() if error_class.isDefined() else None,
            )
        )

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
