"""Stopping a query between two batches.

`query.stop()` cuts the running batch nearly every time. A micro-batch query plans its next batch and commits the last
one under a lock of its own; whoever holds that lock while the last planned batch is committed is at a boundary and can
end the query there. The lock is no public API: where a query has none (continuous or real-time mode), the moment
between two triggers is taken instead, and the exit record says from the logs whether a batch was cut.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

POLL: Final = 0.01
"""Seconds between two looks; a boundary lasts about 0.1 s when data is waiting (docs: forks, stops, kills)."""


class Stop(Enum):
    AT_BOUNDARY = "at_boundary"
    ENDED_ITSELF = "ended_itself"
    GIVEN_UP = "given_up"


def stop_at_boundary(query: Any, give_up: Callable[[], bool]) -> Stop:
    """Let the running batch commit, then stop the query and wait for its thread.

    Args:
        query: a started `pyspark.sql.streaming.StreamingQuery`.
        give_up: asked between two looks; True ends the attempt and leaves the query running.
    """
    from py4j.protocol import Py4JError

    wrapped = query._jsq
    while not give_up():
        if not wrapped.isActive():
            return Stop.ENDED_ITSELF
        try:
            stopped = _try_lock(wrapped.streamingQuery())
        except Py4JError:
            if not wrapped.isActive():
                return Stop.ENDED_ITSELF
            stopped = not wrapped.status().isTriggerActive()
        if stopped:
            wrapped.stop()
            return Stop.AT_BOUNDARY
        time.sleep(POLL)
    return Stop.GIVEN_UP


def stop_now(query: Any) -> None:
    """Stop without waiting for a boundary; what the running batch did is done again by the next driver."""
    from py4j.protocol import Py4JError

    with contextlib.suppress(Py4JError):  # a query whose JVM is going down stops by itself
        query._jsq.stop()


def _try_lock(execution: Any) -> bool:
    """End the query if it stands between two batches now; never waits for a batch."""
    if execution.status().isTriggerActive() and execution.getLatestExecutionContext().isCurrentBatchConstructed():
        return False  # cheap: no listing of the logs while a batch runs
    lock, thread = execution.awaitProgressLock(), execution.queryExecutionThread()
    lock.lock()
    try:
        if lock.hasQueuedThread(thread):  # it is about to plan or to commit: let it
            return False
        planned, committed = execution.offsetLog().getLatestBatchId(), execution.commitLog().getLatestBatchId()
        if not planned.equals(committed):
            return False
        execution.state().set(terminated())
        thread.interrupt()
        return True
    finally:
        lock.unlock()


def terminated() -> Any:
    """Spark's own constant for a query that was stopped."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    package = jvm.org.apache.spark.sql.execution.streaming.runtime
    return getattr(getattr(package, "TERMINATED$"), "MODULE$")
