"""What the listener in the JVM keeps of executors' heartbeats, which are Spark's own objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from streamwarden.spark.internals.executor_memory import HEAP, JVM, OFF_HEAP, PYTHON, ExecutorMemory

pytestmark = pytest.mark.spark

STAGE, OTHER_STAGE = 1, 2


@pytest.fixture(scope="module")
def memory(spark: Any) -> Iterator[ExecutorMemory]:
    listening = ExecutorMemory(spark)
    yield listening
    spark.sparkContext._jsc.sc().removeSparkListener(listening._listener)


def metrics(spark: Any, parts: dict[str, int]) -> Any:
    jvm, kinds = spark._jvm, spark._jvm.org.apache.spark.metrics.ExecutorMetricType
    values = spark.sparkContext._gateway.new_array(jvm.long, kinds.numMetrics())
    for part, size in parts.items():
        values[kinds.metricToOffset().apply(part)] = size
    return jvm.org.apache.spark.executor.ExecutorMetrics(values)


def heartbeat(spark: Any, memory: ExecutorMemory, executor: str, stages: dict[int, dict[str, int]]) -> None:
    scala, events = spark._jvm.scala, spark._jvm.org.apache.spark.scheduler
    updates = scala.collection.mutable.HashMap()
    for stage, parts in stages.items():
        updates.put(scala.Tuple2(stage, 0), metrics(spark, parts))
    nothing = scala.collection.mutable.ListBuffer().toSeq()
    memory._listener.onExecutorMetricsUpdate(events.SparkListenerExecutorMetricsUpdate(executor, nothing, updates))


def of(memory: ExecutorMemory, executor: str) -> dict[str, int]:
    return dict(memory.newest().get(executor, {}))


def test_the_newest_heartbeat_counts_also_when_it_is_lower(spark: Any, memory: ExecutorMemory) -> None:
    """A peak would stay."""
    for size in (3 * 10**9, 8 * 10**8):
        heartbeat(spark, memory, "7", {STAGE: {JVM: size, PYTHON: 5, HEAP: 4, OFF_HEAP: 3}})
        heartbeat(spark, memory, "8", {STAGE: {JVM: 1}})
        assert of(memory, "7") == {JVM: size, PYTHON: 5, HEAP: 4, OFF_HEAP: 3}
    assert of(memory, "8")[JVM] == 1


def test_an_executor_that_runs_no_task_keeps_its_last_value(spark: Any, memory: ExecutorMemory) -> None:
    """Its heartbeats are empty; and a stage whose task began within the heartbeat has zeros."""
    heartbeat(spark, memory, "9", {STAGE: {JVM: 0}, OTHER_STAGE: {JVM: 9}})
    heartbeat(spark, memory, "9", {})
    heartbeat(spark, memory, "9", {STAGE: {}})
    assert of(memory, "9")[JVM] == 9


def test_the_memory_of_other_processes_is_not_read(spark: Any, memory: ExecutorMemory) -> None:
    heartbeat(spark, memory, "10", {STAGE: {JVM: 804, "ProcessTreeOtherRSSMemory": 634}})
    assert sum(of(memory, "10").values()) == 804


def test_a_removed_executor_is_forgotten(spark: Any, memory: ExecutorMemory) -> None:
    heartbeat(spark, memory, "11", {STAGE: {JVM: 9}})
    removal = spark._jvm.org.apache.spark.scheduler.SparkListenerExecutorRemoved(1, "11", "killed")
    memory._listener.onExecutorRemoved(removal)
    assert of(memory, "11") == {}
