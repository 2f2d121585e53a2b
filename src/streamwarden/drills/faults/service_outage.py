"""service_outage: the broker or the database that a stream lives on is taken away for a while and brought back.

By the two commands of the drill's file: a drill ends no server by itself. `up` runs whatever happens in between, and
once more when the drill is healed if the process that ran `down` did not live to run it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from streamwarden.drills.faults.base import Aftermath, FaultContext, Proof, Strike, prove_as_seen
from streamwarden.drills.ports import CommandResult, ServiceStatus
from streamwarden.drills.spec import FaultSpec, OutageService, OutageSpec
from streamwarden.drills.waiting import wait_for
from streamwarden.errors import DrillAborted, DrillError

GONE_WITHIN = 15.0
"""Seconds after `down` within which the service must have stopped answering."""

BACK_WITHIN = 60.0
"""Seconds after `up` within which it must answer again: a broker loads its logs first."""

COMMAND_WITHIN = 60.0
"""Seconds that `down` or `up` may take."""

POLL = 0.1

STALLS = 2.0
"""Commits must have stood still for this many times the median duration of a batch: less could be one long batch."""

_BEHIND = {OutageService.SOURCE: ("source", ("kafka",)), OutageService.SINK: ("sink", ("kafka", "postgresql"))}
"""Which part of a stream has a service behind it, and of which kinds that part may be."""


@dataclass(frozen=True, slots=True)
class ServiceOutage:
    """Proof: the service answered before `down` and not after it, nor at the end of the outage; then a batch hung
    between its plan and its commit, and no commit had come for longer than batches take.

    A service that answers all the time (`down` did nothing, or something else started it again) is a miss. The recovery
    counts from the moment at which the service answers again.
    """

    aftermath: ClassVar[Aftermath] = Aftermath.MAY_END

    def require(self, stream: str, declared: Mapping[str, Any], fault: FaultSpec) -> None:
        """A folder has no service behind it."""
        part, kinds = _BEHIND[_outage(fault).service]
        given = str(declared[part]["kind"])
        if given not in kinds:
            raise DrillAborted(
                f"service_outage is not applicable: the {part} of {stream} is of the kind {given}, "
                "which no service stands behind",
                expected=f"{part}.kind {' or '.join(kinds)}",
                where=f"the drill of {stream}",
                next_step="correct `fault.outage.service`, or drill this stream with `kill_driver`",
            )

    def undo(self, context: FaultContext) -> str:
        """Bring the service back and see that it answers. Raises DrillError if it does not."""
        outage = _outage(context.spec)
        done = context.services.run(outage.up, within=COMMAND_WITHIN)
        if done.status != 0:
            raise _not_back(outage, f"`up` {_ended(done)}")
        back = _await_sighting(context, outage, answers=True, within=BACK_WITHIN)
        if not back.answers:
            raise _not_back(outage, f"{back.name} does not answer {BACK_WITHIN:.0f} s after `up`: {back.said}")
        return f"{back.name} is back"

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        outage = _outage(context.spec)
        before = context.services.look(context.fork, outage.service)
        if not before.answers:
            return Strike(moment=None, message=f"{before.name} did not answer before the fault: {before.said}")
        if not context.observe().alive:
            return Strike(moment=None, message="the driver's process was already gone")
        usual = _usual(context)
        try:
            seen = self._away(context, outage, usual, deadline)
        finally:
            self.undo(context)  # and what is raised here tells more than what was raised there
        if isinstance(seen, str):
            return Strike(moment=None, message=seen)
        moment = context.clock.now()
        return Strike(
            moment=moment,
            message=f"{before.name} was away for {moment - seen['down_at']:.1f} s",
            evidence={"service": before.name, **seen, "back_at": moment},
        )

    def _away(
        self, context: FaultContext, outage: OutageSpec, usual: float | None, deadline: float
    ) -> dict[str, Any] | str:
        """Take the service away and watch until the outage is over and felt, or time is up. Text: why it was none."""
        clock, checkpoint = context.clock, context.checkpoint
        down_at = clock.now()
        done = context.services.run(outage.down, within=COMMAND_WITHIN)
        if done.status != 0:
            return f"`down` {_ended(done)}"
        gone = _await_sighting(context, outage, answers=False, within=GONE_WITHIN)
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
        last = context.services.look(context.fork, outage.service)
        if last.answers:
            return f"{last.name} came back before `up`: something else started it"
        return {
            "down": list(outage.down),
            "up": list(outage.up),
            "down_at": down_at,
            "gone_at": gone_at,
            "said": gone.said,
            "planned": position.planned,
            "committed": position.committed,
            "hung": position.gap > 0,
            "still_seconds": clock.now() - still_since,
            "batch_seconds": usual,
        }

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        return prove_as_seen(context, strike, _judge)


def _judge(strike: Strike) -> tuple[bool, str]:
    seen = strike.evidence
    usual = seen["batch_seconds"]
    if not seen["hung"]:
        return False, f"{strike.message}, but no batch waited for it: batch {seen['committed']} was committed"
    still = f"{seen['still_seconds']:.1f} s"
    if usual is None or seen["still_seconds"] < STALLS * usual:
        takes = f"{usual:.1f} s" if usual is not None else "a time not known"
        return False, f"{strike.message}, but commits stood still for {still} only, and a batch takes {takes}"
    return True, (
        f"{strike.message}: batch {seen['planned']} hung, and no batch was committed for {still}, "
        f"where one takes {usual:.1f} s"
    )


def _outage(spec: FaultSpec) -> OutageSpec:
    if spec.outage is None:
        raise DrillError("the fault has no outage", expected="`fault.outage`", next_step="run `streamwarden validate`")
    return spec.outage


def _usual(context: FaultContext) -> float | None:
    """Median seconds from a batch's plan to its commit; the first batch, of a cold driver, counts only if it is all."""
    durations = [
        batch.committed_at - batch.planned_at
        for batch in context.checkpoint.batches(context.fork)
        if batch.planned_at is not None and batch.committed_at is not None
    ]
    return statistics.median(durations[1:] or durations) if durations else None


def _await_sighting(context: FaultContext, outage: OutageSpec, *, answers: bool, within: float) -> ServiceStatus:
    """The service as it is once it answers (or does not), or as it was last when the time was up."""
    last: list[ServiceStatus] = []

    def look() -> ServiceStatus | None:
        last[:] = [context.services.look(context.fork, outage.service)]
        return last[0] if last[0].answers is answers else None

    wait_for(look, clock=context.clock, deadline=context.clock.now() + within, every=POLL)
    return last[0]


def _ended(done: CommandResult) -> str:
    how = f"did not end within {COMMAND_WITHIN:.0f} s" if done.status is None else f"ended with status {done.status}"
    said = " ".join(done.output.split())
    return f"{how}: {said}" if said else how


def _not_back(outage: OutageSpec, why: str) -> DrillError:
    return DrillError(
        f"the service was not brought back: {why}",
        expected="status 0, and a service that answers",
        where=" ".join(outage.up),
        next_step=f"bring the {outage.service} back by hand, now; then correct `fault.outage.up`",
    )
