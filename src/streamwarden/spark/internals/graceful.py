"""Stopping a query between two batches.

`query.stop()` interrupts the running batch nearly every time. A micro-batch query plans its next batch and commits the
last one under its own lock. A thread that takes this lock while a batch computes halts the query's thread right before
its commit. If it then releases the lock and queues for it again, it gets the lock right after the commit, before the
query's thread checks whether to continue. This works in real-time mode too, where a batch lasts as long as its trigger.
No boundary is missed by a late poll: on a busy machine, with batches back to back, polling alone missed ten boundaries
in a row. The lock is not a public API: if a query has none (continuous mode), it is stopped between two triggers, and
the exit record shows, by the logs, whether a batch was interrupted.
"""

import contextlib
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from py4j.protocol import Py4JError

from streamwarden.spark.internals.queries import batch_in_hand, terminated

POLL: Final = 0.01
"""Seconds between two checks whether the query's thread has reached its commit."""


class Stop(Enum):
    AT_BOUNDARY = "at_boundary"
    ENDED_ITSELF = "ended_itself"
    GIVEN_UP = "given_up"


def stop_at_boundary(query: Any, give_up: Callable[[], bool]) -> Stop:
    """Let the running batch commit, then stop the query and wait for its thread.

    Args:
        query: a started `pyspark.sql.streaming.StreamingQuery`.
        give_up: asked between two checks; True ends the attempt and leaves the query running.
    """
    wrapped = query._jsq
    while not give_up():
        if not wrapped.isActive():
            return Stop.ENDED_ITSELF
        try:
            stopped = _catch(wrapped.streamingQuery(), give_up)
        except Py4JError:
            if not wrapped.isActive():
                return Stop.ENDED_ITSELF
            stopped = not wrapped.status().isTriggerActive()
            time.sleep(POLL)
        if stopped:
            wrapped.stop()
            return Stop.AT_BOUNDARY
    return Stop.GIVEN_UP


def stop_now(query: Any) -> None:
    """Stop without waiting for a boundary; the next driver repeats the running batch."""
    with contextlib.suppress(Py4JError):  # a query whose JVM is going down stops by itself
        query._jsq.stop()


def _catch(execution: Any, give_up: Callable[[], bool]) -> bool:
    """End the query at the next boundary; False if it ended by itself or `give_up` returned True. Delays a commit by at
    most a few POLLs."""
    lock, thread = execution.awaitProgressLock(), execution.queryExecutionThread()

    def end_if_at_boundary() -> bool:
        if not _at_boundary(execution, lock, thread):
            return False
        execution.state().set(terminated())
        thread.interrupt()
        return True

    while not give_up() and execution.isActive():
        lock.lock()  # behind the query's thread, if that commits or plans just now
        try:
            if end_if_at_boundary():
                return True
            while not lock.hasQueuedThread(thread):  # until it has come to its commit or its plan
                if give_up() or not execution.isActive():
                    return False
                time.sleep(POLL)
                if not execution.status().isTriggerActive() and end_if_at_boundary():
                    return True
        finally:
            lock.unlock()
    return False


def _at_boundary(execution: Any, lock: Any, thread: Any) -> bool:
    """Whether every planned batch is committed, and the thread will check whether to continue before it plans one.

    It will if it still processes the batch that was just committed, or sleeps between two triggers. A thread that
    waits for the lock and processes no batch has checked already and is about to plan.
    """
    planned, committed = execution.offsetLog().getLatestBatchId(), execution.commitLog().getLatestBatchId()
    if not planned.equals(committed):
        return False
    batch = batch_in_hand(execution)
    if batch is not None:
        # In real-time mode a batch is planned in the log no earlier than it is committed: the logs agree while it runs.
        return committed.isDefined() and bool(batch == committed.get())
    return not execution.status().isTriggerActive() and not lock.hasQueuedThread(thread)
