"""State by partition: the bytes that the checkpoint holds of each, and how far apart they are."""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from streamwarden.health.check import QUERIES
from streamwarden.health.window import Measurement, Window

LARGEST: Final = "partition_bytes_largest"
MEDIAN: Final = "partition_bytes_median"
SMALLEST: Final = "partition_bytes_smallest"
"""Measurements that the health monitor writes with each evaluation; the store rolls them up by the hour."""

_SPREAD: Final[Mapping[str, Callable[[Sequence[int]], float]]] = {
    LARGEST: max,
    MEDIAN: statistics.median,
    SMALLEST: min,
}


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
