"""sink_failing: the folder that the sink writes to takes no files for a while, until the driver has failed n times.

A plain file stands in the place of the folder, which is the same failure for every user: permissions do not bind root.
The driver is paused (SIGSTOP) while the two are exchanged, so that it cannot create the folder in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Protocol

from streamwarden.drills.faults.base import (
    Description,
    ExpectedEnd,
    FaultContext,
    LiveUse,
    ObservedFault,
    Proof,
    Strike,
    describe_exit,
    require_this_host,
)
from streamwarden.drills.faults.driver.kill_driver import FITTING, await_running_batch
from streamwarden.drills.ports import Port
from streamwarden.drills.records.sections import require
from streamwarden.drills.records.types import DriverView, ForkView
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.stream.spec import StreamSpec

MOST_TIMES: Final = 10
"""Failures, or slow batches, of one strike."""


class SinkFolder(Protocol):
    """Makes the folder of a sink fail. The driver must be paused meanwhile."""

    def block(self, fork: ForkView) -> None:
        """Put a plain file in the place of the sink's folder."""

    def unblock(self, fork: ForkView) -> bool:
        """Put the folder back; False: it is in its place. May run again."""


FOLDER: Final = Port[SinkFolder]("the sink's folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFailing(ObservedFault):
    """Proof: the driver failed while the folder took no files, and so did each driver that was started after it,
    `times` in all; none committed a batch that was not in the sink's manifest before. The recovery is measured from the
    moment at which the folder takes files again."""

    kind: str = "sink_failing"
    times: int | None = None
    """how many drivers fail one after the other; null: 1"""
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.MAY_END
    event: ClassVar[str] = "a failure of the folder that it writes to"
    proof: ClassVar[str] = "`times` drivers failed while the folder was away."
    recovery: ClassVar[str] = "The start that follows, as by supervision."
    live: ClassVar[LiveUse] = LiveUse(allowed=False, reason="it moves the output of the stream away from its readers")
    description: ClassVar[Description] = Description(
        does="Puts a plain file in the place of the folder that the sink writes to, until the driver has failed, "
        "and each driver that is started after it, `fault.times` in all (1 by default). Then puts the folder back.",
        promise="The batch fails, and nothing of it is in the manifest. A restart runs it again.",
        seen="The driver failed, and so did its successor while the folder was away. The start after that cured it, "
        "and the output was right.",
        next_step="Repair the folder: its disk, its mount, its permissions. Supervision restarts the stream within its "
        "budget; after that run `streamwarden start NAME`.",
    )

    def __post_init__(self) -> None:
        ObservedFault.__post_init__(self)
        require(1 <= self.count <= MOST_TIMES, "times", self.times, f"from 1 to {MOST_TIMES}")

    @property
    def count(self) -> int:
        """Number of drivers that fail."""
        return 1 if self.times is None else self.times

    def require(self, stream: str, declared: StreamSpec) -> None:
        """A service fails otherwise: `service_outage`."""
        if not declared.sink.MANIFEST:
            instead = "service_outage" if declared.sink.SERVICE in FITTING else "kill_driver"
            raise self.wrong_sink(stream, declared, "folder", expected="a sink that writes files", instead=instead)

    def undo(self, context: FaultContext) -> str | None:
        """Restore the folder and resume the driver if it is still paused."""
        back = context.ports[FOLDER].unblock(context.fork)
        context.ports.drivers.thaw(context.driver_id)
        return "the sink's folder is back" if back else None

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        require_this_host(self, context, "exchanges of folders")
        batch = await_running_batch(context, deadline=deadline)
        if batch is None or not context.ports.drivers.freeze(context.driver_id):
            return Strike(moment=None, message="no batch was caught between its plan and its commit")
        blocked_at = context.ports.clock.now()
        try:
            context.ports[FOLDER].block(context.fork)
            before = context.ports.checkpoint.position(context.fork)
            context.ports.drivers.thaw(context.driver_id)
            views = _await_failures(context, self.count, deadline)
        finally:
            self.undo(context)
        position = context.ports.checkpoint.position(context.fork)
        moment = context.ports.clock.now()
        return Strike(
            moment=moment,
            message=f"the sink's folder took no files for {moment - blocked_at:.1f} s, from batch {before.planned} on",
            batch=before.planned,
            evidence={
                **describe_exit(views[-1]),
                "driver_id": views[-1].record.driver_id,
                "failures": [describe_exit(view) for view in views],
                "times": self.count,
                "planned": position.planned,
                "committed": position.committed,
                "committed_before": before.committed,
            },
        )

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        """The struck driver is the last one that failed."""
        proof = ObservedFault.prove(self, context, strike)
        return replace(proof, driver_id=proof.evidence.get("driver_id", proof.driver_id))

    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        evidence = strike.evidence
        before = -1 if evidence["committed_before"] is None else evidence["committed_before"]
        failures, times = len(evidence["failures"]), evidence["times"]
        which = "the driver" if times == 1 else f"driver {failures} of {times}"
        if evidence["exit"] != ExitKind.FAILED:
            return (
                False,
                f"{strike.message}, but {which} did not fail: {evidence['exit'] or 'it runs on'} {evidence['message']}",
            )
        if (evidence["committed"] or 0) > before + 1:
            return False, f"{strike.message}, but batches were committed up to {evidence['committed']}"
        who = "the driver" if times == 1 else f"{times} drivers"
        return True, f"{strike.message}: {who} failed: {evidence['message'].partition(chr(10))[0]}"


def _await_failures(context: FaultContext, times: int, deadline: float) -> Sequence[DriverView]:
    """The drivers as they ended, started one after the other as supervision does; the last may not have ended in
    time, or not have failed."""
    views = [context.await_exit(deadline=deadline)]
    while len(views) < times and _has_failed(views[-1]):
        record = context.ports.drivers.start(context.fork, context.run_id)
        views.append(replace(context, driver_id=record.driver_id).await_exit(deadline=deadline))
    return views


def _has_failed(view: DriverView) -> bool:
    return view.exit is not None and view.exit.kind is ExitKind.FAILED
