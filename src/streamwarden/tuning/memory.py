"""How much memory the process needs that holds the state: the driver, or each executor of a cluster."""

import math
from dataclasses import dataclass
from typing import Final

from streamwarden.checkpoint.diagnosis.damage import NEW_PLACES
from streamwarden.health.signals.executors import executor_snapshots, has_executors
from streamwarden.health.signals.series import BESIDE
from streamwarden.lifecycle.settings import HEAP_SHARE, executor_heap
from streamwarden.lifecycle.submission import ROCKSDB_MEMORY_MB
from streamwarden.stream.spec import Backend
from streamwarden.tuning.history import History
from streamwarden.tuning.recommendation import Decision, Number, Recommendation, unknown
from streamwarden.units import format_size

TOPIC: Final = "memory"
CURES: Final = "memory_usage"
HEADROOM: Final = 1.25
"""Times the largest resident memory seen, as a limit for the process; the least limit is `least_limit`."""

IDLE: Final = 0.5
"""Of a limit that a cluster reserves, the share that is never needed from which a smaller one is advised."""

_SMALLEST_HEAP: Final = 512 * 2**20
"""Bytes of the smallest heap that is advised."""

_MIB: Final = 2**20
_OVERHEAD: Final = 0.1
_LEAST_OVERHEAD: Final = 384 * _MIB
"""Of the heap, and at least: what a JVM takes beside it (Spark's `spark.driver.memoryOverhead`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Holder:
    """A process that holds state. Bytes; `given` is the limit it has, None: not known; `parts` are such processes."""

    name: str
    heap: int
    setting: str
    peak: float
    seen: str
    given: float | None = None
    parts: int = 1


def least_limit(heap: int, backend: Backend | str) -> int:
    """Bytes that a process needs once its heap is full, which happens sooner or later: a smaller limit then kills it.

    Heap, Spark's own allowance for what is beside it, and RocksDB's bounded memory where that is the backend.
    """
    native = ROCKSDB_MEMORY_MB * _MIB if backend is Backend.ROCKSDB else 0
    return heap + max(round(_OVERHEAD * heap), _LEAST_OVERHEAD) + native


def advise(history: History) -> Recommendation:
    """Recommend limits from the resident memory that the runner measures, and the state's memory in the reports."""
    holder = _executor(history) if has_executors(history.spec) else _driver(history)
    reports = [report for report in history.reports() if report.operators]
    if holder is None or not reports:
        whose = " of the executors" if has_executors(history.spec) else ""
        what = f"no measurement of resident memory{whose}" if holder is None else "no batch with state was reported"
        return unknown(TOPIC, f"too little history: {what} in the last day")
    state = max(sum(operator.memory_used_bytes for operator in report.operators) for report in reports) / holder.parts
    backend, heap = history.spec.state.backend, holder.heap
    full = backend is Backend.HDFS and state > HEAP_SHARE * heap
    wanted = math.ceil(state / HEAP_SHARE / _MIB)
    heap_wanted = wanted * _MIB if full else heap
    least = least_limit(heap_wanted, backend)
    limit = max(HEADROOM * holder.peak, least)
    spread = f", spread evenly over {holder.parts} executors" if holder.parts > 1 else ""
    numbers = (
        Number("resident memory", holder.peak, "bytes", holder.seen),
        Number("state in memory", state, "bytes", f"`memoryUsedBytes`, largest of {len(reports)} reports{spread}"),
        Number("heap", heap, "bytes", holder.setting),
        Number("full heap", least, "bytes", "heap, Spark's overhead (10 %, 384 MiB at least), RocksDB's bound"),
        Number("limit", limit, "bytes", f"the larger of resident memory x {HEADROOM} and a full heap"),
    )
    settings: dict[str, str] = {}
    cost = None if full or holder.given is None else costs(holder.given, smaller(holder.peak, state, backend), backend)
    if full:
        settings[holder.setting] = f"{wanted} MiB"
        says = (
            f"state takes {format_size(state)} of a heap of {format_size(heap)}, more than {HEAP_SHARE:.0%}: take "
            f"{wanted} MiB, or RocksDB with {NEW_PLACES}."
        )
    else:
        where = "on the heap" if backend is Backend.HDFS else "beside the heap"
        says = f"state takes {format_size(state)} {where}; a heap of {format_size(heap)} is enough."
    says += f" Give {holder.name} {format_size(limit)}: the largest seen was {format_size(holder.peak)}."
    if holder.given is not None and holder.given < limit:
        says += f" It has {format_size(holder.given)}, and is killed when it passes that."
        if holder.given + heap_wanted - heap < limit:  # a larger heap raises the limit by as much
            settings["spark.executors.memory_overhead"] = f"{math.ceil((limit - heap_wanted) / _MIB)} MiB"
    if cost is not None and not settings:
        settings[holder.setting] = f"{smaller(holder.peak, state, backend) // _MIB} MiB"
        says += f" {cost:.0f} % of what the cluster reserves is never used: take a heap of {settings[holder.setting]}."
    status = Decision.CHANGE if settings else Decision.KEEP
    return Recommendation(
        topic=TOPIC, status=status, says=says, numbers=numbers, settings=settings, costs=cost if settings else None
    )


def smaller(peak: float, state: float, backend: Backend | str) -> int:
    """Bytes of the smallest heap that is enough for a process whose largest resident memory was `peak`."""
    beside = least_limit(0, backend)
    on_heap = state / HEAP_SHARE if backend is Backend.HDFS else 0.0
    return math.ceil(max(_SMALLEST_HEAP, on_heap, HEADROOM * peak - beside) / _MIB) * _MIB


def costs(given: float, heap: int, backend: Backend | str) -> float | None:
    """Percent of the reserved memory that is never used; None if it is less than `IDLE`.

    A cluster reserves the limit of an executor, heap and overhead, whether or not it is used: 1 - L / given, with L the
    limit that a full heap of `heap` bytes needs, and `given` the limit that the driver measured.
    """
    idle = 1 - least_limit(heap, backend) / given
    return 100 * idle if idle >= IDLE else None


def _driver(history: History) -> _Holder | None:
    resident, standbys = _values(history, "resident_bytes"), [_values(history, name) for name in BESIDE]
    if not resident:
        return None
    waiting = sum(max(taken, default=0.0) for taken in standbys)
    beside = f", and its standby {format_size(waiting)}" if waiting else ""
    return _Holder(
        name="the process (container, cgroup)",
        heap=history.spec.spark.driver_memory,
        setting="spark.driver_memory",
        peak=max(resident) + waiting,
        seen=f"largest of {len(resident)} measurements of the last day: JVM, Python{beside}",
    )


def _values(history: History, name: str) -> list[float]:
    return [measurement.value for measurement in history.measurements if measurement.name == name]


def _executor(history: History) -> _Holder | None:
    """The executor with the most memory in use: its share of the state may be larger than the others'."""
    snapshots = [snapshot for snapshot in executor_snapshots(history.measurements) if snapshot.memory]
    if not snapshots:
        return None
    return _Holder(
        name="each executor, heap and overhead together,",
        heap=executor_heap(history.spec.spark),
        setting="spark.executors.memory",
        peak=max(used for look in snapshots for used, _ in look.memory.values()),
        seen=f"of the fullest executor, in {len(snapshots)} samples of the last day: JVM, Python",
        given=max(limit for _, limit in snapshots[-1].memory.values()),
        parts=max(1, snapshots[-1].active),
    )
