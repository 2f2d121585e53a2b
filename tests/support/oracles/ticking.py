"""A stateful processor run batch by batch without Spark: rows first, then the timers that are due at the batch's time.

The state is that of PySpark's own test harness; the order of a batch and when a value expires are written here as Spark
has them (the harness fires timers before the rows, lets no timer be set that is due already, and nothing expire). A
timer of the batch's very millisecond fires, as in Spark, which then forgets it whatever the processor did.
"""

from __future__ import annotations

import copy
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

JOBS = Path(__file__).parents[3] / "spark_jobs"


def job_module(name: str) -> ModuleType:
    """The job's module."""
    found = importlib.util.spec_from_file_location(f"job_{name}", JOBS / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


class _Expiring(dict[Any, Any]):
    """Key -> value, gone `duration` milliseconds after it was set."""

    def __init__(self, duration: int) -> None:
        self._duration, self._now, self._until = duration, 0, dict[Any, int]()

    def begin(self, now: int) -> None:
        self._now = now
        for key in [key for key, until in self._until.items() if now >= until]:
            self.pop(key, None)
            del self._until[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self._until[key] = self._now + self._duration


class Ticking:
    """A processor with its state and timers."""

    def __init__(self, processor: Any, *, by_event: bool = False, expire: Mapping[str, int] | None = None) -> None:
        """Args: expire: value state -> milliseconds from an update until it is gone."""
        from pyspark.sql.streaming.tws_tester import TwsTester

        mode = "EventTime" if by_event else "ProcessingTime"
        self._tester = TwsTester(processor, timeMode=mode, eventTimeExtractor=lambda row: sys.maxsize)
        self._expiring = {name: _Expiring(duration) for name, duration in (expire or {}).items()}
        for name, values in self._expiring.items():
            self._tester.handle.value_states[name].state = values

    def batch(self, at: int, rows: Mapping[Any, Sequence[Any]], *, killed: bool = False) -> list[Any]:
        """The output of a batch. If it is killed, it runs once for nothing first: its state is thrown away.

        Args:
            at: the time of the batch, or by event time its watermark.
            rows: none that came too late.
        """
        if killed:
            copy.deepcopy(self)._run(at, rows)
        return self._run(at, rows)

    def _run(self, at: int, rows: Mapping[Any, Sequence[Any]]) -> list[Any]:
        from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo

        tester, handle = self._tester, self._tester.handle
        tester._currentProcessingTimeMs = tester._currentWatermarkMs = at
        for values in self._expiring.values():
            values.begin(at)
        out = [row for key, given in rows.items() for row in tester.test(key, list(given))]
        expired = sorted((expiry, key) for key, expiry in self.timers() if expiry <= at)
        for expiry, key in expired:
            handle.setGroupingKey(key)
            times = tester._getTimerValues()
            info = ExpiredTimerInfo(expiry)
            out += tester.processor.handleExpiredTimer(key=(key,), timerValues=times, expiredTimerInfo=info)
            handle.setGroupingKey(key)
            handle.deleteTimer(expiry)
        return out

    def restore(self, name: str, values: Mapping[Any, Any]) -> None:
        """Begin with these values of a value state, as from a checkpoint."""
        self._tester.handle.value_states[name].state.update(values)

    def timers(self) -> list[tuple[Any, int]]:
        timers = self._tester.handle._timers
        return [(key, expiry) for key in timers.getAllKeysWithTimers() for expiry in timers.listTimers(key)]

    def state(self) -> dict[str, dict[Any, Any]]:
        """State variable -> key -> what it holds, where it holds anything."""
        handle = self._tester.handle
        held = (*handle.value_states.items(), *handle.list_states.items(), *handle.map_states.items())
        return {name: {key: value for key, value in each.state.items() if value} for name, each in held}
