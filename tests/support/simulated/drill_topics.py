"""The simulated fork's own topic: two partitions, from each of which a batch reads UNIT records.

Its records are those of the world's batches. What was removed from it, or what it lacks since it was recreated, ends a
driver that starts on it, unless its spec says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from streamwarden.checkpoint.topics import TopicRange
from streamwarden.drills.records.types import ForkView
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import PartitionLag
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.failures.causes import LOST_INPUT, TOPIC_RECREATED
from streamwarden.lifecycle.forks.topic_copy import CopiedPartition, CopiedTopic, Feed
from streamwarden.verification.reconciliation import Reconciliation

if TYPE_CHECKING:
    from support.simulated.drill_world import SimulatedDriver, World

UNIT = 20_000
TOPIC = "streamwarden_fork_1_source"
PARTITIONS = (0, 1)


class SimulatedTopic:
    """Implements `SourceTopic`. The attributes up to the blank line are what a test turns."""

    def __init__(self, world: World) -> None:
        self.silent = False  # the stream goes on without what is gone
        self.names_reason = True  # its exit does
        self.curable = False  # its exit says so
        self.counts_wrong = 0  # surplus records that the check reports
        self.check_status = Status.CRITICAL
        self.removes = True  # what is asked to be removed is
        self.sees_partitions = True  # the stream reads of the new ones
        self.driver_dies = False  # when the partitions are added
        self.sent = 1.0  # of the records that were held back
        self.unread = 0  # records that no batch has read, although the logs say so

        self.world = world
        self.feed = Feed.ORIGIN
        self.forks: dict[str, ForkView] = {}
        self.head = self.held = 0  # batches
        self.grown = False
        self.grown_at: float | None = None
        self.first = dict.fromkeys(PARTITIONS, 0)
        self.recreated: Mapping[int, int] | None = None
        self.renewals = 0

    @property
    def bounded(self) -> bool:
        return self.feed is Feed.ORIGIN

    # forks

    def made(self, fork: ForkView, feed: Feed) -> ForkView:
        self.feed, world = feed, self.world
        if self.bounded:
            return fork
        self.head = world.total_batches // 2 if feed is Feed.GROWING else world.total_batches
        self.held = world.total_batches - self.head
        world.total_batches = self.head
        partitions = [
            CopiedPartition(
                partition=number,
                start=100,
                cut=100 + UNIT * self.head,
                end=100 + UNIT * (self.head + self.held),
                records=UNIT * self.head,
                held=UNIT * self.held,
                digest="a" * 64,
                held_digest="b" * 64,
            )
            for number in PARTITIONS
        ]
        copied = CopiedTopic(origin="flights", topic=TOPIC, partitions=tuple(partitions))
        return replace(fork, bounded=False, copied=copied, what="record", unseen=copied.records)

    def renewed(self, fork: ForkView) -> ForkView:
        """The logs are empty, and the topic has as many batches as it now holds records for."""
        assert self.recreated is not None
        world = self.world
        self.renewals += 1
        world.planned.clear()
        world.committed.clear()
        world.total_batches = ceil(max(self.recreated.values()) / UNIT)
        return replace(fork, checkpoint=f"{fork.checkpoint}-renewed", output=f"{fork.output}-renewed")

    # the topic

    def lags(self, fork: ForkView) -> Sequence[PartitionLag]:
        world, lags = self.world, []
        for number in PARTITIONS:
            last = UNIT * self.head if self.recreated is None else self.recreated[number]
            lags.append(self._lag(number, last, 0))
        for number in PARTITIONS if self.grown else ():
            lags.append(self._lag(len(PARTITIONS) + number, int(UNIT * self.held * self.sent), self.head))
        assert fork.copied is not None, world
        return lags

    def _lag(self, number: int, last: int, before: int) -> PartitionLag:
        read = [UNIT * max(0, len(log) - before) for log in (self.world.planned, self.world.committed)]
        # A topic that was recreated holds less than the old checkpoint says; otherwise no batch reaches beyond its end.
        planned, committed = (
            read if self.recreated is not None and not self.renewals else (min(each, last) for each in read)
        )
        first = min(self.first.get(number, 0), last)
        return PartitionLag(partition=number, planned=planned, committed=committed, first=first, last=last)

    def first_reach(self, fork: ForkView, partitions: Collection[int]) -> int | None:
        return min((batch for batch in self.world.planned if batch >= self.head), default=None) if self.grown else None

    def grow(self, fork: ForkView) -> None:
        world = self.world
        world._maybe_die("before_grow")
        if not self.grown:
            self.grown, self.grown_at = True, world.time
            world.total_batches += self.held if self.sees_partitions else 0
            for driver in world.drivers.values():
                if driver.exit is None:
                    driver.doomed = self.driver_dies
                    driver.next_event = world.time + 0.1
        world._maybe_die("after_grow")

    def forget(self, fork: ForkView, before: Mapping[int, int]) -> None:
        self.world._maybe_die("before_forget")
        if self.removes:
            self.first |= before
        self.world._maybe_die("after_forget")

    def remake(self, fork: ForkView, leave: Mapping[int, int]) -> None:
        self.world._maybe_die("before_remake")
        if self.removes:
            self.recreated = leave
        self.world._maybe_die("after_remake")

    # what the stream makes of it

    def refuses(self, driver: SimulatedDriver) -> bool:
        """Whether the driver ends because of what is gone."""
        fork = self.forks[driver.record.driver_id]
        options = fork.spec.source.options
        gone = any(lag.lost or lag.rewound for lag in self.lags(fork)) if fork.copied else False
        if not gone or self.silent or options.get("failOnDataLoss") == "false":
            return False
        cause = LOST_INPUT if self.recreated is None else TOPIC_RECREATED
        self.world._end(
            driver,
            ExitKind.FAILED,
            error_class="KAFKA_DATA_LOSS.SOMEHOW",
            message="Some data may have been lost",
            curable=self.curable,
            cause=cause.code if self.names_reason else None,
            next_step=cause.next_step if self.names_reason else "read driver.log; a restart repeats the batch",
        )
        return True

    def verdicts(self, fork: ForkView) -> list[Verdict]:
        """What the check input_lost says."""
        if self.bounded:
            return []
        lags = self.lags(fork)
        lost = {f"{TOPIC}-{lag.partition}": lag.lost + self.counts_wrong for lag in lags if lag.lost}
        recreated = [f"{TOPIC}-{lag.partition}" for lag in lags if lag.rewound][self.counts_wrong :]
        return [
            Verdict(
                stream=fork.stream,
                check="input_lost",
                status=self.check_status if lost or recreated else Status.OK,
                at=self.world.time,
                reason=f"{sum(lost.values()):,} records went"
                if lost
                else f"{len(recreated)} partitions were recreated",
                evidence={"lost_by_partition": lost, "made_anew": recreated},
            )
        ]

    def reconciled(self, found: Reconciliation, lost: Sequence[TopicRange]) -> Reconciliation:
        """Over the records that there are."""
        if self.bounded:
            return found
        (fork, *_) = self.forks.values()
        records = sum(lag.last for lag in self.lags(fork)) - sum(each.end - each.start for each in lost)
        return replace(found, records=records - self.unread)
