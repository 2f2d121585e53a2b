"""topic_recreated: the topic is deleted and made anew, with fewer records than the stream has read of it.

The fork reads its topic to the end, as a stream that keeps up has, and is stopped there at a batch boundary: its
offsets are fixed then, and the new topic can be made shorter than they are. (One that has grown beyond them nobody can
tell from the old one by its offsets.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from streamwarden.drills.faults.base import Aftermath, FaultContext, Proof, Strike, describe_exit, moment_of
from streamwarden.drills.faults.own_topic import (
    await_all_read,
    copy_of,
    parts,
    require_topic,
    stop_between_batches,
    why_not_between_batches,
)
from streamwarden.drills.ports import Forks, ForkView
from streamwarden.drills.spec import FaultKind, FaultSpec
from streamwarden.lifecycle.causes import TOPIC_RECREATED
from streamwarden.lifecycle.signs import Cause

SHARE = 10
"""Of the records of a partition that the fork has read, one in so many is not in the new topic."""


@dataclass(frozen=True, slots=True)
class TopicRecreated:
    """Proof: the driver stopped with every planned batch committed, and each partition that it has read of holds less
    than it has read.
    """

    aftermath: ClassVar[Aftermath] = Aftermath.REFUSES
    cause: ClassVar[Cause] = TOPIC_RECREATED

    def require(self, stream: str, declared: Mapping[str, Any], fault: FaultSpec) -> None:
        require_topic(FaultKind.TOPIC_RECREATED, stream, declared)

    def undo(self, context: FaultContext) -> str | None:
        """The topic goes as a whole when the drill is healed."""
        return None

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        missed = await_all_read(context, deadline=deadline) or stop_between_batches(
            context, why="the topic is to be made anew", deadline=deadline
        )
        if missed is not None:
            return Strike(moment=None, message=missed)
        leave = {
            lag.partition: max(0, lag.committed - max(1, lag.committed // SHARE))
            for lag in context.source.lags(context.fork)
        }
        moment = context.mark()
        context.source.remake(context.fork, leave)
        return Strike(moment=moment, message=f"the topic was made anew with {sum(leave.values()):,} records")

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        copied, view, lags = copy_of(context), context.observe(), context.source.lags(context.fork)
        position, missed = context.checkpoint.position(context.fork), why_not_between_batches(context)
        read = [lag for lag in lags if lag.committed]
        shorter = [lag for lag in read if lag.rewound]
        records = sum(lag.last for lag in lags)
        if missed is not None:
            message = missed
        elif not read or len(shorter) < len(read):
            message = f"{len(read) - len(shorter)} of {len(read)} partitions hold what was read of them" + (
                f": {strike.message}" if strike else ""
            )
        else:
            message = (
                f"the topic was made anew: it has {records:,} records, and "
                f"{sum(lag.committed for lag in lags):,} were read of the old one"
            )
        return Proof(
            landed=missed is None and bool(read) and len(shorter) == len(read) and records > 0,
            driver_id=context.driver_id,
            moment=moment_of(context, view, strike),
            planned=position.planned,
            committed=position.committed,
            message=message,
            evidence={
                **describe_exit(view),
                "partitions": parts(lags, copied.topic),
                "made_anew": [f"{copied.topic}-{lag.partition}" for lag in shorter],
            },
            records=records,
        )

    def untold(self, proof: Mapping[str, Any], evidence: Mapping[str, Any]) -> str | None:
        """Every partition that holds less than was read has to be named."""
        anew, told = proof["evidence"]["made_anew"], list(evidence.get("made_anew", ()))
        return None if sorted(told) == sorted(anew) else f"it tells of {told}, and made anew are {anew}"

    def way_out(self, run_id: str, fork: ForkView, forks: Forks) -> ForkView:
        """A new checkpoint path, and an output of its own: the old one's manifest or ledger knows the old batches."""
        return forks.renew(run_id, fork)
