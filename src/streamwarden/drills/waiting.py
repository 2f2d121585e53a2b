"""Waiting for a condition with a deadline, on a clock that is passed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from streamwarden.drills.ports import Clock

T = TypeVar("T")


def wait_for(look: Callable[[], T | None], *, clock: Clock, deadline: float, every: float) -> T | None:
    """The first thing that is not None that `look` returns; None once `deadline` (Unix seconds) has passed.

    Looks at least once, and once more at the deadline.
    """
    while True:
        late = clock.now() >= deadline
        seen = look()
        if seen is not None or late:
            return seen
        clock.sleep(min(every, max(deadline - clock.now(), 0.0)))
