"""topic_recreated: the topic is deleted and recreated with fewer records than the stream has read from it.

The fork reads its topic to the end, as a stream that keeps up does, and is stopped there at a batch boundary. Its
offsets are fixed then, and the new topic can be made shorter than they are. (A new topic that has grown beyond them
cannot be distinguished from the old one by its offsets.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from streamwarden.drills.faults.base import Description, ExpectedEnd, Fault, FaultContext, Proof, Strike
from streamwarden.drills.faults.topic.own_topic import (
    TOPIC,
    await_all_read,
    copy_of,
    parts,
    require_topic,
    stop_between_batches,
    why_not_between_batches,
)
from streamwarden.drills.ports import Ports
from streamwarden.drills.records.types import ForkView
from streamwarden.health.checks.input.input_lost import CHECK as INPUT_LOST
from streamwarden.lifecycle.failures.causes import TOPIC_RECREATED
from streamwarden.lifecycle.failures.failure_patterns import Cause
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.stream.spec import StreamSpec

SHARE = 10
"""One in so many of the records that the fork has read from a partition is missing in the new topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecreated(Fault):
    """Proof: the driver stopped with every planned batch committed, and each partition that it read holds fewer records
    than it read.
    """

    kind: str = "topic_recreated"
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.REFUSES
    event: ClassVar[str] = "the deletion of its topic"
    proof: ClassVar[str] = "The driver stopped between two batches; each partition holds less than was read from it."
    recovery: ClassVar[str] = "The stream must fail with an error that names the cause; then a new checkpoint path."
    feed: ClassVar[Feed] = Feed.COPY
    cause: ClassVar[Cause] = TOPIC_RECREATED
    check: ClassVar[str] = INPUT_LOST.name
    description: ClassVar[Description] = Description(
        does="Deletes the fork's topic and recreates it with fewer records than the stream has read.",
        promise="Spark refuses to go on if the topic ends before the stream's offsets. If the new topic has grown "
        "beyond them, Spark reads on from there without an error.",
        seen="The stream refused, and the check `input_lost` named the recreated partitions. With a new checkpoint "
        "path and a new output everything was right.",
        next_step=TOPIC_RECREATED.advice,
    )

    def require(self, stream: str, declared: StreamSpec) -> None:
        require_topic(self, stream, declared)

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        missed = await_all_read(context, deadline=deadline) or stop_between_batches(
            context, why="the topic is to be recreated", deadline=deadline
        )
        if missed is not None:
            return Strike(moment=None, message=missed)
        leave = {
            lag.partition: max(0, lag.committed - max(1, lag.committed // SHARE))
            for lag in context.ports[TOPIC].lags(context.fork)
        }
        moment = context.mark()
        context.ports[TOPIC].remake(context.fork, leave)
        return Strike(moment=moment, message=f"the topic was recreated with {sum(leave.values()):,} records")

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        copied, view, lags = copy_of(context), context.observe(), context.ports[TOPIC].lags(context.fork)
        position, missed = context.ports.checkpoint.position(context.fork), why_not_between_batches(context)
        read = [lag for lag in lags if lag.committed]
        shorter = [lag for lag in read if lag.rewound]
        records = sum(lag.last for lag in lags)
        if missed is not None:
            message = missed
        elif not read or len(shorter) < len(read):
            message = f"{len(read) - len(shorter)} of {len(read)} partitions still hold what was read from them" + (
                f": {strike.message}" if strike else ""
            )
        else:
            message = (
                f"the topic was recreated: it has {records:,} records, and "
                f"{sum(lag.committed for lag in lags):,} were read from the old one"
            )
        landed = missed is None and bool(read) and len(shorter) == len(read) and records > 0
        evidence = {
            "partitions": parts(lags, copied.topic),
            "made_anew": [f"{copied.topic}-{lag.partition}" for lag in shorter],
        }
        return context.proof(strike, view, position, landed=landed, message=message, evidence=evidence, records=records)

    def unreported(self, proof: Proof, evidence: Mapping[str, Any]) -> str | None:
        """Every partition that holds less than was read has to be named."""
        recreated, reported = proof.evidence["made_anew"], list(evidence.get("made_anew", ()))
        if sorted(reported) == sorted(recreated):
            return None
        return f"it reports {reported}, but the recreated partitions are {recreated}"

    def remediate(self, run_id: str, fork: ForkView, ports: Ports) -> ForkView:
        """A new checkpoint path and a new output: the manifest or batch table of the old one has the old batches."""
        return ports.forks.renew(run_id, fork)
