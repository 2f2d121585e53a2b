"""The memory of an executor, from the parts that it reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamwarden.spark.internals.executor_memory import HEAP, JVM, OFF_HEAP, PYTHON

_RESIDENT: Final = (JVM, PYTHON)
"""Without `ProcessTreeOtherRSSMemory`: a child that Spark measures between its clone and its exec still has the pages
of the JVM, and counts as a second one."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Args:
    resident: whether `bytes` is resident memory of the JVM and its Python workers; else it is what the JVM uses on and
        off the heap, since the executor has no process-tree metrics.
    """

    bytes: int
    resident: bool


def memory_of(parts: Mapping[str, int]) -> Memory:
    """What an executor holds that reported these parts. Pure."""
    resident = sum(parts[part] for part in _RESIDENT)
    return Memory(resident, resident=True) if resident else Memory(parts[HEAP] + parts[OFF_HEAP], resident=False)
