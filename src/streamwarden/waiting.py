"""Waiting for a condition in real time. Drills wait on a clock that is passed in: see `drills.waiting`."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], *, within: float, every: float) -> bool:
    """Ask every `every` seconds until the condition holds; False if it does not within `within` seconds.

    Asks at least once, and once more at the end.
    """
    deadline = time.monotonic() + within
    while True:
        late = time.monotonic() >= deadline
        if condition():
            return True
        if late:
            return False
        time.sleep(min(every, max(deadline - time.monotonic(), 0.0)))
