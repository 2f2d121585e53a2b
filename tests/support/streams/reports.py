"""Progress reports as Spark writes them, with the few fields that a test is about."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from streamwarden.progress import Progress, parse_progress

_SAMPLE: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "progress" / "spark-4.3.0-aggregation.json").read_text()
)
QUERY = str(_SAMPLE["id"])
START = 1_767_225_600.0
"""2026-01-01T00:00:00Z, on the hour."""


def stamp(at: float) -> str:
    """Unix seconds as Spark writes them, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def report(
    batch_id: int, *, at: float | None = None, rows: int = 200, run_id: str = "run-1", **fields: Any
) -> Progress:
    """The report of a batch that ran; `at` defaults to two seconds a batch after START."""
    changed = {
        "batchId": batch_id,
        "timestamp": stamp(START + 2 * batch_id if at is None else at),
        "numInputRows": rows,
        "runId": run_id,
    }
    return parse_progress({**_SAMPLE, **changed, **fields})


def idle(batch_id: int, *, at: float) -> Progress:
    """The report of a trigger that found no data: it carries the id of the batch that would come next."""
    return report(batch_id, at=at, rows=0, durationMs={"latestOffset": 1, "triggerExecution": 1}, stateOperators=[])


def operator(**fields: int) -> dict[str, Any]:
    """A state operator of a report; `sst` sets the custom metric rocksdbSstFileSize."""
    sst = {"rocksdbSstFileSize": fields.pop("sst")} if "sst" in fields else {}
    sample = _SAMPLE["stateOperators"][0]
    return {**sample, **fields, "customMetrics": {**sample["customMetrics"], **sst}}
