"""The files of a simulated fork's checkpoint: damaged, foretold, restored, and what the stream makes of the damage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamwarden.checkpoint.diagnosis.damage import Consequence, Damage
from streamwarden.checkpoint.formats.state import FileKind, StateFile, StateStore
from streamwarden.drills.faults.base import ExpectedEnd
from streamwarden.drills.faults.checkpoint_damage import RULES, CheckpointTarget, DamagedFile, FileDamage, choose
from streamwarden.drills.records.types import ForkView
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.failures.causes import CHECKPOINT_DAMAGED, Cause

if TYPE_CHECKING:
    from support.simulated.drill_world import SimulatedDriver, World


class SimulatedFiles:
    """Implements `CheckpointFiles`. The attributes up to the blank line are what a test turns."""

    def __init__(self, world: World) -> None:
        self.foretold: Consequence | None = None  # None: as declared
        self.effect = True  # a damage changes files
        self.silent = False  # the stream goes on with a checkpoint that is damaged
        self.cause: Cause | None = CHECKPOINT_DAMAGED  # that its exit names
        self.reported = True  # by the check restart_loop
        self.snapshots = True  # uploaded

        self.world = world
        self.copy: dict[int, float] | None = None  # the commits
        self.broken: tuple[str, FileDamage] | None = None
        self.restored = 0

    def stores(self, fork: ForkView) -> Sequence[StateStore]:
        newest = len(self.world.committed)
        files = [_file(version, FileKind.CHANGELOG) for version in range(1, newest + 1)]
        files += [_file(1, FileKind.ZIP)] if self.snapshots and newest else []
        return [StateStore(operator=0, partition=0, name="default", folder="state/0/0", files=tuple(files), other={})]

    def keep(self, fork: ForkView) -> None:
        self.world._maybe_die("before_keep")
        self.copy = dict(self.world.committed)

    def damage(self, fork: ForkView, paths: Sequence[str], damage: FileDamage) -> None:
        if self.effect:
            self.broken = (paths[0], damage)
            if paths[0].startswith("commits/") and damage is FileDamage.LOST:
                self.world.committed.pop(max(self.world.committed))
        self.world._maybe_die("after_harm")

    def damaged(self, fork: ForkView) -> Sequence[DamagedFile]:
        if self.broken is None:
            return []
        path, damage = self.broken
        return [DamagedFile(path=path, before=86, after={"lost": None, "truncated": 43, "flipped": 86}[damage])]

    def predict(self, fork: ForkView) -> Sequence[Damage]:
        consequence = self.foretold or (Consequence.REFUSES if self.refuses() else None)
        if consequence is None:
            return []
        return [Damage("commits/1", "as simulated", consequence, "Spark does it.", "restore it")]

    def restore(self, fork: ForkView) -> bool:
        if self.copy is None:
            return False
        self.world.committed = dict(self.copy)
        self.copy = self.broken = None
        self.restored += 1
        return True

    def refuses(self) -> bool:
        """Whether what is damaged is declared as something that Spark refuses."""
        if self.broken is None:
            return False
        path, damage = self.broken
        committed = max(self.world.committed)
        hit = {target: choose(target, committed, self.stores(_NO_FORK)) for target in CheckpointTarget}
        return any(
            RULES[target, damage].expected_end is ExpectedEnd.REFUSES
            for target, paths in hit.items()
            if path in paths and (target, damage) in RULES
        )

    def ends(self, driver: SimulatedDriver) -> bool:
        """Whether the driver ends because of the damage."""
        if self.silent or not self.refuses():
            return False
        cause = self.cause
        self.world._end(
            driver,
            ExitKind.FAILED,
            error_class="CANNOT_LOAD_STATE_STORE",
            message="it cannot be loaded",
            curable=False,
            cause=None if cause is None else cause.code,
            next_step="read driver.log" if cause is None else cause.next_step,
        )
        return True

    def verdicts(self, fork: ForkView) -> list[Verdict]:
        """What the check restart_loop says."""
        ends = [each.exit for each in self.world.drivers.values() if each.exit]
        died = [{"why": f"failed {each.message}; next: {each.next_step}"} for each in ends]
        refused = self.refuses() or self.world.inputs.gone is not None
        status = Status.CRITICAL if self.reported and refused else Status.OK
        evidence = {"died": died}
        return [
            Verdict(
                stream=fork.stream,
                check="restart_loop",
                status=status,
                at=self.world.time,
                reason="a restart cannot cure it",
                evidence=evidence,
            )
        ]


_NO_FORK: ForkView = None  # type: ignore[assignment]


def _file(version: int, kind: FileKind) -> StateFile:
    return StateFile(name=f"{version}.{kind}", version=version, kind=kind, size=100)
