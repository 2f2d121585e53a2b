"""checkpoint_damage: a part of the checkpoint is lost, cut in half or changed by one bit, while the stream is down.

The driver is stopped at a batch boundary, the checkpoint is copied, and then damaged. Some damages Spark repairs. After
the others it must refuse to start, and the copy is restored, as an operator restores a checkpoint from a copy.

Three parties have to agree on each damage: what this module declares, what `streamwarden inspect` predicts, and what
Spark then does. If the inspector predicts something else, the checkpoint is not one on which the damage does what is
declared: the damage is undone and the attempt counts as a miss.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import product
from typing import Any, ClassVar, Final, Protocol

from streamwarden.checkpoint.diagnosis.damage import Consequence, Damage, worst
from streamwarden.checkpoint.formats.layout import COMMITS, METADATA, OFFSETS, STATE
from streamwarden.checkpoint.formats.state import FileKind, StateFile, StateStore
from streamwarden.drills.faults.base import (
    Description,
    ExpectedEnd,
    Fault,
    FaultContext,
    ObservedFault,
    Proof,
    Strike,
    require_this_host,
)
from streamwarden.drills.faults.topic.own_topic import stop_between_batches
from streamwarden.drills.ports import Port, Ports
from streamwarden.drills.records.sections import require
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import DrillAborted
from streamwarden.health.checks.driver.restart_loop import CHECK as RESTART_LOOP
from streamwarden.lifecycle.failures.causes import CHECKPOINT_DAMAGED
from streamwarden.lifecycle.failures.failure_patterns import Cause
from streamwarden.stream.spec import Backend, StreamSpec

POLL_EVERY: Final = 0.2
"""Seconds between two listings of the state, while no file of the target is there."""


class CheckpointTarget(StrEnum):
    """The part of a checkpoint that `checkpoint_damage` hits."""

    COMMIT = "commit"
    OFFSETS = "offsets"
    METADATA = "metadata"
    STATE = "state"
    SNAPSHOT = "snapshot"
    CHANGELOG = "changelog"
    DELTA = "delta"


class FileDamage(StrEnum):
    """How a file is damaged."""

    LOST = "lost"
    TRUNCATED = "truncated"
    FLIPPED = "flipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedFile:
    """A file of the checkpoint that is not as it was: its bytes before and after; None: it is gone."""

    path: str
    before: int
    after: int | None


class CheckpointFiles(Protocol):
    """The files of the fork's checkpoint on this host, which a drill damages while no driver runs."""

    def stores(self, fork: ForkView) -> Sequence[StateStore]: ...
    def keep(self, fork: ForkView) -> None:
        """Copy the checkpoint. Replaces an earlier copy."""

    def damage(self, fork: ForkView, paths: Sequence[str], damage: FileDamage) -> None:
        """Damage these files, whose paths are below the checkpoint."""

    def damaged(self, fork: ForkView) -> Sequence[DamagedFile]:
        """The files that are not as in the copy; none if there is no copy."""

    def predict(self, fork: ForkView) -> Sequence[Damage]:
        """The findings of the inspector, with its predictions."""

    def restore(self, fork: ForkView) -> bool:
        """Put the copy in the place of the checkpoint; False: there is none. May run again."""


FILES: Final = Port[CheckpointFiles]("the files of the checkpoint")

_HEALED: Final = frozenset({None, Consequence.HARMLESS, Consequence.RECOVERS})
"""Predictions for a damage after which Spark starts and the output is right; None: no finding."""

_LOGS: Final[Mapping[CheckpointTarget, str]] = {CheckpointTarget.COMMIT: COMMITS, CheckpointTarget.OFFSETS: OFFSETS}
_WHOLE: Final[Mapping[CheckpointTarget, str]] = {CheckpointTarget.METADATA: METADATA, CheckpointTarget.STATE: STATE}
_KINDS: Final[Mapping[CheckpointTarget, FileKind]] = {
    CheckpointTarget.CHANGELOG: FileKind.CHANGELOG,
    CheckpointTarget.DELTA: FileKind.DELTA,
}

_WHAT: Final[Mapping[CheckpointTarget, str]] = {
    CheckpointTarget.COMMIT: "the last file of `commits/`",
    CheckpointTarget.OFFSETS: "the last file of `offsets/`",
    CheckpointTarget.METADATA: "the file `metadata`",
    CheckpointTarget.STATE: "the folder `state/`",
    CheckpointTarget.SNAPSHOT: "the newest snapshot of one partition of the state, whose changes are all there",
    CheckpointTarget.CHANGELOG: "the newest changelog of one partition of the state (RocksDB)",
    CheckpointTarget.DELTA: "the newest delta of one partition of the state (HDFS-backed)",
}
_DOES: Final[Mapping[FileDamage, str]] = {
    FileDamage.LOST: "Removes {}.",
    FileDamage.TRUNCATED: "Cuts off the second half of {}.",
    FileDamage.FLIPPED: "Changes one bit in the middle of {}.",
}

_STARTED: Final = "The stream started, and the output was right."
_REFUSED: Final = (
    "The driver failed with the cause `checkpoint_damaged`, and supervision left the stream down. When the copy was "
    "restored, the output was right."
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """The required outcome of a damage to the target, and why.

    Args:
        unsure: the inspector may also predict that it is harmless, since it does not know the query.
    """

    expected_end: ExpectedEnd
    promise: str
    unsure: bool = False

    def fits(self, foretold: Consequence | None) -> bool:
        """The inspector predicts this outcome."""
        if self.expected_end is ExpectedEnd.ENDS:
            return foretold in _HEALED
        return foretold is Consequence.REFUSES or (self.unsure and foretold is Consequence.HARMLESS)

    @property
    def seen(self) -> str:
        return _STARTED if self.expected_end is ExpectedEnd.ENDS else _REFUSED

    @property
    def next_step(self) -> str:
        return "Nothing: start the stream." if self.expected_end is ExpectedEnd.ENDS else CHECKPOINT_DAMAGED.advice


_RERUN: Final = _Rule(ExpectedEnd.ENDS, "The batch runs again from its plan. The sink has its rows already.")
_NO_LOG: Final = _Rule(ExpectedEnd.REFUSES, "Spark reads the last file of each log when it starts, and fails.")
_NO_QUERY: Final = _Rule(
    ExpectedEnd.REFUSES, "Spark starts no query on a checkpoint with batches and without `metadata`."
)
_NO_STATE: Final = _Rule(
    ExpectedEnd.REFUSES, "Spark starts no stateful query whose operator has no folder.", unsure=True
)
_REPAIRED: Final = _Rule(
    ExpectedEnd.ENDS, "Spark loads an older snapshot, or none, and replays all changes since then."
)
_NO_CHANGES: Final = _Rule(
    ExpectedEnd.REFUSES, "The newest version of the state cannot be loaded: the first batch fails."
)

_T, _D = CheckpointTarget, FileDamage

RULES: Final[Mapping[tuple[CheckpointTarget, FileDamage], _Rule]] = {
    (_T.COMMIT, _D.LOST): _RERUN,
    (_T.COMMIT, _D.TRUNCATED): _NO_LOG,
    (_T.OFFSETS, _D.TRUNCATED): _NO_LOG,
    (_T.METADATA, _D.LOST): _NO_QUERY,
    (_T.STATE, _D.LOST): _NO_STATE,
    **dict.fromkeys(product((_T.SNAPSHOT,), FileDamage), _REPAIRED),
    **dict.fromkeys(product((_T.CHANGELOG, _T.DELTA), FileDamage), _NO_CHANGES),
}
"""Target and damage -> what has to happen. Pairs that are not here are no experiments: nothing declares their
outcome."""


def _variants() -> Iterator[tuple[str, tuple[ExpectedEnd, Description]]]:
    for (target, damage), rule in RULES.items():
        described = Description(
            does=_DOES[damage].format(_WHAT[target]), promise=rule.promise, seen=rule.seen, next_step=rule.next_step
        )
        yield f"target: {target}, damage: {damage}", (rule.expected_end, described)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDamage(ObservedFault):
    """Proof: the driver stopped with every planned batch committed; compared with the copy, exactly the files of the
    target are damaged; and the inspector predicts what is declared."""

    kind: str = "checkpoint_damage"
    target: CheckpointTarget
    """which part of the checkpoint is damaged"""
    damage: FileDamage
    """what happens to that part: see [faults](../faults.md#checkpoint_damage) for the pairs that there are"""
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.ENDS
    event: ClassVar[str] = "a damage to its checkpoint"
    proof: ClassVar[str] = (
        "The driver stopped between two batches; compared with a copy, exactly that part is damaged; "
        "`inspect` foretells the declared outcome."
    )
    recovery: ClassVar[str] = (
        "By the damage: the start that follows; or the stream must fail with an error that names the cause, "
        "then the copy is restored."
    )
    description: ClassVar[Description] = Description(
        does="Stops the driver at a batch boundary, damages one part of the fork's checkpoint, and starts the driver.",
        promise="It depends on the part and on the damage: Spark repairs it, or refuses to go on. It must not go on "
        "with an output that is wrong.",
        seen="Each damage had the declared outcome, which `streamwarden inspect` foretold. Of a lost state it says "
        "that only a query without state can continue.",
        next_step="Before a start on a checkpoint that may be damaged: `streamwarden inspect NAME`.",
    )
    variants: ClassVar[Mapping[str, tuple[ExpectedEnd, Description]]] = dict(_variants())

    def __post_init__(self) -> None:
        ObservedFault.__post_init__(self)
        fitting = [damage for target, damage in RULES if target is self.target]
        require(self.damage in fitting, "damage", self.damage.value, f"for {self.target}: {', '.join(fitting)}")

    @property
    def chosen(self) -> Fault:
        """The damage with its declared outcome."""
        refuses = RULES[self.target, self.damage].expected_end is ExpectedEnd.REFUSES
        return self.as_kind(RefusedDamage) if refuses else self

    def require(self, stream: str, declared: StreamSpec) -> None:
        """Changes of the state are files of the backend."""
        backend, target = declared.state.backend, self.target
        fitting = {
            CheckpointTarget.CHANGELOG: backend is Backend.ROCKSDB and declared.state.changelog,
            CheckpointTarget.DELTA: backend is Backend.HDFS,
        }
        if not fitting.get(target, True):
            raise DrillAborted(
                f"the target {target} is not applicable: {stream} has the state backend {backend}, "
                f"{'with' if declared.state.changelog else 'without'} changelogs",
                expected="RocksDB with changelogs for `changelog`, the HDFS-backed store for `delta`",
                where=f"fault.target of the drill of {stream}",
                next_step="choose another target, such as `snapshot`",
            )

    def undo(self, context: FaultContext) -> str | None:
        return "the checkpoint was restored from its copy" if context.ports[FILES].restore(context.fork) else None

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        require_this_host(self, context, "damages to files")
        missed = self._await_target(context, deadline=deadline) or stop_between_batches(
            context, why="its checkpoint is to be damaged", deadline=deadline
        )
        paths = () if missed is not None else self._paths(context)
        if missed is None and context.ports.checkpoint.unplanned(context.fork) == 0:
            missed = "the driver stopped only at the end of the input: no batch is left that a restart could commit"
        if missed is not None or not paths:
            return Strike(moment=None, message=missed or f"the checkpoint has no file to damage: {_WHAT[self.target]}")
        context.ports[FILES].keep(context.fork)
        moment = context.mark()
        context.ports[FILES].damage(context.fork, paths, self.damage)
        strike = Strike(moment=moment, message=f"{paths[0]} is {self.damage}", evidence=self._evidence(context))
        other = self._otherwise(strike.evidence)
        if other is not None:
            context.ports[FILES].restore(context.fork)
            return Strike(moment=None, message=f"{strike.message}, but {other}: the checkpoint was restored")
        return strike

    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        harmed = context.ports[FILES].damaged(context.fork)
        if not harmed:
            return False, f"{strike.message}, but every file of the checkpoint is as it was"
        damage = "; ".join(_describe(file) for file in harmed)
        other = self._otherwise(strike.evidence)
        return other is None, f"between two batches the checkpoint was damaged: {damage}" + (
            "" if other is None else f", but {other}"
        )

    def _await_target(self, context: FaultContext, *, deadline: float) -> str | None:
        """Wait until there is a file to damage: the first snapshot is uploaded some batches after the start. Returns
        why there is none, None if there is one."""

        def probe() -> str | bool | None:
            if self._paths(context):
                return True
            return None if context.observe().alive else f"the driver ended before there was {_WHAT[self.target]}"

        result = context.wait_for(probe, deadline=deadline, every=POLL_EVERY)
        return f"there was no {_WHAT[self.target]}" if result is None else result if isinstance(result, str) else None

    def _paths(self, context: FaultContext) -> tuple[str, ...]:
        committed = context.ports.checkpoint.position(context.fork).committed
        if committed is None:
            return ()
        return choose(self.target, committed, context.ports[FILES].stores(context.fork))

    def _evidence(self, context: FaultContext) -> dict[str, Any]:
        """The checkpoint after the damage, as the inspector reads it."""
        position = context.ports.checkpoint.position(context.fork)
        findings = context.ports[FILES].predict(context.fork)
        gravest = worst(tuple(findings))
        return {
            "planned": position.planned,
            "committed": position.committed,
            "harmed": [asdict(file) for file in context.ports[FILES].damaged(context.fork)],
            "foretold": None if gravest is None else gravest.value,
            "findings": [asdict(finding) for finding in findings],
        }

    def _otherwise(self, evidence: Mapping[str, Any]) -> str | None:
        """The inspector's prediction if it is not the declared one."""
        foretold = None if evidence["foretold"] is None else Consequence(evidence["foretold"])
        if RULES[self.target, self.damage].fits(foretold):
            return None
        declared = "recovers" if self.expected_end is ExpectedEnd.ENDS else "refuses"
        return f"`inspect` foretells {foretold or 'nothing'}, and the declared outcome is that the stream {declared}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedDamage(CheckpointDamage):
    """A damage that no restart cures. See RefusalFault."""

    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.REFUSES
    cause: ClassVar[Cause] = CHECKPOINT_DAMAGED
    check: ClassVar[str] = RESTART_LOOP.name

    def unreported(self, proof: Proof, evidence: Mapping[str, Any]) -> str | None:
        """The check has to give the next step of the cause."""
        reasons = [str(death["why"]) for death in evidence.get("died", ())]
        if any(self.cause.next_step in reason for reason in reasons):
            return None
        return f"it gives {reasons}, without the next step: {self.cause.next_step}"

    def remediate(self, run_id: str, fork: ForkView, ports: Ports) -> ForkView:
        """The checkpoint is restored from its copy."""
        ports[FILES].restore(fork)
        return fork


def choose(target: CheckpointTarget, committed: int, stores: Sequence[StateStore]) -> tuple[str, ...]:
    """The paths below the checkpoint that a damage to the target hits; empty if there is nothing to hit. Pure.

    Of the state it is one file that the next start reads: the version after the newest committed batch is loaded.
    """
    if target in _LOGS:
        return (f"{_LOGS[target]}/{committed}",)
    if target in _WHOLE:
        return (_WHOLE[target],) if target is not CheckpointTarget.STATE or stores else ()
    for store in stores:
        file = _state_file(target, store, committed + 1)
        if file is not None:
            return (f"{store.folder}/{file.name}",)
    return ()


def _state_file(target: CheckpointTarget, store: StateStore, version: int) -> StateFile | None:
    load = store.load(version)
    if target is CheckpointTarget.SNAPSHOT:
        snapshot = load.snapshot
        whole = snapshot is not None and store.load(version, without=frozenset({snapshot.name})).complete
        return snapshot if whole else None
    newest = load.changes[-1] if load.changes else None
    return newest if newest is not None and newest.kind is _KINDS[target] and newest.version == version else None


def _describe(harmed: DamagedFile) -> str:
    """`commits/7 is gone (86 bytes before)`."""
    if harmed.after is None:
        return f"{harmed.path} is gone ({harmed.before:,} bytes before)"
    if harmed.after < harmed.before:
        return f"{harmed.path} has {harmed.after:,} of {harmed.before:,} bytes"
    return f"{harmed.path} has other content ({harmed.after:,} bytes)"
