"""The values of the charts from hourly roll-ups, for the time whose batches are not kept any more. Pure.

The wall times of the state are computed as from single batches, with the stream's present number of cores.
"""

from collections.abc import Callable, Mapping
from typing import Final

from streamwarden.adapters.store.history.measurements import RolledUp
from streamwarden.adapters.store.history.rollup import Rolled
from streamwarden.health.signals.series import STATE_BYTES, tasks_at_once
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import HOUR

Numbers = Mapping[str, "RolledUp"]
"""Name -> its roll-ups over the same hours."""
OfHours = Callable[["StreamSpec", Numbers], float | None]
"""The value of a line over these hours; None if a number that it needs was not rolled up."""

NAMES: Final = (
    Rolled.ROWS,
    Rolled.DURATION,
    Rolled.PLANNING,
    Rolled.EXECUTION,
    Rolled.LOGS,
    Rolled.WATERMARK_LAG,
    Rolled.STATE_ROWS,
    Rolled.STATE_UPDATE,
    Rolled.STATE_REMOVAL,
    Rolled.STATE_COMMIT,
    Rolled.STATE_PARTITIONS,
    STATE_BYTES,
)
"""The input of the functions below; it replaces the reports in a chart."""


def mean(name: str, scale: float = 1.0) -> OfHours:
    """The mean of the samples, times `scale`."""
    return lambda _, numbers: numbers[name].mean * scale if name in numbers else None


def rows_in(_: StreamSpec, numbers: Numbers) -> float | None:
    """Rows a second over the hours in which the stream ran at all."""
    rows = numbers.get(Rolled.ROWS)
    return None if rows is None else rows.total / (rows.hours * HOUR)


def rows_processed(_: StreamSpec, numbers: Numbers) -> float | None:
    """Rows a second of the time in which batches ran."""
    rows, busy = numbers.get(Rolled.ROWS), numbers.get(Rolled.DURATION)
    return rows.total / (busy.total / 1000) if rows is not None and busy is not None and busy.total else None


def cleanup(spec: StreamSpec, numbers: Numbers) -> float | None:
    """Wall seconds of a batch's removals."""
    return _wall_time(spec, numbers, Rolled.STATE_REMOVAL)


def state_commit(spec: StreamSpec, numbers: Numbers) -> float | None:
    """Wall seconds of a batch's state commit."""
    return _wall_time(spec, numbers, Rolled.STATE_COMMIT)


def checkpoint(spec: StreamSpec, numbers: Numbers) -> float | None:
    """Wall seconds of a batch's checkpoint: both logs, and the commit of its state if it has one."""
    logs = numbers.get(Rolled.LOGS)
    return None if logs is None else logs.mean / 1000 + (state_commit(spec, numbers) or 0.0)


def processing(spec: StreamSpec, numbers: Numbers) -> float | None:
    """Seconds of a batch between its planning and the commit of its state."""
    execution = numbers.get(Rolled.EXECUTION)
    return None if execution is None else execution.mean / 1000 - (state_commit(spec, numbers) or 0.0)


def _wall_time(spec: StreamSpec, numbers: Numbers, name: Rolled) -> float | None:
    """Seconds from a sum over tasks; no longer than the execution in which it happened."""
    total, partitions = numbers.get(name), numbers.get(Rolled.STATE_PARTITIONS)
    if total is None:
        return None
    at_once = tasks_at_once(spec)(None if partitions is None else round(partitions.mean))
    seconds = total.mean / at_once / 1000
    execution = numbers.get(Rolled.EXECUTION)
    return seconds if execution is None else min(seconds, execution.mean / 1000)
