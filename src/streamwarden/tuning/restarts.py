"""How long this stream's restarts took: from its drivers' records and the first batch of each life."""

import statistics
from typing import Final

from streamwarden.lifecycle.driver import DriverRecord, startup_seconds
from streamwarden.progress import Progress
from streamwarden.tuning.history import History
from streamwarden.units import format_count

DEFAULT_STARTUP: Final = 15.0
"""Seconds, if no driver has reported its start-up."""

IDLE: Final = 5.0
"""Seconds from a running query to its first batch, if input waits; longer, and the query waited for input."""


def measured_startup(history: History) -> tuple[float, str]:
    """(seconds from launch to a running query, where that is from)."""
    taken = startup_seconds(history.drivers)
    if taken:
        return statistics.median(taken), f"median of {format_count(len(taken), 'driver')}, launch to query"
    return DEFAULT_STARTUP, "no driver has reported it: a default"


def restart_seconds(history: History) -> tuple[float, str] | None:
    """(seconds from a driver's launch to the end of its first batch, the source); None if no driver has reported it.

    A first batch that had to wait for input says nothing of the restart: of such a wait at most `IDLE` seconds count.
    """
    firsts = [(driver, history.first_reports.get(driver.run_id or "")) for driver in history.drivers]
    measured = [_until_first_batch(driver, first) for driver, first in firsts if first is not None]
    taken = [seconds for seconds in measured if seconds is not None]
    if not taken:
        return None
    drivers = format_count(len(taken), "driver")
    return statistics.median(taken), f"median of {drivers}, launch to the end of the first batch"


def _until_first_batch(driver: DriverRecord, first: Progress) -> float | None:
    """Seconds from the launch to the end of `first`, without a wait for input."""
    running = driver.started_at if driver.started_at is not None else first.at
    if not driver.launched_at <= running <= first.at + IDLE:
        return None
    return running - driver.launched_at + min(max(0.0, first.at - running), IDLE) + first.duration_ms / 1000
