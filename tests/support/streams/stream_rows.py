"""Rows of the fleet as the board has them."""

from __future__ import annotations

from typing import Any

from streamwarden.health.check import ValueUnit
from streamwarden.health.checks import CHECKS
from streamwarden.health.verdict import Status
from streamwarden.services.overview.rows import DrillResult, Forecast, Growth, Judgement, Metric, StreamRow
from streamwarden.services.overview.standing import LACKING

NOW = 1_800_000_000.0
_CHECKS = {check.name: check for check in CHECKS}


def judged(check: str, value: float | None, status: Status | Judgement = Status.OK) -> Metric:
    """The newest verdict of a check."""
    unit = _CHECKS[check].unit
    return Metric(
        check=check,
        title=_CHECKS[check].title,
        status=Judgement(status.value),
        value=value,
        unit=unit,
        shown="" if value is None else ValueUnit(unit).show(value),
        limits="",
        reason="",
        advice="",
        at=NOW - 20,
    )


def stream_row(name: str, *metrics: Metric, **fields: Any) -> StreamRow:
    """A stream that runs and is well; nothing is measured but `metrics`."""
    values: dict[str, Any] = {
        "stream": name,
        "dag_id": f"stream_{name.partition('/')[0]}",
        "owner": "ann",
        "state": "running",
        "health": Status.CRITICAL if fields.get("state") in LACKING else Status.OK,
        "forecast": Forecast(sentence="", status=Growth.UNKNOWN, seconds=None, limit_bytes=5e9),
    }
    return StreamRow(**{**values, **fields}, metrics={each.check: each for each in metrics})


def full_row(name: str, **fields: Any) -> StreamRow:
    """A stream of which everything is known; each check has its place in the list of checks as its value."""
    drill = DrillResult(run_id="r", drill="kill", verdict="DEVIATED", started_at=NOW - 90, ended_at=NOW - 60)
    known: dict[str, Any] = {
        "judged_at": NOW - 20,
        "rows_in_per_second": 1200.5,
        "rows_processed_per_second": 3000.0,
        "backlog_seconds": 7.0,
        "batch_id": 41,
        "batch_at": NOW - 3,
        "batch_seconds": 1.5,
        "trigger_seconds": 2.0,
        "forecast": Forecast(sentence="reaches 5 GB in 1h", status=Growth.GROWING, seconds=3600.0, limit_bytes=5e9),
        "last_drill": drill,
        "open_incidents": 2,
        "incidents_by_status": {Status.CRITICAL: 2},
        "acknowledged_incidents": 1,
        "muted_incidents": 1,
        "since": NOW - 600,
        "watermark": NOW - 30,
        "restarts": 3,
    }
    metrics = [judged(check.name, float(at)) for at, check in enumerate(CHECKS)]
    return stream_row(name, *metrics, **{**known, **fields})
