"""What the oracle of flight_departures takes for a flight, and what it counts."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from streamwarden.services.verifying.oracle_files import load_oracle

JOB = Path(__file__).parents[3] / "spark_jobs" / "flight_departures.py"
DECODE = load_oracle(JOB).__globals__["decode"]  # type: ignore[attr-defined]
FLIGHT: dict[str, Any] = {
    "flight_id": "20130101-UA1545-EWR",
    "event_time": "2013-01-01T10:15:00.000Z",
    "origin": "EWR",
    "carrier": "UA",
    "dest": "IAH",
    "tailnum": None,
    "departed_at": "2013-01-01T10:17:00.000Z",
    "dep_delay": 2,
}
AT = 1_357_035_300_000


def decoded(**change: Any) -> Any:
    return DECODE(json.dumps({**FLIGHT, **change}))


def test_a_departure_counts_as_one_flight_with_its_delay() -> None:
    assert decoded() == (AT, ("EWR", "UA"), (1, 1, 0, 2))


def test_leaving_early_counts_against_the_delay() -> None:
    assert decoded(dep_delay=-9) == (AT, ("EWR", "UA"), (1, 1, 0, -9))


def test_a_cancelled_flight_is_scheduled_and_never_departs() -> None:
    assert decoded(departed_at=None, dep_delay=None) == (AT, ("EWR", "UA"), (1, 0, 1, 0))


def test_an_instant_in_another_zone_is_the_same_instant() -> None:
    assert decoded(event_time="2013-01-01T05:15:00.000-05:00")[0] == AT


@pytest.mark.parametrize(
    "change",
    [
        *({name: None} for name in ("flight_id", "event_time", "origin", "carrier")),
        {"event_time": "yesterday"},
        {"event_time": "2013-01-01"},
        {"event_time": "2013-01-01T10:15:00Z"},
        {"event_time": "2013-01-01T10:15:00.000"},
        {"event_time": "2013-13-01T10:15:00.000Z"},
        {"event_time": 1_357_035_300},
        {"departed_at": "later"},
        {"dep_delay": "2"},
        {"dep_delay": 2.5},
        {"dep_delay": True},
        {"dep_delay": 2**31},
    ],
)
def test_line_with_a_missing_or_misspelt_field_is_not_a_flight(change: dict[str, Any]) -> None:
    assert decoded(**change) is None


def test_the_oracle_shares_no_code_with_the_job_and_needs_no_spark() -> None:
    tree = ast.parse((JOB.parent / "oracles" / JOB.name).read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    own = {name for name in modules if name and name.startswith(("streamwarden", "spark_jobs"))}
    assert own and all(name.startswith("streamwarden.verification.") for name in own)  # noqa: PT018
    assert not any(name and name.split(".")[0] in ("pyspark", "pandas", "pyarrow", "spark_jobs") for name in modules)
