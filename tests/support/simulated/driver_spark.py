"""The Spark of a simulated fork's drivers, which a drill changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamwarden.errors import DrillAborted
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from support.simulated.drill_world import World


class SimulatedSpark:
    """Implements `DriverSpark`. `refusal` is what a test turns; `lives` has the interpreter of each driver."""

    def __init__(self, world: World) -> None:
        self.refusal: DrillAborted | None = None

        self.world = world
        self.python: str | None = None
        self.lives: dict[str, str | None] = {}

    def versions(self, spec: StreamSpec, python: str) -> tuple[str, str]:
        if self.refusal is not None:
            raise self.refusal
        return "4.1.4", "4.3.0"

    def choose(self, run_id: str, python: str) -> None:
        self.world._maybe_die("before_choice")
        self.python = python

    def chosen(self, run_id: str) -> str | None:
        return self.python
