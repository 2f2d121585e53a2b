"""Whether a driver's JVM answers: how long a silence is, what it means, and what is recorded. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from streamwarden.lifecycle.driver import DriverEvent, ExitKind, ExitRecord
from streamwarden.units import Seconds, format_duration

NOTICED_AFTER: Final[Seconds] = 15.0
"""Seconds without an answer until `status` says so: longer than the pauses of a healthy garbage collector."""

SHORTEST_BOUND: Final[Seconds] = 20.0
"""The least that a stream may declare as its bound."""

LONGEST_STEP: Final[Seconds] = 1.0
"""The most that counts between two looks: an observer that was itself suspended has not seen any silence."""

JVM_SILENT: Final = "jvm_silent"
"""Kind of the event: the JVM has not answered for `NOTICED_AFTER`."""

JVM_ANSWERS: Final = "jvm_answers"
"""Kind of the event: the JVM answers again."""

UNRESPONSIVE_CLASS: Final = "JvmUnresponsive"
"""Error class of a driver that was killed because its JVM did not answer."""


class Pulse(StrEnum):
    BEATING = "beating"
    SILENT = "silent"  # noticed, and waited for: a long pause of the garbage collector ends
    UNRESPONSIVE = "unresponsive"  # to be killed and restarted


@dataclass(frozen=True, slots=True)
class Silence:
    """How long nothing was heard, as an observer saw it: `lasted` seconds at its look at `looked_at`."""

    looked_at: float
    lasted: Seconds = 0.0

    def at(self, now: float, *, heard: bool) -> Silence:
        """The silence at a later look; none if something was heard since the last one."""
        step = min(max(0.0, now - self.looked_at), LONGEST_STEP)
        return Silence(now, 0.0 if heard else self.lasted + step)


def pulse(silent: Seconds, unresponsive_after: Seconds) -> Pulse:
    """Classify a silence of `silent` seconds."""
    if silent >= unresponsive_after:
        return Pulse.UNRESPONSIVE
    return Pulse.SILENT if silent >= min(NOTICED_AFTER, unresponsive_after) else Pulse.BEATING


def silent_since(events: Sequence[DriverEvent]) -> float | None:
    """Since when a driver's JVM has not answered (Unix seconds), by the driver's events; None if it answers."""
    reported = [event for event in events if event.kind in (JVM_SILENT, JVM_ANSWERS)]
    newest = max(reported, key=lambda event: event.at, default=None)
    if newest is None or newest.kind == JVM_ANSWERS:
        return None
    return newest.at - float(newest.detail["silent_for"])


def killed_unresponsive(silent: Seconds, *, at: float, by: str, stopped: bool = False) -> ExitRecord:
    """The record of a driver that was killed because its JVM did not answer.

    Args:
        by: the process that killed it, for people.
        stopped: the kernel had stopped the process (SIGSTOP).
    """
    how = "was stopped (SIGSTOP)" if stopped else "did not answer"
    return ExitRecord(
        kind=ExitKind.KILLED,
        ended_at=at,
        signal=9,
        error_class=UNRESPONSIVE_CLASS,
        message=f"the driver's JVM {how} for {format_duration(round(silent))}: {by} killed it with SIGKILL",
        next_step="nothing is lost: an interrupted batch runs again at the next start. If it happens again, check for "
        "long pauses of the garbage collector (give the driver more memory) or for a program that stops the process; "
        "restart.unresponsive_after in the stream's file sets how long the JVM may stay silent",
    )
