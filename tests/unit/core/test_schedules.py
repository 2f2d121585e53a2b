"""The times of a schedule: when it was due last, and when it is due next."""

from __future__ import annotations

import pytest

from streamwarden.schedules import last_due, next_due
from streamwarden.units import DAY, HOUR

MIDNIGHT = 1_795_564_800.0
"""2026-11-25T00:00:00Z, a Wednesday."""


@pytest.mark.parametrize(
    ("schedule", "before", "after"),
    [
        ("@daily", -DAY, DAY),
        ("30 4 * * *", -19.5 * HOUR, 4.5 * HOUR),
        ("0 5 * * 1", -2 * DAY + 5 * HOUR, 5 * DAY + 5 * HOUR),
        ("@once", None, None),
        ("x", None, None),
    ],
)
def test_the_times_around_a_moment(schedule: str, before: float | None, after: float | None) -> None:
    """A schedule that is due at that very moment has the times before and after it."""
    assert last_due(schedule, MIDNIGHT) == (None if before is None else MIDNIGHT + before)
    assert next_due(schedule, MIDNIGHT) == (None if after is None else MIDNIGHT + after)
