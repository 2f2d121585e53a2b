"""retention_passed: records that no batch has read are removed from the topic, while the stream is down.

The driver is stopped at a batch boundary first. In production this happens to a stream that is down for longer than the
retention. A running driver may also have fetched the removed records already and would read them all the same: then it
would be unknown which records are lost. The fault removes the records before an offset (Kafka's DeleteRecords), which
moves the oldest offset of a partition, as the broker does when a retention has passed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, ClassVar

from streamwarden.checkpoint.topics import TopicRange
from streamwarden.drills.faults.base import Description, ExpectedEnd, Fault, FaultContext, Proof, Strike
from streamwarden.drills.faults.topic.own_topic import (
    TOPIC,
    copy_of,
    parts,
    require_topic,
    stop_between_batches,
    why_not_between_batches,
)
from streamwarden.drills.ports import Ports
from streamwarden.drills.records.types import ForkView
from streamwarden.health.checks.input.input_lost import CHECK as INPUT_LOST
from streamwarden.lifecycle.failures.causes import LOST_INPUT
from streamwarden.lifecycle.failures.failure_patterns import Cause
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.stream.spec import StreamSpec

SHARE = 4
"""One in so many of a partition's unread records is removed: the rest is left to read."""

OPTION = "failOnDataLoss"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPassed(Fault):
    """Proof: the driver stopped with every planned batch committed, and the oldest offsets of the topic lie beyond
    those of the checkpoint. The records between them are lost; the proof lists them by partition.
    """

    kind: str = "retention_passed"
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.REFUSES
    event: ClassVar[str] = "the expiry of records that it had not read"
    proof: ClassVar[str] = (
        "The driver stopped between two batches; the topic's oldest offsets are beyond the checkpoint's."
    )
    recovery: ClassVar[str] = (
        'The stream must fail with an error that names the cause; then `failOnDataLoss: "false"` for one start.'
    )
    feed: ClassVar[Feed] = Feed.COPY
    cause: ClassVar[Cause] = LOST_INPUT
    check: ClassVar[str] = INPUT_LOST.name
    description: ClassVar[Description] = Description(
        does="Removes records from the fork's topic that no batch has read, while the stream is down.",
        promise="With `failOnDataLoss`, its default, Spark refuses to go on.",
        seen="The stream refused, the check `input_lost` reported the lost records of each partition, and the stream "
        "continued without them after one start with the option `failOnDataLoss: false`.",
        next_step=f"{LOST_INPUT.advice} Then raise the topic's retention.",
    )

    def require(self, stream: str, declared: StreamSpec) -> None:
        require_topic(self, stream, declared)

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        missed = stop_between_batches(context, why="its unread records are to be removed", deadline=deadline)
        if missed is not None:
            return Strike(moment=None, message=missed)
        before = {
            lag.partition: lag.committed + ceil(lag.waiting / SHARE)
            for lag in context.ports[TOPIC].lags(context.fork)
            if lag.waiting
        }
        if not before:
            return Strike(moment=None, message="the fork had read its whole topic: no record was left to remove")
        moment = context.mark()
        context.ports[TOPIC].forget(context.fork, before)
        return Strike(moment=moment, message=f"unread records of {len(before)} partitions were removed")

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        copied, view, lags = copy_of(context), context.observe(), context.ports[TOPIC].lags(context.fork)
        position, missed = context.ports.checkpoint.position(context.fork), why_not_between_batches(context)
        lost = tuple(TopicRange(copied.topic, lag.partition, lag.committed, lag.first) for lag in lags if lag.lost)
        gone, left = sum(place.end - place.start for place in lost), sum(lag.waiting for lag in lags)
        if missed is not None:
            message = missed
        elif not lost:
            message = "every unread record is still there" + (f": {strike.message}" if strike else "")
        elif not left:
            message = f"{gone:,} unread records were removed, and none is left to read"
        else:
            ranges = ", ".join(f"partition {place.partition}: {place.end - place.start:,}" for place in lost)
            message = f"{gone:,} records were removed that no batch had read ({ranges}); {left:,} are left to read"
        return context.proof(
            strike,
            view,
            position,
            landed=missed is None and gone > 0 and left > 0,
            message=message,
            evidence={"partitions": parts(lags, copied.topic)},
            lost=lost,
            records=copied.records - gone,
        )

    def unreported(self, proof: Proof, evidence: Mapping[str, Any]) -> str | None:
        """The number of each partition has to be right."""
        lost = {f"{place.topic}-{place.partition}": place.end - place.start for place in proof.lost}
        reported = dict(evidence.get("lost_by_partition", {}))
        return None if reported == lost else f"it reports {reported}, but the lost records are {lost}"

    def remediate(self, run_id: str, fork: ForkView, ports: Ports) -> ForkView:
        """`failOnDataLoss: "false"` in source.options, for one start."""
        source = fork.spec.source
        options = {key: value for key, value in source.options.items() if key.lower() != OPTION.lower()}
        return replace(fork, spec=replace(fork.spec, source=replace(source, options={**options, OPTION: "false"})))
