"""When Airflow runs a DAG whose schedule a person wrote into a file."""

from __future__ import annotations

import pendulum
import pytest
from airflow.sdk import CronTriggerTimetable
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.timetables import trigger
from airflow.timetables.base import TimeRestriction

from streamwarden.airflow.dags.timetables import at_its_times

NOW = pendulum.datetime(2026, 11, 28, 0, 38)


def first_run(timetable: CronTriggerTimetable) -> pendulum.DateTime:
    """When the scheduler, which reads what the DAG processor stored, runs a DAG that never ran."""
    stored = decode_timetable(encode_timetable(timetable))
    found = stored.next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(None, None, catchup=False)
    )
    assert found is not None
    return found.run_after


@pytest.mark.parametrize(("schedule", "expected"), [("@daily", "2026-11-29 00:00"), ("30 * * * *", "2026-11-28 01:30")])
def test_a_dag_that_is_unpaused_soon_after_its_time_waits_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch, schedule: str, expected: str
) -> None:
    monkeypatch.setattr(trigger, "utcnow", lambda: NOW)
    assert first_run(at_its_times(schedule)).format("YYYY-MM-DD HH:mm") == expected


def test_airflow_would_run_the_last_one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: as soon as it does not, `at_its_times` is not needed any more."""
    monkeypatch.setattr(trigger, "utcnow", lambda: NOW)
    daily = CronTriggerTimetable("@daily", timezone="UTC", run_immediately=False)
    assert first_run(daily).format("YYYY-MM-DD HH:mm") == "2026-11-28 00:00"
