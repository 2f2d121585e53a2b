"""Records of queries, with only what a test is about."""

from __future__ import annotations

from typing import Any

from streamwarden.lifecycle.queries import QueryRecord
from streamwarden.stream.spec import TriggerSpec


def query_record(stream: str, name: str, *, driver: str, at: float, **changes: Any) -> QueryRecord:
    """A query that `driver` started at `at`, Unix seconds."""
    fields = {
        "stream": stream,
        "name": name,
        "checkpoint": f"/data/{name or stream}",
        "trigger": TriggerSpec(processing_time=7.0),
        "driver_id": driver,
        "query_id": f"id of {name}",
        "run_id": f"run of {name} by {driver}",
        "first_at": at,
        "started_at": at,
    }
    return QueryRecord(**{**fields, **changes})
