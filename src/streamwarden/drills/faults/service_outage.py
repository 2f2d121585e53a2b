"""service_outage: a service that a stream uses is stopped for a while and started again.

A stream waits for its broker, its database and its workers. It must go on without Streamwarden's store and without the
master of its cluster. A full disk is an outage too: `down` fills it, and `up` makes room.

The two commands of the drill's file do that: a drill stops no server by itself. `up` runs whatever happens in between,
and once more when the drill is healed if the process that ran `down` was killed before it ran `up`.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, Protocol

from streamwarden.clusters import manager_of
from streamwarden.clusters.standalone import STANDALONE
from streamwarden.drills.faults.base import (
    Description,
    ExpectedEnd,
    Fault,
    FaultContext,
    LiveUse,
    ObservedFault,
    Proof,
    Strike,
    require_this_host,
)
from streamwarden.drills.ports import Port
from streamwarden.drills.records.sections import require
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import DrillError
from streamwarden.redaction import redacted
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds


class OutageService(StrEnum):
    """The service to stop."""

    SOURCE = "source"  # the broker of the stream's topic
    SINK = "sink"  # the database of its table, or the broker of its topic
    STORE = "store"  # Streamwarden's own store
    MASTER = "master"  # the master of its standalone cluster
    WORKER = "worker"  # the workers of that cluster on this host
    DISK = "disk"  # the file system of the fork's checkpoint, which is filled


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageSpec:
    """How a service is stopped and started again. A drill stops no server by itself: it runs these two commands."""

    service: OutageService
    """what is made unavailable: the broker of the stream's `source`, the database or broker of its `sink`, the `store`
    of Streamwarden, the `master` or the `worker` of a standalone cluster, or the `disk` of the fork's checkpoint"""
    down: tuple[str, ...]
    """program and arguments that stop it, run without a shell in the project's folder, with the environment of the
    drill; the journal shows them, so they hold no secret"""
    up: tuple[str, ...]
    """program and arguments that start it again; may run more than once"""
    lasts: Seconds = 20.0
    """shortest time from the moment at which the service stops answering until `up`; the outage lasts longer, up to
    `fault.within`, until no commit has come for twice as long as a batch takes"""

    def __post_init__(self) -> None:
        for key, command in (("down", self.down), ("up", self.up)):
            whole = bool(command) and bool(command[0].strip()) and not any("\0" in part for part in command)
            require(whole, key, list(command), "a list: a program and its arguments")
            shown = redacted(list(command))
            require(shown == list(command), key, shown, "no secret: let the program read it from a file or a variable")
        require(self.lasts > 0, "lasts", self.lasts, "a positive duration")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """Whether a service answers its own client. `detail`: what it answered, or why it did not."""

    name: str
    answers: bool
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The result of a command. `status` None: it did not end in time and was killed. `output`: its last output."""

    status: int | None
    output: str = ""


class ServiceControl(Protocol):
    """The services that the fork needs, and the commands that stop and start them."""

    def probe(self, fork: ForkView, service: OutageService) -> ServiceStatus:
        """Send it one request and wait some seconds for the answer. Raises ConfigError if its connection is unknown."""

    def run(self, command: Sequence[str], *, within: Seconds) -> CommandResult: ...


SERVICES: Final = Port[ServiceControl]("the services that the fork needs")

GONE_WITHIN = 15.0
"""Seconds after `down` within which the service must have stopped answering."""

BACK_WITHIN = 60.0
"""Seconds after `up` within which it must answer again: a broker loads its logs first."""

COMMAND_WITHIN = 60.0
"""Seconds that `down` or `up` may take."""

POLL = 0.1

STALLS = 2.0
"""No batch may have been committed for this many times the median duration of a batch: less could be one long batch."""


_SERVICES: Final[Mapping[OutageService, Description]] = {
    OutageService.SOURCE: Description(
        does="Stops the broker of the stream's topic.",
        promise="The driver waits about a minute for it. Then it fails, and a restart cures it.",
        seen="The batch that hung was committed when the broker was back, by the same driver or by the next.",
        next_step="Bring the broker back. The stream continues where it was.",
    ),
    OutageService.SINK: Description(
        does="Stops the database of the stream's table, or the broker of the topic that it writes.",
        promise="The driver waits for a database for `sink.retry_for`. Then it fails, and a restart cures it.",
        seen="The batch that hung was committed when the service was back, by the same driver or by the next.",
        next_step="Bring the service back. The stream continues where it was.",
    ),
    OutageService.STORE: Description(
        does="Makes Streamwarden's own store unavailable. The drill's journal is in it: it is written afterwards.",
        promise="A running stream needs no store: it keeps its progress in a file until the store is back.",
        seen="Batches were committed during the outage, by the same driver, and the output was right.",
        next_step="Bring the store back. Until then no stream can be started. No drill of it is shipped: the store "
        "serves every stream of the project, and an outage would hit those that are not drilled.",
    ),
    OutageService.MASTER: Description(
        does="Stops the master of the stream's standalone cluster.",
        promise="A running driver keeps its executors. A master that comes back without recovery ends them: the "
        "driver ends, and the next one registers with the new master.",
        seen="Batches were committed without the master. It came back without recovery, and some seconds later the "
        "driver ended. The next one read the rest, and the output was right.",
        next_step="Bring the master back, or give it recovery (`spark.deploy.recoveryMode`).",
    ),
    OutageService.WORKER: Description(
        does="Stops the workers of the stream's standalone cluster on this host. Their executors end with them.",
        promise="Spark waits for other executors. The state is loaded from the checkpoint again.",
        seen="The same driver committed the batch on a new executor, and the output was right.",
        next_step="Bring the workers back. The batch then runs on them.",
    ),
    OutageService.DISK: Description(
        does="Fills the file system of the fork's checkpoint, with the commands of the drill's file.",
        promise="The driver fails with `No space left on device`. When there is space, a restart cures it.",
        seen="The driver failed with that error. With space again, the next driver continued, and the output was "
        "right.",
        next_step="Free space under the checkpoint and the output (`df -h`). The stream then continues.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOutage(ObservedFault):
    """Proof: the service answered before `down` and not after it, nor at the end of the outage; then a batch hung
    between its plan and its commit, and no commit had come for longer than batches take. Of a service without which a
    stream continues: it did not answer, and there was input to read meanwhile.

    A service that keeps answering (`down` did nothing, or something else started it again) is a miss. The recovery is
    measured from the moment at which the service answers again. A driver that lives on has nothing to wait for: there
    it is measured from the moment at which the service stopped answering, and may have read all its input meanwhile.
    """

    kind: str = "service_outage"
    outage: OutageSpec
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.MAY_END
    event: ClassVar[str] = "an outage of its broker or its database"
    proof: ClassVar[str] = (
        "The service answered before, did not answer after `down`, and did not answer at the end; a batch "
        "hung, and no commit came for twice as long as a batch takes."
    )
    recovery: ClassVar[str] = "The batch that hung; if the driver gave up, it is started again, as supervision does."
    live: ClassVar[LiveUse] = LiveUse(
        allowed=True,
        reason="it runs only the commands of its file, and `up` brings the service back (`store` and `disk`: refused)",
    )
    description: ClassVar[Description] = Description(
        does="Makes a service unavailable for a while, with the commands of the drill's file.",
        promise="A stream waits for what it needs, and it goes on without what it does not need.",
        seen="The output was right.",
        next_step="Bring the service back. The stream continues where it was.",
    )
    variants: ClassVar[Mapping[str, tuple[ExpectedEnd, Description]]] = {
        f"outage.service: {name}": (ExpectedEnd.LIVES if name == "store" else ExpectedEnd.MAY_END, described)
        for name, described in _SERVICES.items()
    }
    goes_on: ClassVar[bool] = False
    """Whether the stream has to commit batches during the outage."""

    def __post_init__(self) -> None:
        ObservedFault.__post_init__(self)
        require(self.within > self.outage.lasts, "within", self.within, "more than the outage lasts")

    @property
    def chosen(self) -> Fault:
        """The outage of the service that the drill's file names."""
        return self.as_kind(_KINDS.get(self.outage.service, ServiceOutage))

    @property
    def variant(self) -> str:
        """The service; the commands and the time are ways to stop it."""
        return f"outage.service: {self.outage.service}"

    @property
    def detail(self) -> str:
        return f" of the {self.outage.service}, with `{self.commands[0]}`"

    @property
    def commands(self) -> tuple[str, ...]:
        return " ".join(self.outage.down), " ".join(self.outage.up)

    def require(self, stream: str, declared: StreamSpec) -> None:
        """A folder needs no service."""
        part = self.outage.service
        if part not in (OutageService.SOURCE, OutageService.SINK):
            return
        given = declared.source if part is OutageService.SOURCE else declared.sink
        if given.SERVICE is None:
            raise self.not_applicable(
                stream,
                f"the {part} of {stream} is of the kind {given.kind}, which needs no service",
                expected=f"a {part} of a kind that a broker or a database serves",
                next_step="correct `fault.outage.service`, or drill this stream with `kill_driver`",
            )

    def undo(self, context: FaultContext) -> str:
        """Start the service again and check that it answers. Raises DrillError if it does not."""
        outage = self.outage
        done = context.ports[SERVICES].run(outage.up, within=COMMAND_WITHIN)
        if done.status != 0:
            raise _not_back(outage, f"`up` {_ended(done)}")
        back = _await_status(context, outage, answers=True, within=BACK_WITHIN)
        if not back.answers:
            raise _not_back(outage, f"{back.name} does not answer {BACK_WITHIN:.0f} s after `up`: {back.detail}")
        return f"{back.name} is back"

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        outage = self.outage
        before = context.ports[SERVICES].probe(context.fork, outage.service)
        if not before.answers:
            return Strike(moment=None, message=f"{before.name} did not answer before the fault: {before.detail}")
        if not context.observe().alive:
            return Strike(moment=None, message="the driver's process was already gone")
        usual = _usual(context)
        try:
            effect = self._outlast(context, outage, usual, deadline)
        finally:
            self.undo(context)  # an error that this raises matters more than an error of the outage
        if isinstance(effect, str):
            return Strike(moment=None, message=effect)
        moment = context.ports.clock.now()
        return Strike(
            moment=moment,
            message=f"an outage of {before.name} lasted {moment - effect['down_at']:.1f} s",
            evidence={"service": before.name, **effect, "back_at": moment},
        )

    def _outlast(
        self, context: FaultContext, outage: OutageSpec, usual: float | None, deadline: float
    ) -> dict[str, Any] | str:
        """Stop the service until the outage has lasted and had an effect, or time is up. Text: why it failed."""
        clock, checkpoint = context.ports.clock, context.ports.checkpoint
        unread = checkpoint.unplanned(context.fork)  # asked before: what is stopped may have to answer that
        down_at = clock.now()
        done = context.ports[SERVICES].run(outage.down, within=COMMAND_WITHIN)
        if done.status != 0:
            return f"`down` {_ended(done)}"
        gone = _await_status(context, outage, answers=False, within=GONE_WITHIN)
        if gone.answers:
            return f"{gone.name} still answers {GONE_WITHIN:.0f} s after `down`"
        gone_at = still_since = clock.now()
        position = at_first = checkpoint.position(context.fork)
        while clock.now() < gone_at + outage.lasts or (
            not self.goes_on and clock.now() < deadline and clock.now() - still_since < STALLS * (usual or 0.0)
        ):
            clock.sleep(POLL)
            now_at = checkpoint.position(context.fork)
            if now_at.committed != position.committed:
                still_since = clock.now()
            position = now_at
        last = context.ports[SERVICES].probe(context.fork, outage.service)
        if last.answers:
            return f"{last.name} came back before `up`: something else started it"
        return {
            "down": list(outage.down),
            "up": list(outage.up),
            "down_at": down_at,
            "gone_at": gone_at,
            "said": gone.detail,
            "planned": position.planned,
            "committed": position.committed,
            "committed_before": at_first.committed,
            "hung": position.gap > 0,
            "went_on": position.committed != at_first.committed,
            "unread": unread,
            "left": self.left(context, unread),
            "still_seconds": clock.now() - still_since,
            "batch_seconds": usual,
        }

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        proof = ObservedFault.prove(self, context, strike)
        if not (self.goes_on and proof.landed):
            return proof
        evidence = proof.evidence
        if not evidence["went_on"]:
            return replace(proof, violation=f"no batch was committed during {self.event}, which no batch needs")
        if self.expected_end is ExpectedEnd.LIVES:
            return replace(proof, moment=evidence["gone_at"], committed=evidence["committed_before"])
        return proof

    def left(self, context: FaultContext, unread: int) -> int:
        """Input that no batch has planned at the end of the outage; `unread`: what there was at its beginning."""
        return unread

    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        return _judge_going_on(strike) if self.goes_on else _judge(strike)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOutage(ServiceOutage):
    """Streamwarden's own store. The drill writes nothing to its journal, which is in the store, during the outage."""

    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.LIVES
    event: ClassVar[str] = "an outage of Streamwarden's store"
    live: ClassVar[LiveUse] = LiveUse(allowed=False, reason="supervision and this drill's own journal need the store")
    goes_on: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOutage(ServiceOutage):
    """A part of a standalone cluster."""

    def require(self, stream: str, declared: StreamSpec) -> None:
        master = declared.spark.master
        if manager_of(master) is not STANDALONE:
            raise self.not_applicable(
                stream,
                f"{stream} runs on the master {master}, not on a standalone cluster",
                expected="spark.master spark://host:port",
                next_step="correct `fault.outage.service`, or drill this stream with `kill_driver`",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterOutage(ClusterOutage):
    """A running driver needs no master. One that comes back without recovery ends its executors; then the driver ends,
    and the next one registers with the new master."""

    event: ClassVar[str] = "an outage of its cluster's master"
    goes_on: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOutage(ClusterOutage):
    """The executors end with their worker. The batch waits for others."""

    event: ClassVar[str] = "an outage of its cluster's workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskOutage(ServiceOutage):
    """A batch may not even be planned on a full disk. It counts that none is committed."""

    event: ClassVar[str] = "a full disk under its checkpoint"
    live: ClassVar[LiveUse] = LiveUse(
        allowed=False,
        reason="everything else on the disk of the live stream would fail too",
    )

    def require(self, stream: str, declared: StreamSpec) -> None:
        """Every stream has a checkpoint."""

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        require_this_host(self, context, "full disks")
        return ServiceOutage.strike(self, context, deadline=deadline)

    def left(self, context: FaultContext, unread: int) -> int:
        """The source does not need the disk."""
        return context.ports.checkpoint.unplanned(context.fork)

    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        left = strike.evidence["left"] > 0
        return _judge(replace(strike, evidence={**strike.evidence, "hung": strike.evidence["hung"] or left}))


_KINDS: Final[Mapping[OutageService, type[ServiceOutage]]] = {
    OutageService.STORE: StoreOutage,
    OutageService.MASTER: MasterOutage,
    OutageService.WORKER: WorkerOutage,
    OutageService.DISK: DiskOutage,
}


def _judge_going_on(strike: Strike) -> tuple[bool, str]:
    effect = strike.evidence
    if not effect["went_on"] and effect["unread"] == 0:
        return False, f"{strike.message}, but the stream had no input left to read meanwhile"
    went = f"batch {effect['committed']} was committed meanwhile" if effect["went_on"] else "no batch was committed"
    return True, f"{strike.message}, and {went}"


def _judge(strike: Strike) -> tuple[bool, str]:
    effect = strike.evidence
    usual = effect["batch_seconds"]
    if not effect["hung"]:
        return False, f"{strike.message}, but no batch waited for it: batch {effect['committed']} was committed"
    still = f"{effect['still_seconds']:.1f} s"
    if usual is None or effect["still_seconds"] < STALLS * usual:
        takes = f"{usual:.1f} s" if usual is not None else "an unknown time"
        return False, f"{strike.message}, but no batch was committed for {still} only, and a batch takes {takes}"
    return True, (
        f"{strike.message}: batch {effect['planned']} hung, and no batch was committed for {still}, "
        f"where one takes {usual:.1f} s"
    )


def _usual(context: FaultContext) -> float | None:
    """Median seconds from a batch's plan to its commit. The first batch, of a cold driver, counts only if there is no
    other."""
    batches = context.ports.checkpoint.batches(context.fork)
    durations = [batch.seconds for batch in batches if batch.seconds is not None]
    return statistics.median(durations[1:] or durations) if durations else None


def _await_status(context: FaultContext, outage: OutageSpec, *, answers: bool, within: float) -> ServiceStatus:
    """The status of the service once it answers (or stops answering), or its last status when the time is up."""
    last: list[ServiceStatus] = []

    def probe() -> ServiceStatus | None:
        last[:] = [context.ports[SERVICES].probe(context.fork, outage.service)]
        return last[0] if last[0].answers is answers else None

    context.wait_for(probe, deadline=context.ports.clock.now() + within, every=POLL)
    return last[0]


def _ended(done: CommandResult) -> str:
    how = f"did not end within {COMMAND_WITHIN:.0f} s" if done.status is None else f"ended with status {done.status}"
    output = " ".join(done.output.split())
    return f"{how}: {output}" if output else how


def _not_back(outage: OutageSpec, why: str) -> DrillError:
    return DrillError(
        f"the service was not started again: {why}",
        expected="status 0, and a service that answers",
        where=" ".join(outage.up),
        next_step=f"start the {outage.service} by hand now; then correct `fault.outage.up`",
    )
