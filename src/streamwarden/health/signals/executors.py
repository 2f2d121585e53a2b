"""The executors of a stream on a cluster, as its driver measured them: which are alive, and how full each is."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from streamwarden.clusters import manager_of
from streamwarden.health.signals.series import FRESH
from streamwarden.health.window import Measurement
from streamwarden.stream.spec import StreamSpec

BYTES: Final = "executor_bytes"
LIMIT: Final = "executor_limit_bytes"
ACTIVE: Final = "executors_active"
LOST: Final = "executors_lost"
CORES: Final = "executor_cores"
FAILED_TASKS: Final = "executor_failed_tasks"
UNREAD: Final = "executors_unread"
"""Names of the measurements; BYTES and LIMIT are each executor's, named in their source, the others are counts. UNREAD
is taken where Spark does not say how many executors there are."""

COUNTED: Final = (ACTIVE, LOST, UNREAD)
"""What `latest_snapshot` reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSnapshot:
    """One measurement of the executors.

    Args:
        at: Unix seconds.
        active: how many were alive; lost: how many the driver had lost by then.
        memory: executor -> (bytes that it last reported, limit).
    """

    at: float
    active: int
    lost: int
    memory: dict[str, tuple[float, float]]

    @property
    def fullest(self) -> str | None:
        """The executor that is nearest to its limit; None if no executor has reported its memory."""
        return max(self.memory, key=self.share, default=None)

    def share(self, executor: str) -> float:
        """The share of its limit that the executor uses."""
        used, limit = self.memory[executor]
        return used / limit


def has_executors(spec: StreamSpec) -> bool:
    """Whether the stream's tasks run in separate processes, on a cluster."""
    return manager_of(spec.spark.master).has_executors


def executor_snapshots(measurements: Iterable[Measurement]) -> list[ExecutorSnapshot]:
    """All snapshots in `measurements`, oldest first."""
    counted: dict[float, dict[str, float]] = {}
    parts: dict[float, dict[str, dict[str, float]]] = {}
    for measurement in measurements:
        if measurement.name in (ACTIVE, LOST):
            counted.setdefault(measurement.at, {})[measurement.name] = measurement.value
        elif measurement.name in (BYTES, LIMIT):
            parts.setdefault(measurement.at, {}).setdefault(measurement.source, {})[measurement.name] = (
                measurement.value
            )
    return [
        ExecutorSnapshot(
            at=at,
            active=int(counts.get(ACTIVE, 0)),
            lost=int(counts.get(LOST, 0)),
            memory={
                executor: (values[BYTES], values[LIMIT])
                for executor, values in parts.get(at, {}).items()
                if BYTES in values and values.get(LIMIT, 0) > 0
            },
        )
        for at, counts in sorted(counted.items())
    ]


def latest_snapshot(measurements: Iterable[Measurement], now: float) -> ExecutorSnapshot | None:
    """The newest snapshot if it is fresh and no later attempt to read the executors failed."""
    taken = list(measurements)
    snapshots = executor_snapshots(taken)
    if not snapshots or now - snapshots[-1].at > FRESH:
        return None
    failed = any(measurement.name == UNREAD and measurement.at > snapshots[-1].at for measurement in taken)
    return None if failed else snapshots[-1]
