"""service_outage: the broker or the database that a stream needs is stopped for a while and started again.

The two commands of the drill's file do that: a drill stops no server by itself. `up` runs whatever happens in between,
and once more when the drill is healed if the process that ran `down` was killed before it ran `up`.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any, ClassVar

from streamwarden.drills.faults.base import Aftermath, Fault, FaultContext, Proof, Strike, prove_as_observed
from streamwarden.drills.parts import FaultSpec, OutageService, OutageSpec
from streamwarden.drills.ports import CommandResult, ServiceStatus
from streamwarden.drills.waiting import wait_for
from streamwarden.errors import DrillAborted, DrillError
from streamwarden.stream import StreamSpec

GONE_WITHIN = 15.0
"""Seconds after `down` within which the service must have stopped answering."""

BACK_WITHIN = 60.0
"""Seconds after `up` within which it must answer again: a broker loads its logs first."""

COMMAND_WITHIN = 60.0
"""Seconds that `down` or `up` may take."""

POLL = 0.1

STALLS = 2.0
"""No batch may have been committed for this many times the median duration of a batch: less could be one long batch."""


@dataclass(frozen=True, slots=True)
class ServiceOutage(Fault):
    """Proof: the service answered before `down` and not after it, nor at the end of the outage; then a batch hung
    between its plan and its commit, and no commit had come for longer than batches take.

    A service that keeps answering (`down` did nothing, or something else started it again) is a miss. The recovery is
    measured from the moment at which the service answers again.
    """

    aftermath: ClassVar[Aftermath] = Aftermath.MAY_END
    event: ClassVar[str] = "an outage of its broker or its database"
    needs_outage: ClassVar[bool] = True

    def require(self, stream: str, declared: StreamSpec, fault: FaultSpec) -> None:
        """A folder needs no service."""
        part = _outage(fault).service
        given = declared.source if part is OutageService.SOURCE else declared.sink
        if given.SERVICE is None:
            raise DrillAborted(
                f"service_outage is not applicable: the {part} of {stream} is of the kind {given.kind}, "
                "which needs no service",
                expected=f"a {part} of a kind that a broker or a database serves",
                where=f"the drill of {stream}",
                next_step="correct `fault.outage.service`, or drill this stream with `kill_driver`",
            )

    def undo(self, context: FaultContext) -> str:
        """Start the service again and check that it answers. Raises DrillError if it does not."""
        outage = _outage(context.spec)
        done = context.services.run(outage.up, within=COMMAND_WITHIN)
        if done.status != 0:
            raise _not_back(outage, f"`up` {_ended(done)}")
        back = _await_status(context, outage, answers=True, within=BACK_WITHIN)
        if not back.answers:
            raise _not_back(outage, f"{back.name} does not answer {BACK_WITHIN:.0f} s after `up`: {back.detail}")
        return f"{back.name} is back"

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        outage = _outage(context.spec)
        before = context.services.probe(context.fork, outage.service)
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
        moment = context.clock.now()
        return Strike(
            moment=moment,
            message=f"{before.name} was unavailable for {moment - effect['down_at']:.1f} s",
            evidence={"service": before.name, **effect, "back_at": moment},
        )

    def _outlast(
        self, context: FaultContext, outage: OutageSpec, usual: float | None, deadline: float
    ) -> dict[str, Any] | str:
        """Stop the service until the outage has lasted and had an effect, or time is up. Text: why it failed."""
        clock, checkpoint = context.clock, context.checkpoint
        down_at = clock.now()
        done = context.services.run(outage.down, within=COMMAND_WITHIN)
        if done.status != 0:
            return f"`down` {_ended(done)}"
        gone = _await_status(context, outage, answers=False, within=GONE_WITHIN)
        if gone.answers:
            return f"{gone.name} still answers {GONE_WITHIN:.0f} s after `down`"
        gone_at = still_since = clock.now()
        position = checkpoint.position(context.fork)
        while clock.now() < gone_at + outage.lasts or (
            clock.now() < deadline and clock.now() - still_since < STALLS * (usual or 0.0)
        ):
            clock.sleep(POLL)
            now_at = checkpoint.position(context.fork)
            if now_at.committed != position.committed:
                still_since = clock.now()
            position = now_at
        last = context.services.probe(context.fork, outage.service)
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
            "hung": position.gap > 0,
            "still_seconds": clock.now() - still_since,
            "batch_seconds": usual,
        }

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        return prove_as_observed(context, strike, _judge)


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


def _outage(spec: FaultSpec) -> OutageSpec:
    if spec.outage is None:
        raise DrillError("the fault has no outage", expected="`fault.outage`", next_step="run `streamwarden validate`")
    return spec.outage


def _usual(context: FaultContext) -> float | None:
    """Median seconds from a batch's plan to its commit. The first batch, of a cold driver, counts only if there is no
    other."""
    durations = [
        batch.committed_at - batch.planned_at
        for batch in context.checkpoint.batches(context.fork)
        if batch.planned_at is not None and batch.committed_at is not None
    ]
    return statistics.median(durations[1:] or durations) if durations else None


def _await_status(context: FaultContext, outage: OutageSpec, *, answers: bool, within: float) -> ServiceStatus:
    """The status of the service once it answers (or stops answering), or its last status when the time is up."""
    last: list[ServiceStatus] = []

    def probe() -> ServiceStatus | None:
        last[:] = [context.services.probe(context.fork, outage.service)]
        return last[0] if last[0].answers is answers else None

    wait_for(probe, clock=context.clock, deadline=context.clock.now() + within, every=POLL)
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
