"""Stop requests, and the desired state of a stream: each is explicit and names the person or program that asked."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from streamwarden.lifecycle.driver import DriverRecord


class Desired(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """Times are Unix seconds. `restart` asks the supervisor to start the stream again once it has stopped.

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
    """Whether a stream should run; it survives drivers and Airflow. Without a record the stream should run.

    Args:
        begin_anew: why the next launch may begin anew, although the store, the checkpoint and the output contradict
            each other; None: it may not. The next launch uses it up.
    """

    stream: str
    desired: Desired
    changed_by: str
    reason: str
    changed_at: float
    begin_anew: str | None = None


class StopRepository(Protocol):
    def request(self, request: StopRequest) -> None: ...
    def pending(self, driver_id: str) -> StopRequest | None: ...
    def set_desired(self, state: DesiredState) -> None: ...
    def desired(self, stream: str) -> DesiredState | None: ...


def superseded(
    asked_at: float, *, desired: Desired, restart: bool, state: DesiredState | None, latest: DriverRecord | None
) -> str | None:
    """Why a request of `asked_at` (Unix seconds), retried because its first try died, must not be carried out again.

    None: it is still to be carried out. A restart is done once any newer driver was launched, and a newer desired state
    wins.
    """
    if state is not None and state.changed_at > asked_at and state.desired is not desired:
        return f"{state.changed_by} wanted it {state.desired} since: {state.reason}"
    if restart and latest is not None and latest.launched_at > asked_at:
        return f"driver {latest.driver_id} was launched since"
    return None
