"""A fault: what a drill does to a driver, and how it proves afterwards that it really happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from streamwarden.drills.ports import CheckpointFacts, Clock, Drivers, DriverView, ForkView, Outlet


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One driver of one fork, about to be struck."""

    run_id: str
    fork: ForkView
    driver_id: str
    drivers: Drivers
    checkpoint: CheckpointFacts
    database: Outlet
    topic: Outlet
    clock: Clock

    def observe(self) -> DriverView:
        return self.drivers.observe(self.driver_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """What was done. `moment` is Unix seconds; None: the moment never came and nothing was done."""

    moment: float | None
    message: str
    batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether the fault landed, shown by what is left after the driver's end.

    Args:
        moment: when it happened, Unix seconds: the start of the recovery time.
        planned, committed: last batch in `offsets/` and in `commits/` after the driver's end.
        message: one sentence; for a miss, what was found instead.
        evidence: the facts that the sentence rests on.
    """

    landed: bool
    driver_id: str
    moment: float
    planned: int | None
    committed: int | None
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


class Fault(Protocol):
    def strike(self, scene: Scene, *, deadline: float) -> Strike:
        """Wait for the moment, strike, and wait for the driver's end, all before `deadline` (Unix seconds)."""

    def prove(self, scene: Scene, strike: Strike | None) -> Proof:
        """Judge by what is left. `strike` is None if the process that struck died before it could tell: the evidence
        alone must do."""


def await_exit(scene: Scene, *, deadline: float) -> DriverView:
    """The driver as last seen: with its recorded exit, or without one if the deadline passed first."""
    while True:
        late = scene.clock.now() >= deadline
        view = scene.observe()
        if view.exit is not None or late:
            return view
        scene.clock.sleep(0.1)


def describe_exit(view: DriverView) -> dict[str, Any]:
    """The exit as evidence; all None while there is none."""
    exit = view.exit
    return {
        "alive": view.alive,
        "exit": exit.kind.value if exit else None,
        "exit_code": exit.exit_code if exit else None,
        "signal": exit.signal if exit else None,
        "ended_at": exit.ended_at if exit else None,
        "cut_batch": exit.cut_batch if exit else None,
        "message": exit.message if exit else "",
        "pid": view.record.process.pid if view.record.process else None,
        "host": view.record.process.host if view.record.process else None,
        "process_started_at_ticks": view.record.process.started_at if view.record.process else None,
    }
