"""How often a test looks whether what it waits for is there."""

from typing import Final

_TIGHT: Final = 0.05
"""Seconds between two looks. Whoever looks more often wants to see a moment that passes."""


def rarer(poll: float, waited: float) -> float:
    """Seconds until the next look after `waited` of them: a look takes processor time from what is waited for, and a
    twentieth of a long wait is soon enough."""
    return poll if poll < _TIGHT else max(poll, min(waited / 20, 0.5))
