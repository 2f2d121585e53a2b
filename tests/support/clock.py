"""A module's own `time`, for tests that replace its waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace


def time_with(sleep: Callable[[float], None]) -> SimpleNamespace:
    """`time` with another `sleep`, to be set in one module. The threads of other tests sleep as they did."""
    return SimpleNamespace(**{**vars(time), "sleep": sleep})
