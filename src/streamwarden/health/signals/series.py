"""From progress reports to the quantities that several checks judge: wall times, state bytes, parallelism."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from streamwarden.clusters import manager_of
from streamwarden.clusters.local import threads
from streamwarden.health.window import Batch, Measurement, Window
from streamwarden.progress import Progress
from streamwarden.stream.spec import StreamSpec

FRESH: Final = 120.0
"""Seconds after which a measurement of the runner (taken every ten) no longer describes the stream."""

STANDBY_BYTES: Final = "standby_resident_bytes"
"""The measurement that a driver takes of its warm standby, if it has one."""

POOL_BYTES: Final = "pool_resident_bytes"
"""The measurement that a driver takes of its share of a pool of standbys, if its project has one."""

BESIDE: Final = (STANDBY_BYTES, POOL_BYTES)
"""Memory of processes that wait for a driver's end."""

STATE_REPORTS: Final = 25

STATE_BYTES: Final = "state_bytes"
BACKLOG_SECONDS: Final = "backlog_seconds"
MEMORY_BYTES: Final = "memory_without_state_bytes"
"""Measurements that the health monitor writes with each evaluation; the store rolls them up by the hour."""

_COUNTED: Final = ("spark.cores.max", "spark.executor.instances", "spark.executor.cores")


def current_batches(window: Window) -> tuple[Batch, ...]:
    """The batches of the query that runs now: a new query id (a new checkpoint) is a new baseline."""
    batches = window.batches
    if not batches:
        return batches
    query = batches[-1].query_id
    if batches[0].query_id == query:
        return batches
    return tuple(batch for batch in batches if batch.query_id == query)


def reports(window: Window, count: int) -> Sequence[Progress]:
    """The newest `count` reports of batches that ran in the current query, oldest first.

    Spark also reports triggers that found no data, under the id of a batch that is yet to come: those are left out.
    """
    cached: list[Progress] | None = window.derived.get("reports")
    if cached is None:
        found = [batch.progress for batch in current_batches(window) if batch.progress is not None]
        cached = window.derived["reports"] = [report for report in found if report.has_run]
    return cached[-count:] if count else []


def sample(window: Window, count: int) -> Sequence[Progress]:
    """At most `count` reports spread evenly over the current query's batches, the newest one among them."""
    key = f"sample of {count}"
    if key not in window.derived:
        batches = current_batches(window)
        step = max(1.0, (len(batches) - 1) / max(1, count - 1))
        chosen = [batches[round(index * step)] for index in range(min(count, len(batches)))]
        window.derived[key] = [
            batch.progress for batch in chosen if batch.progress is not None and batch.progress.has_run
        ]
    cached: Sequence[Progress] = window.derived[key]
    return cached


def cores(spec: StreamSpec) -> int | None:
    """Tasks that can run at once, from the master URL or the executors' settings; None if they do not say."""
    if not manager_of(spec.spark.master).has_executors:
        return threads(spec.spark.master)
    conf, executors = spec.spark.conf, spec.spark.executors
    if executors.instances is not None and not any(key in conf for key in _COUNTED):
        return executors.instances * (executors.cores or 1)
    try:
        if "spark.cores.max" in conf:
            return int(conf["spark.cores.max"])
        return int(conf["spark.executor.instances"]) * int(conf.get("spark.executor.cores", "1"))
    except (KeyError, ValueError):
        return None


def tasks_at_once(spec: StreamSpec) -> Callable[[int | None], int]:
    """From the partitions of an operator (None: not reported) to how many of its tasks run at once."""
    known, default = cores(spec) or 1, spec.state.shuffle_partitions
    return lambda partitions: max(1, min(partitions or default, known))


def wall_times(spec: StreamSpec, progresses: Iterable[Progress], field: str) -> list[float]:
    """Seconds of wall time of `field` (`commit_ms`, `removal_ms`) in each batch, all operators together.

    Spark's number is a sum over the operator's tasks. It is divided by how many of them ran at once, min(partitions,
    cores), or by 1 where the cores are not known, and can be no longer than the `addBatch` in which it happened.
    """
    at_once = tasks_at_once(spec)
    times = []
    for progress in progresses:
        total = 0.0
        for operator in progress.operators:
            total += getattr(operator, field) / at_once(operator.partitions)
        add_batch = progress.durations_ms.get("addBatch")
        times.append(round((total if add_batch is None or total < add_batch else add_batch) / 1000, 9))
    return times


def checkpoint_seconds(spec: StreamSpec, progresses: Sequence[Progress]) -> list[float]:
    """Seconds of wall time that each batch spent on its checkpoint: both logs, and the commit of its state."""
    state = wall_times(spec, progresses, "commit_ms")
    return [round(progress.logs_ms / 1000 + commit, 9) for progress, commit in zip(progresses, state, strict=True)]


def state_bytes(progresses: Iterable[Progress]) -> list[tuple[int, int]]:
    """(batch id, live state bytes of all operators) of each report.

    HDFS-backed: `stateOnCurrentVersionSizeBytes`. RocksDB: `rocksdbSstFileSize` + `memoryUsedBytes` (memtables and the
    block cache, so an upper bound); the SST size is 0 in batches without a flush, and then the last other value counts.
    Any other provider: `memoryUsedBytes`.
    """
    flushed: dict[int, int] = {}
    sizes: list[tuple[int, int]] = []
    for progress in progresses:
        total = 0
        for operator in progress.operators:
            custom = operator.custom
            current = custom.get("stateOnCurrentVersionSizeBytes")
            if current is not None:
                total += current
                continue
            sst = custom.get("rocksdbSstFileSize") or flushed.get(operator.index, 0)
            flushed[operator.index] = sst
            total += sst + operator.memory_used_bytes
        sizes.append((progress.batch_id, total))
    return sizes


def live_state(window: Window) -> list[tuple[int, int]]:
    """`state_bytes` of the newest reports: some more than are judged, so that a flush is among them."""
    cached: list[tuple[int, int]] | None = window.derived.get("state")
    if cached is None:
        cached = window.derived["state"] = state_bytes(reports(window, STATE_REPORTS))
    return cached


def measured(window: Window, name: str, count: int) -> list[Measurement]:
    """The newest `count` measurements called `name`, oldest first."""
    return list(measurements_of(window, name)[-count:])


def measurements_of(window: Window, name: str) -> Sequence[Measurement]:
    """All measurements called `name`, oldest first."""
    by_name: dict[str, list[Measurement]] | None = window.derived.get("measurements")
    if by_name is None:
        by_name = window.derived["measurements"] = {}
        for measurement in window.measurements:
            by_name.setdefault(measurement.name, []).append(measurement)
    return by_name.get(name, ())


def latest_measured(window: Window, name: str) -> Measurement | None:
    """The newest measurement called `name` if it is fresh."""
    newest = measurements_of(window, name)[-1:]
    return newest[0] if newest and window.now - newest[0].at <= FRESH else None


def batch_seconds(batches: Sequence[Batch]) -> list[float]:
    """Durations of completed batches: Spark's, or the time between the two logs where the report was lost."""
    seconds: list[float] = []
    for batch in batches:
        if batch.progress is not None and batch.progress.has_run:
            seconds.append(batch.progress.duration_ms / 1000)
        elif batch.planned_at is not None and batch.committed_at is not None:
            seconds.append(max(0.0, batch.committed_at - batch.planned_at))
    return seconds


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest-rank percentile of `values` (not empty), `share` in 0..1."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
