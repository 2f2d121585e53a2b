"""When Airflow runs a DAG whose schedule a person wrote into a file."""

from datetime import timedelta

from airflow.sdk import CronTriggerTimetable


def at_its_times(schedule: str) -> CronTriggerTimetable:
    """The times of a cron expression or a preset, in UTC. A DAG that is unpaused waits for the next one.

    Given `run_immediately=False`, Airflow 3 also runs the last one, if it was less than a tenth of the interval ago: a
    daily drill that a person unpauses and runs at one in the morning would run twice. A DAG that has a start date runs
    the last one in any case.
    """
    return CronTriggerTimetable(schedule, timezone="UTC", run_immediately=timedelta())
