"""How much memory: the heap where state lies on it, the whole process where it does not."""

from __future__ import annotations

import math
from typing import Final

from streamwarden.advice.advice import Advice, Number, Status, unknown
from streamwarden.advice.history import History
from streamwarden.lifecycle.settings import HEAP_SHARE
from streamwarden.lifecycle.submission import ROCKSDB_MEMORY_MB
from streamwarden.stream import Backend
from streamwarden.units import format_size

TOPIC: Final = "memory"
HEADROOM: Final = 1.25
"""Times the largest resident memory seen, as a limit for the process; the least limit is `least_limit`."""

_MIB: Final = 2**20
_OVERHEAD: Final = 0.1
_LEAST_OVERHEAD: Final = 384 * _MIB
"""Of the heap, and at least: what a JVM takes beside it (Spark's `spark.driver.memoryOverhead`)."""


def least_limit(heap: int, backend: Backend | str) -> int:
    """Bytes that a process needs once its heap is full, as it will be some day: a smaller limit kills it then.

    Heap, Spark's own allowance for what is beside it, and RocksDB's bounded memory where that is the backend.
    """
    native = ROCKSDB_MEMORY_MB * _MIB if backend is Backend.ROCKSDB else 0
    return heap + max(round(_OVERHEAD * heap), _LEAST_OVERHEAD) + native


def advise(history: History) -> Advice:
    """From `resident_bytes`, which the runner measures, and the state's memory in the reports."""
    resident = [each.value for each in history.measurements if each.name == "resident_bytes"]
    reports = [each for each in history.reports() if each.operators]
    if not resident or not reports:
        what = "no measurement of resident memory" if not resident else "no batch with state was reported"
        return unknown(TOPIC, f"too little history: {what} in the last day")
    heap = history.spec.spark.driver_memory
    state = max(sum(each.memory_used_bytes for each in report.operators) for report in reports)
    peak = max(resident)
    backend = history.spec.state.backend
    full = backend is Backend.HDFS and state > HEAP_SHARE * heap
    wanted = math.ceil(state / HEAP_SHARE / _MIB)
    least = least_limit(wanted * _MIB if full else heap, backend)
    limit = max(HEADROOM * peak, least)
    numbers = (
        Number(
            "resident memory", peak, "bytes", f"largest of {len(resident)} measurements of the last day: JVM, Python"
        ),
        Number("state in memory", state, "bytes", f"`memoryUsedBytes`, largest of {len(reports)} reports"),
        Number("heap", heap, "bytes", "spark.driver_memory"),
        Number("full heap", least, "bytes", "heap, Spark's overhead (10 %, 384 MiB at least), RocksDB's bound"),
        Number("limit", limit, "bytes", f"the larger of resident memory x {HEADROOM} and a full heap"),
    )
    process = f"Give the process (container, cgroup) {format_size(limit)}: the largest seen was {format_size(peak)}."
    if full:
        says = (
            f"state takes {format_size(state)} of a heap of {format_size(heap)}, more than {HEAP_SHARE:.0%}: take "
            f"{wanted} MiB, or RocksDB with a new checkpoint. {process}"
        )
        settings = {"spark.driver_memory": f"{wanted} MiB"}
        return Advice(topic=TOPIC, status=Status.CHANGE, says=says, numbers=numbers, settings=settings)
    where = "on the heap" if backend is Backend.HDFS else "beside the heap"
    says = f"state takes {format_size(state)} {where}; a heap of {format_size(heap)} is enough. {process}"
    return Advice(topic=TOPIC, status=Status.KEEP, says=says, numbers=numbers)
