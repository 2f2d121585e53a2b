"""Stop requests: an explicit, owned wish that a stream ends at a batch boundary, or that it runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from streamwarden.lifecycle.driver import DriverRecord


class Desired(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """Times are Unix seconds. `restart` tells the supervisor to start the stream again once it has stopped.

    Args:
        batch_deadline: when waiting for the batch boundary ends and SIGTERM is sent.
        kill_deadline: when SIGKILL is sent.
    """

    driver_id: str
    requested_by: str
    reason: str
    requested_at: float
    batch_deadline: float
    kill_deadline: float
    restart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """What people want of a stream; survives drivers and Airflow. A stream nobody spoke about is wanted running."""

    stream: str
    desired: Desired
    changed_by: str
    reason: str
    changed_at: float


class StopRepository(Protocol):
    def request(self, request: StopRequest) -> None: ...
    def pending(self, driver_id: str) -> StopRequest | None: ...
    def set_desired(self, state: DesiredState) -> None: ...
    def desired(self, stream: str) -> DesiredState | None: ...


def overtaken(
    asked_at: float, *, wish: Desired, restart: bool, state: DesiredState | None, latest: DriverRecord | None
) -> str | None:
    """Why a wish of `asked_at` (Unix seconds) that is carried out again, since its first try died, is left alone.

    None: it still stands. A restart asked for a newer driver, whoever launched it; and a newer wish wins.
    """
    if state is not None and state.changed_at > asked_at and state.desired is not wish:
        return f"{state.changed_by} wanted it {state.desired} since: {state.reason}"
    if restart and latest is not None and latest.launched_at > asked_at:
        return f"driver {latest.driver_id} was launched since"
    return None
