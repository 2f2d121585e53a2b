"""Waiting for a condition with a deadline, on a clock that is passed in."""

from collections.abc import Callable
from typing import TypeVar

from streamwarden.drills.ports import Clock

T = TypeVar("T")


def wait_for(probe: Callable[[], T | None], *, clock: Clock, deadline: float, every: float) -> T | None:
    """The first result of `probe` that is not None; None once `deadline` (Unix seconds) has passed.

    Probes at least once, and once more at the deadline.
    """
    while True:
        late = clock.now() >= deadline
        result = probe()
        if result is not None or late:
            return result
        clock.sleep(min(every, max(deadline - clock.now(), 0.0)))
