"""How long this stream's restarts took: from its drivers' records and the first batch of each life."""

from __future__ import annotations

import statistics
from typing import Final

from streamwarden.tuning.history import History

DEFAULT_STARTUP: Final = 15.0
"""Seconds, if no driver has reported its start-up; the check `replay_debt` uses the same."""


def startup_seconds(history: History) -> tuple[float, str]:
    """(seconds from launch to a running query, where that is from)."""
    taken = [
        each.started_at - each.launched_at
        for each in history.drivers
        if each.started_at is not None and each.started_at >= each.launched_at
    ]
    if taken:
        return statistics.median(taken), f"median of {len(taken)} drivers, launch to query"
    return DEFAULT_STARTUP, "no driver has reported it: the default of the check replay_debt"


def restart_seconds(history: History) -> tuple[float, str] | None:
    """(seconds from a driver's launch to the end of its first batch, the source); None if no driver has reported it."""
    ends: dict[str, float] = {}
    for report in history.reports():
        end = report.at + report.duration_ms / 1000
        ends[report.run_id] = min(end, ends.get(report.run_id, end))
    taken = [
        ends[each.run_id] - each.launched_at
        for each in history.drivers
        if each.run_id in ends and ends[each.run_id] > each.launched_at
    ]
    if not taken:
        return None
    return statistics.median(taken), f"median of {len(taken)} drivers, launch to the end of the first batch"
