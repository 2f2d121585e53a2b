"""partitions_added: the topic gets more partitions, and new records arrive in them, while the driver runs.

The copy of the topic holds back the second half of each partition's records. When the fork has read the first half, the
partitions are doubled and the rest of each partition goes to one new partition: records of one key stay in order.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from streamwarden.drills.faults.base import Description, ExpectedEnd, Fault, FaultContext, Proof, Strike
from streamwarden.drills.faults.topic.own_topic import POLL_EVERY, TOPIC, await_all_read, copy_of, parts, require_topic
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsAdded(Fault):
    """Proof: the topic has more partitions than when it was made, and each new one has all records that were held back
    for it. The proof names the first batch that was planned with some of them: the recovery ends with its commit.

    A stream that never plans such a batch does not come back.
    """

    kind: str = "partitions_added"
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.MAY_END
    event: ClassVar[str] = "the addition of partitions to its topic"
    proof: ClassVar[str] = (
        "The topic's partitions before and after; the new ones hold every record meant for them; the first "
        "batch that reads from them."
    )
    recovery: ClassVar[str] = "That batch; if the driver ends at it, it is started again, as supervision does."
    description: ClassVar[Description] = Description(
        does="Adds partitions to the fork's topic, and records to them, while the driver runs.",
        promise="The next batch reads the new partitions from their first record.",
        seen="The output was right, and each record was read.",
        next_step="Nothing. If the driver ends, supervision starts it again.",
    )
    feed: ClassVar[Feed] = Feed.GROWING

    def require(self, stream: str, declared: StreamSpec) -> None:
        require_topic(self, stream, declared)

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        if len(context.ports[TOPIC].lags(context.fork)) == len(copy_of(context).partitions):
            missed = await_all_read(context, deadline=deadline)
            if missed is not None:
                return Strike(moment=None, message=missed)
            moment = context.mark()
        elif context.marked_at is not None:  # its process was killed: what arrived since then belongs to this strike
            moment = context.marked_at
        else:
            return Strike(moment=None, message="an earlier attempt had already added the partitions")
        context.ports[TOPIC].grow(context.fork)
        new = _new_partitions(context)
        context.wait_until(
            lambda: context.ports[TOPIC].first_reach(context.fork, new) is not None or not context.observe().alive,
            deadline=deadline,
            every=POLL_EVERY,
        )
        return Strike(moment=moment, message=f"{len(new)} partitions were added")

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        copied, view = copy_of(context), context.observe()
        before, lags = len(copied.partitions), context.ports[TOPIC].lags(context.fork)
        new = [lag for lag in lags if lag.partition >= before]
        whole = [lag.last for lag in new] == [partition.held for partition in copied.partitions]
        batch = context.ports[TOPIC].first_reach(context.fork, _new_partitions(context)) if new else None
        position = context.ports.checkpoint.position(context.fork)
        reached = (
            "no batch reads from them yet" if batch is None else f"batch {batch} is the first that reads from them"
        )
        detail = f": {strike.message}" if strike else ""
        if not new:
            message = f"the topic has {before} partitions, as before{detail}"
        elif not whole:
            sent = sum(lag.last for lag in new)
            message = f"the new partitions have {sent:,} of {copied.held:,} records{detail}"
        else:
            message = f"{before} partitions became {len(lags)}, the new ones with {copied.held:,} records; {reached}"
        evidence = {
            "partitions_before": before,
            "partitions_after": len(lags),
            "first_batch": batch,
            "partitions": parts(lags, copied.topic),
        }
        landed = bool(new) and whole and copied.held > 0
        proof = context.proof(
            strike, view, position, landed=landed, message=message, evidence=evidence, records=copied.records
        )
        return proof if batch is None else replace(proof, planned=batch - 1, committed=batch - 1)


def _new_partitions(context: FaultContext) -> range:
    before = len(copy_of(context).partitions)
    return range(before, 2 * before)
