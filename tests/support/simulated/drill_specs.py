"""The stream that simulated drills are about, and the drills."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.drills.faults import FAULTS, Fault
from streamwarden.drills.faults.checkpoint_damage import CheckpointTarget, FileDamage
from streamwarden.drills.faults.service_outage import OutageService, OutageSpec
from streamwarden.drills.records.sections import VerificationSpec
from streamwarden.drills.spec import DrillSpec
from streamwarden.stream.spec import StreamSpec

SOURCES = {
    "kafka": {"kind": "kafka", "connection": "events", "topic": "flights"},
    "delta": {"kind": "delta", "path": "/data/tables/flights"},
    "files": {"kind": "files", "path": "/data/flights", "format": "json"},
    "rate": {"kind": "rate"},
    "script": {"kind": "script"},
}
SINKS = {
    "postgresql": {"kind": "postgresql", "connection": "warehouse", "table": "flights", "key": ["id"]},
    "kafka": {"kind": "kafka", "connection": "events", "topic": "departures", "key": ["id"]},
    "parquet": {"kind": "parquet", "path": "/data/departures"},
    "delta": {"kind": "delta", "path": "/data/departures"},
    "iceberg": {"kind": "iceberg", "path": "/data/lake/departures"},
    "script": {"kind": "script"},
}


@cache
def declared(source: str = "kafka", sink: str = "postgresql", master: str = "spark://one:7077") -> StreamSpec:
    """The spec of the stream that is drilled, by the kinds of its source and its sink."""
    return spec_from_dict(
        {
            "name": "flights",
            "job": "/project/job.py",
            "checkpoint": "/data/checkpoint",
            "source": SOURCES[source],
            "sink": SINKS[sink],
            "spark": {"master": master},
        }
    )


OUTAGE = OutageSpec(service=OutageService.SOURCE, down=("down", "it"), up=("up", "it"), lasts=20.0)


OPTIONS: dict[str, dict[str, Any]] = {
    "kill_driver": {"strikes": 1},
    "service_outage": {"outage": OUTAGE},
    "checkpoint_damage": {"target": CheckpointTarget.COMMIT, "damage": FileDamage.LOST},
    "upgrade_spark": {"python": "/opt/envs/spark43/bin/python"},
}
"""The options that a kind needs, as a drill has them unless a test says otherwise."""


def fault_of(kind: str, **options: Any) -> Fault:
    """The fault of that kind, with these keys of its section."""
    return FAULTS[kind](**options)


def drill(kind: str = "kill_driver", **changes: Any) -> DrillSpec:
    """A standard drill on `flights`; `changes` replace whole parts of it."""
    spec = DrillSpec(
        name=kind,
        stream="flights",
        fault=fault_of(kind, **OPTIONS.get(kind, {})),
        verification=VerificationSpec(min_records=100_000),
    )
    return replace(spec, **changes)
