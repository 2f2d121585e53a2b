"""The times of a schedule that is a cron expression or a preset, in UTC."""

from datetime import UTC, datetime


def interval_at(schedule: str, at: float) -> float:
    """Seconds between the two times of the schedule around `at` (Unix seconds)."""
    from croniter import croniter  # imported here: most streams have no schedule

    after = float(croniter(schedule, datetime.fromtimestamp(at, UTC)).get_next(float))
    return after - float(croniter(schedule, datetime.fromtimestamp(after, UTC)).get_prev(float))


def last_due(schedule: str, before: float) -> float | None:
    """The last time before `before` when the schedule was due, Unix seconds; None: it is no cron expression."""
    return _due(schedule, before, "get_prev")


def next_due(schedule: str, after: float) -> float | None:
    """The first time after `after` when the schedule is due, Unix seconds; None: it is no cron expression."""
    return _due(schedule, after, "get_next")


def _due(schedule: str, at: float, which: str) -> float | None:
    from croniter import CroniterError, croniter

    try:
        return float(getattr(croniter(schedule, datetime.fromtimestamp(at, UTC)), which)(float))
    except (CroniterError, ValueError, KeyError):
        return None
