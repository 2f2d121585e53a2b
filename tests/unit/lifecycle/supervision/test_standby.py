"""A warm standby: which streams keep one, for what it fits, and what its leader says of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from streamwarden.lifecycle.driver import DriverEvent, ProcessIdentity
from streamwarden.lifecycle.supervision.standby import (
    Fit,
    StandbyRecord,
    StandbyState,
    fit_of,
    is_kept,
    standby_event,
    standby_state,
)
from streamwarden.stream.spark import DeployMode, SparkSpec
from streamwarden.stream.spec import Standby, StreamSpec, TriggerSpec

STREAM = StreamSpec(
    name="counts", job="job.py", checkpoint="/cp", standby=Standby.WARM, spark=SparkSpec(master="local")
)
START: dict[str, Any] = {
    "document": {"name": "counts", "restart": {"cap": 600.0}},
    "code": {"files": {"job.py": "1f"}, "packages": {"pyspark": "4.3.0"}},
    "environment": {"PATH": "/bin", "AIRFLOW_CONN_LAKE": "s3://key:secret@"},
    "command": ["spark-submit", "--name", "counts"],
}


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({}, True),
        ({"standby": Standby.NONE}, False),
        ({"spark": SparkSpec(master="yarn")}, False),
        ({"spark": SparkSpec(master="yarn", deploy_mode=DeployMode.CLUSTER)}, False),
        ({"trigger": TriggerSpec(available_now=True)}, False),
        ({"last_batch": 7}, False),
    ],
)
def test_only_a_declared_stream_of_this_host_without_an_end_keeps_one(change: dict[str, Any], kept: bool) -> None:
    assert is_kept(replace(STREAM, **change)) is kept


@pytest.mark.parametrize(
    ("part", "value", "shown"),
    [
        ("document", {"name": "counts", "restart": {"cap": 60.0}}, "the stream's file"),
        ("code", {"files": {"job.py": "2e"}, "packages": {"pyspark": "4.3.0"}}, "the job's code or a package"),
        ("environment", {"PATH": "/bin"}, "the environment of the start"),
        ("command", None, "the command of Airflow's connection"),
    ],
)
def test_whatever_a_driver_is_started_with_makes_a_difference(part: str, value: Any, shown: str) -> None:
    prepared = fit_of(**START)
    assert prepared.differences(fit_of(**START)) == ()
    assert prepared.differences(fit_of(**{**START, part: value})) == (shown,)


def test_the_record_of_a_standby_holds_no_secret_and_is_read_as_it_was_written() -> None:
    leader = ProcessIdentity("host/boot/1", 17, 4)
    record = StandbyRecord(
        stream="counts",
        leader="counts-20260101T000000-00000000",
        leader_process=leader,
        prepared_at=5.0,
        fit=fit_of(**START),
        watched={"job.py": [1, 2]},
    )
    text = json.dumps(record.to_document())
    assert "secret" not in text
    assert StandbyRecord.from_document(json.loads(text)) == record
    assert StandbyRecord.from_document(json.loads(text)).fit == Fit(**json.loads(text)["fit"])


def test_the_newest_event_of_a_driver_says_whether_its_standby_waits() -> None:
    starting = StandbyState(driver_id="counts-2", ready=False, pid=None, since=1.0)
    ready = StandbyState(driver_id="counts-2", ready=True, pid=9, since=2.0)
    events = [standby_event("counts-1", starting, 1.0), standby_event("counts-1", ready, 2.0)]
    assert standby_state([]) is None
    assert standby_state(events[:1]) == starting
    assert standby_state([*events, DriverEvent(driver_id="counts-1", at=3.0, kind="supervised")]) == ready
    assert standby_state([*events, standby_event("counts-1", None, 4.0)]) is None
