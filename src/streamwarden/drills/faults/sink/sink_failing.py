"""sink_failing: the folder that the sink writes to takes no files for a while, until the driver has failed n times.

A plain file stands in the place of the folder, which is the same failure for every user: permissions do not bind root.
The driver stands still (SIGSTOP) while the two are exchanged, so that it cannot create the folder in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from streamwarden.drills.faults.base import (
    Aftermath,
    Description,
    Fault,
    FaultContext,
    LiveUse,
    Proof,
    Strike,
    await_exit,
    describe_exit,
    prove_as_observed,
    require_this_host,
)
from streamwarden.drills.faults.driver.kill_driver import FITTING, await_running_batch
from streamwarden.drills.records.sections import FaultKind, FaultSpec
from streamwarden.drills.records.types import DriverView
from streamwarden.errors import DrillAborted
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True)
class SinkFailing(Fault):
    """Proof: the driver failed while the folder took no files, and so did each driver that was started after it,
    `times` in all; none committed a batch that was not in the sink's manifest before. The recovery is measured from the
    moment at which the folder takes files again."""

    aftermath: ClassVar[Aftermath] = Aftermath.MAY_END
    event: ClassVar[str] = "a failure of the folder that it writes to"
    takes: ClassVar[tuple[str, ...]] = ("times",)
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

    def require(self, stream: str, declared: StreamSpec, fault: FaultSpec) -> None:
        """A service fails otherwise: `service_outage`."""
        if not declared.sink.MANIFEST:
            instead = FaultKind.SERVICE_OUTAGE if declared.sink.SERVICE in FITTING else FaultKind.KILL_DRIVER
            raise DrillAborted(
                f"{fault.kind} is not applicable: the sink of {stream} is of the kind {declared.sink.kind}, which has "
                "no folder",
                expected="a sink that writes files",
                where=f"the drill of {stream}",
                next_step=f"drill this stream with `{instead}`",
            )

    def undo(self, context: FaultContext) -> str | None:
        """The folder is back, and a driver that still stands still goes on."""
        back = context.sink.unblock(context.fork)
        context.drivers.thaw(context.driver_id)
        return "the sink's folder is back" if back else None

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        require_this_host(context, "exchanges of folders")
        batch = await_running_batch(context, deadline=deadline)
        if batch is None or not context.drivers.freeze(context.driver_id):
            return Strike(moment=None, message="no batch was caught between its plan and its commit")
        blocked_at = context.clock.now()
        try:
            context.sink.block(context.fork)
            before = context.checkpoint.position(context.fork)
            context.drivers.thaw(context.driver_id)
            views = _await_failures(context, deadline)
        finally:
            self.undo(context)
        position = context.checkpoint.position(context.fork)
        moment = context.clock.now()
        return Strike(
            moment=moment,
            message=f"the sink's folder took no files for {moment - blocked_at:.1f} s, from batch {before.planned} on",
            batch=before.planned,
            evidence={
                **describe_exit(views[-1]),
                "driver_id": views[-1].record.driver_id,
                "failures": [describe_exit(view) for view in views],
                "times": _times(context),
                "planned": position.planned,
                "committed": position.committed,
                "committed_before": before.committed,
            },
        )

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        """The struck driver is the last one that failed."""
        proof = prove_as_observed(context, strike, _judge)
        return replace(proof, driver_id=proof.evidence.get("driver_id", proof.driver_id))


def _times(context: FaultContext) -> int:
    return context.spec.times or 1


def _await_failures(context: FaultContext, deadline: float) -> Sequence[DriverView]:
    """The drivers as they ended, started one after the other as supervision does; the last may not have ended in
    time, or not have failed."""
    views = [await_exit(context, deadline=deadline)]
    while len(views) < _times(context) and _has_failed(views[-1]):
        record = context.drivers.start(context.fork, context.run_id)
        views.append(await_exit(replace(context, driver_id=record.driver_id), deadline=deadline))
    return views


def _has_failed(view: DriverView) -> bool:
    return view.exit is not None and view.exit.kind is ExitKind.FAILED


def _judge(strike: Strike) -> tuple[bool, str]:
    seen = strike.evidence
    before = -1 if seen["committed_before"] is None else seen["committed_before"]
    failures, times = len(seen["failures"]), seen["times"]
    which = "the driver" if times == 1 else f"driver {failures} of {times}"
    if seen["exit"] != ExitKind.FAILED:
        return False, f"{strike.message}, but {which} did not fail: {seen['exit'] or 'it runs on'} {seen['message']}"
    if (seen["committed"] or 0) > before + 1:
        return False, f"{strike.message}, but batches were committed up to {seen['committed']}"
    who = "the driver" if times == 1 else f"{times} drivers"
    return True, f"{strike.message}: {who} failed: {seen['message'].partition(chr(10))[0]}"
