"""The interval of a schedule that is a cron expression or a preset."""

from datetime import UTC, datetime


def interval_at(schedule: str, at: float) -> float:
    """Seconds between the two times of the schedule around `at` (Unix seconds)."""
    from croniter import croniter  # imported here: most streams have no schedule

    after = float(croniter(schedule, datetime.fromtimestamp(at, UTC)).get_next(float))
    return after - float(croniter(schedule, datetime.fromtimestamp(after, UTC)).get_prev(float))
