"""A stateful processor run batch by batch without Spark: rows first, then the timers that lie before the batch's time.

The state is that of PySpark's own test harness; the order of a batch and which timers fire are written here as Spark
has them (the harness fires timers before the rows, and those of this very millisecond too).
"""

from __future__ import annotations

import copy
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

JOBS = Path(__file__).parents[2] / "spark_jobs"


def job_module(name: str) -> ModuleType:
    """The job's module."""
    found = importlib.util.spec_from_file_location(f"job_{name}", JOBS / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


class Ticking:
    """A processor with its state and timers."""

    def __init__(self, processor: Any) -> None:
        from pyspark.sql.streaming.tws_tester import TwsTester

        self._tester = TwsTester(processor, timeMode="ProcessingTime")

    def batch(self, at: int, rows: Mapping[Any, Sequence[Any]], *, killed: bool = False) -> list[Any]:
        """The output of a batch. If it is killed, it runs once for nothing first: its state is thrown away."""
        if killed:
            copy.deepcopy(self)._run(at, rows)
        return self._run(at, rows)

    def _run(self, at: int, rows: Mapping[Any, Sequence[Any]]) -> list[Any]:
        from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo

        tester, handle = self._tester, self._tester.handle
        tester._currentProcessingTimeMs = at
        out = [row for key, given in rows.items() for row in tester.test(key, list(given))]
        expired = sorted((expiry, key) for key, expiry in self.timers() if expiry < at)
        for expiry, key in expired:
            handle.setGroupingKey(key)
            times = tester._getTimerValues()
            info = ExpiredTimerInfo(expiry)
            out += tester.processor.handleExpiredTimer(key=(key,), timerValues=times, expiredTimerInfo=info)
            handle.setGroupingKey(key)
            handle.deleteTimer(expiry)
        return out

    def timers(self) -> list[tuple[Any, int]]:
        timers = self._tester.handle._timers
        return [(key, expiry) for key in timers.getAllKeysWithTimers() for expiry in timers.listTimers(key)]

    def state(self) -> dict[str, dict[Any, Any]]:
        """State variable -> key -> what it holds, where it holds anything."""
        handle = self._tester.handle
        return {name: dict(held.state) for name, held in (*handle.value_states.items(), *handle.list_states.items())}
