"""freeze_driver: the driver is paused in mid-batch until another one has taken over; then it continues.

So does a driver whose host was suspended, or lost the network and came back: it does not know that it was replaced. The
driver and its supervisor process are stopped (SIGSTOP), since a supervisor process that runs would kill the driver. A
second driver is started as another host does, which cannot see the first: it has to wait until the lease has expired.
When it has committed a batch, the first driver gets SIGCONT. It has to notice that it was replaced, and end. Whether it
wrote anything twice is in the output, which the verdict compares.
"""

from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Final

from streamwarden.drills.faults.base import (
    Description,
    ExpectedEnd,
    FaultContext,
    LiveUse,
    ObservedFault,
    Proof,
    Strike,
)
from streamwarden.drills.faults.driver.kill_driver import await_running_batch

ENDS_WITHIN: Final = 60.0
"""Seconds after SIGCONT within which the driver must have ended: it renews its lease every 5 s, and an attempt at an
unavailable store may take some seconds more."""

POLL: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeDriver(ObservedFault):
    """Proof: the driver was paused with a batch planned and not committed; another driver, with a larger fencing
    token, committed that batch meanwhile; then the driver continued. It must not have survived that."""

    kind: str = "freeze_driver"
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.REPLACED
    event: ClassVar[str] = "a standstill of its driver until another one had taken over"
    proof: ClassVar[str] = (
        "It stood still; the other driver has a larger fencing token and committed the batch meanwhile."
    )
    recovery: ClassVar[str] = "That batch, by the other driver; the first one must end."
    live: ClassVar[LiveUse] = LiveUse(
        allowed=False,
        reason="it launches the second driver itself, and only supervision may launch one of a live stream",
    )
    description: ClassVar[Description] = Description(
        does="Stops the driver and its supervisor process (SIGSTOP) in mid-batch. Starts a second driver as another "
        "host does, when the lease has expired. Lets the first one go on (SIGCONT) when the second has committed a "
        "batch.",
        promise="The lease of the first driver is lost: it ends as `fenced`. Until then Spark's log of commits, the "
        "sink's manifest, or the batch table of a database refuses what it writes. A topic takes it, with the event "
        "ids of the first time.",
        seen="On files, a table and a topic: the second driver committed the batch after about a minute. The first one "
        "ended, and the output was right.",
        next_step="Nothing. On one host the supervisor process kills a driver that stands still, before that: see "
        "[Unresponsive](how-to/on-call.md#unresponsive).",
    )

    def undo(self, context: FaultContext) -> str | None:
        return "the driver that stood still goes on" if context.ports.drivers.thaw(context.driver_id) else None

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        batch = await_running_batch(context, deadline=deadline)
        if batch is None:
            return Strike(moment=None, message="no batch was caught between its plan and its commit")
        before = context.observe().record
        moment = context.mark()
        if not context.ports.drivers.freeze(context.driver_id, supervised=False):
            context.ports.drivers.thaw(context.driver_id)
            return Strike(moment=None, message="the driver does not stand still", batch=batch)
        position = context.ports.checkpoint.position(context.fork)
        planned = position.planned
        if position.gap == 0 or planned is None:
            context.ports.drivers.thaw(context.driver_id)
            return Strike(moment=None, message=f"batch {position.committed} was committed by then", batch=batch)
        try:
            successor = context.ports.drivers.take_over(
                context.fork, context.run_id, context.driver_id, deadline=deadline
            )
            redone = successor is not None and context.wait_until(
                lambda: context.ports.checkpoint.is_committed(context.fork, planned), deadline=deadline, every=POLL
            )
        finally:
            stood = context.ports.drivers.thaw(context.driver_id)
        thawed_at = context.ports.clock.now()
        until = thawed_at + ENDS_WITHIN
        lives = not context.wait_until(
            lambda: not context.ports.drivers.is_running(context.driver_id), deadline=until, every=POLL
        )
        if lives:
            context.ports.drivers.kill(context.driver_id)
        return Strike(
            moment=moment,
            message=f"the driver stood still for {thawed_at - moment:.1f} s, from batch {planned} on",
            batch=planned,
            evidence={
                "planned": planned,
                "committed": position.committed,
                "token": before.token,
                "successor": None if successor is None else asdict(successor),
                "redone": redone,
                "stood_still": stood,
                "thawed_at": thawed_at,
                "lived_on": lives,
                "ended_after": None if lives else context.ports.clock.now() - thawed_at,
            },
        )

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        proof = ObservedFault.prove(self, context, strike)
        if proof.landed and proof.evidence["lived_on"]:
            return replace(proof, violation=_LIVED_ON)
        return proof

    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        evidence = strike.evidence
        successor = evidence["successor"]
        if successor is None:
            return False, f"{strike.message}, and its lease had not expired: no other driver took over"
        if not evidence["stood_still"]:
            return False, f"{strike.message}, but it did not stand still until the end of that time"
        if successor["token"] <= evidence["token"]:
            return False, f"{strike.message}, but driver {successor['driver_id']} has no larger fencing token"
        if not evidence["redone"]:
            return False, f"{strike.message}, and driver {successor['driver_id']} did not commit that batch meanwhile"
        end = _LIVED_ON if evidence["lived_on"] else f"it ended {evidence['ended_after']:.1f} s after it went on"
        return True, f"{strike.message}; driver {successor['driver_id']} took over and committed that batch; {end}"


_LIVED_ON: Final = f"the replaced driver still ran {ENDS_WITHIN:.0f} s after it went on"
