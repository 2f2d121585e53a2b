"""Running queries: their execution in the JVM, with its name, checkpoint, trigger and end.

Needs `StreamingQueryWrapper` and `StreamExecution` (`resolvedCheckpointRoot`, `trigger`, `state`) and the names of
Spark's triggers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext

from streamwarden.lifecycle.failures.error_chain import Chain
from streamwarden.spark.internals.exceptions import java_chain
from streamwarden.spark.internals.fields import field_of
from streamwarden.spark.internals.versions import RUNNING, class_of
from streamwarden.stream.spec import TriggerSpec


@dataclass(frozen=True, slots=True)
class Execution:
    """Spark's `StreamExecution` of a query that was started, as far as its driver reads it."""

    _execution: Any

    @classmethod
    def of(cls, query: Any) -> Execution:
        """The execution of a `pyspark.sql.streaming.StreamingQuery`."""
        return cls(query._jsq.streamingQuery())

    @property
    def name(self) -> str | None:
        """The name that the job gave the query."""
        name: str | None = self._execution.name()
        return name

    @property
    def checkpoint(self) -> str:
        """The URI of its checkpoint."""
        return str(self._execution.resolvedCheckpointRoot())

    @property
    def trigger(self) -> TriggerSpec:
        return trigger_of(self._execution.trigger())

    def forbid(self) -> None:
        """End a query that has not begun its first batch."""
        self._execution.state().set(terminated())


def trigger_of(trigger: Any) -> TriggerSpec:
    """A query's own trigger, from Spark's object for it."""
    kind = str(trigger.getClass().getSimpleName()).rstrip("$")
    if kind in ("AvailableNowTrigger", "OneTimeTrigger"):
        return TriggerSpec(processing_time=None, available_now=True)
    if kind == "RealTimeTrigger":
        return TriggerSpec(processing_time=None, real_time=trigger.batchDurationMs() / 1000)
    return TriggerSpec(processing_time=trigger.intervalMs() / 1000 or None)  # continuous mode has an interval, too


def terminated() -> Any:
    """Spark's own constant for a query that was stopped."""
    jvm: Any = SparkContext._jvm
    return getattr(class_of(jvm, "TERMINATED"), "MODULE$")


def batch_in_hand(execution: Any) -> int | None:
    """The batch that a `StreamExecution` has planned and not left yet; None: it plans the next one, or waits."""
    if RUNNING >= (4, 0):
        context = execution.getLatestExecutionContext()
        return int(context.batchId()) if context is not None and context.isCurrentBatchConstructed() else None
    return int(execution.currentBatchId()) if field_of(execution, "isCurrentBatchConstructed") else None


def chain_of_query(query: Any) -> Chain:
    """The chain of causes of a query's end; empty if it did not fail, or the JVM does not answer."""
    try:
        exception = query._jsq.exception()
        return java_chain(exception.get()) if exception.isDefined() else ()
    except Exception:  # the JVM may be gone: py4j has many ways to say so
        return ()
