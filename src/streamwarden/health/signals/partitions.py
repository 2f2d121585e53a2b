"""State by partition: the bytes that the checkpoint holds of each, and how far apart they are."""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from zlib import crc32

from streamwarden.health.check import QUERIES
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Measurement, Window

MEASURED_AT: Final = "measured_at"
"""In the evidence of the check of the partitions: when their bytes were measured, Unix seconds."""

MEASURED_EVERY: Final = 600.0
"""Seconds between two measurements of the partitions of a stream at most, as long as none alarms: each looks at every
file of the state."""

LARGEST: Final = "partition_bytes_largest"
MEDIAN: Final = "partition_bytes_median"
SMALLEST: Final = "partition_bytes_smallest"
"""Measurements that the health monitor writes with each evaluation; the store rolls them up by the hour."""

_SPREAD: Final[Mapping[str, Callable[[Sequence[int]], float]]] = {
    LARGEST: max,
    MEDIAN: statistics.median,
    SMALLEST: min,
}


def is_due(stream: str, newest: Verdict | None, now: float) -> bool:
    """Whether the partitions of a stream are to be measured again, by the newest verdict on them.

    The streams that one evaluation measured for the first time come apart: each has a period of its own, from half of
    `MEASURED_EVERY` on.
    """
    at = None if newest is None or newest.status is not Status.OK else newest.evidence.get(MEASURED_AT)
    period = MEASURED_EVERY * (0.5 + crc32(stream.encode()) % 100 / 200)
    return not isinstance(at, int | float) or not 0 <= now - at < period


def partition_bytes(window: Window) -> Counter[tuple[int, int]]:
    """(operator, partition) -> bytes of all its stores in the checkpoint; empty if they could not be read."""
    sizes: Counter[tuple[int, int]] = Counter()
    for store in window.state or ():
        if store.size is not None:
            sizes[store.operator, store.partition] += store.size
    return sizes


def spread(window: Window) -> list[Measurement]:
    """The bytes of the largest, the median and the smallest partition, all operators of the query together; none if
    the query keeps no state, or its checkpoint could not be read."""
    sizes: Counter[int] = Counter()
    for (_, partition), size in partition_bytes(window).items():
        sizes[partition] += size
    if not sizes or window.part not in QUERIES:
        return []
    values = tuple(sizes.values())
    return [
        Measurement(
            stream=window.spec.name,
            name=name,
            at=window.now,
            value=float(of(values)),
            unit="bytes",
            source="bytes below state/ of the checkpoint",
        )
        for name, of in _SPREAD.items()
    ]
