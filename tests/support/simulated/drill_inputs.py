"""The input files of a simulated fork: taken out, put back, and what the stream makes of a missing one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamwarden.drills.records.types import ForkView
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.failures.causes import INPUT_FILE_GONE

if TYPE_CHECKING:
    from support.simulated.drill_world import SimulatedDriver, World


class SimulatedInputs:
    """Implements `InputFiles`. The attributes up to the blank line are what a test turns."""

    def __init__(self, world: World) -> None:
        self.ignored = False  # a batch is committed without a file that is missing
        self.named = True  # the exit names it
        self.effect = True  # what is done to the input is done
        self.only_one_left = False

        self.world = world
        self.gone: str | None = None
        self.taken: list[str] = []
        self.last: list[str] = []
        self.doubled: list[str] = []

    def files_of(self, fork: ForkView, batch: int) -> Sequence[str]:
        return [f"flights-{batch:03d}-{number}.json" for number in range(4)]

    def missing(self, fork: ForkView, batch: int) -> Sequence[str]:
        return [file for file in self.files_of(fork, batch) if file == self.gone]

    def take_out(self, fork: ForkView, file: str) -> None:
        self.gone = file if self.effect else None
        self.taken.append(file)
        self.world._maybe_die("after_take_out")

    def put_back(self, fork: ForkView) -> bool:
        there, self.gone = self.gone is not None, None
        return there

    def unread(self, fork: ForkView) -> Sequence[str]:
        batches = range(len(self.world.planned), self.world.total_batches)
        usual = [file for batch in batches for file in self.files_of(fork, batch)]
        files = [*self.doubled, *(file for file in usual if file not in self.last), *self.last]
        return files[:1] if self.only_one_left else files

    def read_last(self, fork: ForkView, files: Sequence[str]) -> None:
        self.last = list(files) if self.effect else []
        self.world._maybe_die("after_change")

    def double(self, fork: ForkView, file: str) -> str:
        copy = file.replace(".json", "-again.json")
        self.doubled = [copy] if self.effect else []
        self.world._maybe_die("after_change")
        return copy

    def copies(self, fork: ForkView) -> Sequence[str]:
        return tuple(self.doubled)

    def ends(self, driver: SimulatedDriver) -> bool:
        """Whether the driver ends because a file of its batch is missing."""
        if self.gone is None or self.ignored:
            return False
        name = self.gone if self.named else "a file"
        step, code = INPUT_FILE_GONE.next_step, INPUT_FILE_GONE.code
        message = f"{name} no longer exists"
        self.world._end(driver, ExitKind.FAILED, message=message, curable=False, cause=code, next_step=step)
        return True
