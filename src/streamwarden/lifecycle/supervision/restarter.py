"""Restarter of a stream's driver after a failure: its DAG, a supervisor in a shell, or nothing. Pure."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from streamwarden.lifecycle.driver import DriverEvent, DriverRecord

SUPERVISED: Final = "supervised"
"""Kind of the event that a supervisor records when it begins to follow a driver. Its detail `by` is a `Supervisor`."""

GAVE_UP: Final = "gave_up"
"""Kind of the event that marks the driver after which the stream was left down: a manual start clears the earlier
failures."""


class Supervisor(StrEnum):
    DAG = "dag"  # the stream's DAG in Airflow
    SHELL = "shell"  # `streamwarden start --supervise`


class Restarter(StrEnum):
    """Restarter of a driver."""

    DAG = "dag"  # the stream's DAG, which is not paused
    GAVE_UP = "gave up"  # nothing: its supervisor left the stream down; the DAG then pauses itself
    PAUSED_DAG = "paused dag"  # nothing, as long as the DAG is paused
    SHELL = "shell"  # `streamwarden start --supervise`, if that process still runs
    NOTHING = "nothing"  # the driver was started by hand, and no supervisor ever followed it
    UNKNOWN = "unknown"  # the DAG followed it, and it is not known here whether the DAG is paused


def supervised(driver_id: str, by: Supervisor, at: float) -> DriverEvent:
    """The event to record when a supervisor begins to follow the driver."""
    return DriverEvent(driver_id=driver_id, at=at, kind=SUPERVISED, detail={"by": by.value})


def restarts_elsewhere(driver: DriverRecord, events: Iterable[DriverEvent], here: str) -> bool:
    """Whether a driver that was asked to restart is started again on another host than `here`, where it is followed:
    a start here would move it."""
    followed = restarter(events, None) in (Restarter.SHELL, Restarter.UNKNOWN)
    return followed and driver.process is not None and driver.process.host != here


def restarter(events: Iterable[DriverEvent], paused: bool | None) -> Restarter:
    """Restarter of a driver with these events when it has ended. `paused`: whether the stream's DAG is paused; None if
    that is unknown, or if there is no Airflow."""
    recorded = tuple(events)
    followed = [event.detail.get("by") for event in recorded if event.kind == SUPERVISED]
    if paused is False:
        return Restarter.DAG
    if any(event.kind == GAVE_UP for event in recorded):
        return Restarter.GAVE_UP
    if followed and followed[-1] == Supervisor.SHELL:
        return Restarter.SHELL
    if paused:
        return Restarter.PAUSED_DAG
    return Restarter.UNKNOWN if followed else Restarter.NOTHING
