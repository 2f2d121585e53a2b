"""How long a JVM may be silent, and what is said of it."""

from __future__ import annotations

import pytest

from streamwarden.lifecycle.driver import DriverEvent, ExitKind
from streamwarden.lifecycle.supervision.heartbeat import (
    JVM_ANSWERS,
    JVM_SILENT,
    NOTICED_AFTER,
    Pulse,
    Silence,
    killed_unresponsive,
    pulse,
    silent_since,
)


def event(kind: str, at: float, silent_for: float) -> DriverEvent:
    return DriverEvent(driver_id="d", at=at, kind=kind, detail={"silent_for": f"{silent_for:.1f}"})


@pytest.mark.parametrize(
    ("silent", "bound", "expected"),
    [
        (0, 60, Pulse.BEATING),
        (NOTICED_AFTER - 0.1, 60, Pulse.BEATING),
        (NOTICED_AFTER, 60, Pulse.SILENT),
        (59.9, 60, Pulse.SILENT),
        (60, 60, Pulse.UNRESPONSIVE),
        (300, 600, Pulse.SILENT),
    ],
)
def test_a_long_pause_is_noticed_first_and_ended_only_at_the_bound(
    silent: float, bound: float, expected: Pulse
) -> None:
    assert pulse(silent, bound) is expected


def test_an_observer_that_was_suspended_has_not_seen_a_silence() -> None:
    """The machine slept for an hour: what it did not look at, it does not count."""
    silence = Silence(100.0)
    for now in (100.25, 100.5, 3700.0, 3700.25):
        silence = silence.at(now, heard=False)
    assert silence.lasted == pytest.approx(1.75)
    assert silence.at(3700.5, heard=True).lasted == 0


def test_a_clock_that_steps_back_adds_nothing() -> None:
    assert Silence(100.0, 3.0).at(90.0, heard=False) == Silence(90.0, 3.0)


def test_silence_is_counted_from_the_last_heartbeat() -> None:
    assert silent_since([]) is None
    first = event(JVM_SILENT, 115, 15)
    assert silent_since([first]) == 100
    over = [first, event(JVM_ANSWERS, 120, 20)]
    assert silent_since(over) is None
    assert silent_since([*over, event(JVM_SILENT, 200, 15), event("reattached", 300, 0)]) == 185


def test_the_record_of_a_frozen_driver_says_who_killed_it_and_why() -> None:
    record = killed_unresponsive(61.2, at=5, by="its supervisor process")
    assert (record.kind, record.signal, record.error_class, record.curable) == (
        ExitKind.KILLED, 9, "JvmUnresponsive", True,
    )  # fmt: skip
    assert record.message == "the driver's JVM did not answer for 1m 1s: its supervisor process killed it with SIGKILL"
    assert "SIGSTOP" in killed_unresponsive(61.2, at=5, by="its supervisor process", stopped=True).message
