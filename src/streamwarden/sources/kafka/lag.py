"""The records of a topic that no batch has planned yet: offsets of the checkpoint, compared with the broker's.

Spark commits no offsets of a consumer group, so a broker's own tools know nothing of a stream's lag.
"""

import hashlib
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from streamwarden.adapters.connections import Connection, connection
from streamwarden.adapters.kafka.brokers import kept_offsets, reader, topic_id
from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import all_offsets, log_position
from streamwarden.checkpoint.topics import TopicRange, topic_offsets
from streamwarden.errors import SourceError, SourceUnresponsive
from streamwarden.health.window import PartitionLag, WaitingInput
from streamwarden.lifecycle.forks.fork import BoundedInput
from streamwarden.sources.kafka.export import isolation_of
from streamwarden.stream.spec import SourceSpec, StreamSpec

ANSWER_WITHIN: Final = 5.0
"""Seconds for the offsets and times that are asked of a broker: the health of the other streams waits meanwhile."""

ID_WITHIN: Final = 2.0
"""Seconds for the topic's id, which is asked after the broker has reported those."""

RECENT: Final = 20
"""Batches from which the records of a batch are estimated."""


def waiting_records(spec: StreamSpec, checkpoint: Location) -> WaitingInput | None:
    """The records that wait for `spec`; None before its first batch is planned.

    Raises SourceError if the broker does not answer or has no such topic, ConfigError for a connection that is not
    known, CheckpointError, OSError.
    """
    positions = _positions(checkpoint)
    if not positions:
        return None
    topic = str(spec.source.topic)
    planned = positions[max(positions)]
    batch = log_position(checkpoint).committed
    committed = planned if batch is None else positions.get(batch, planned)
    lags = lag_of(spec.source, _of(topic, planned), _of(topic, committed))
    recent = sorted(positions)[-RECENT - 1 :]
    since = [lag.since for lag in lags if lag.since is not None and lag.waiting]
    return WaitingInput(
        what="record",
        count=sum(lag.waiting for lag in lags),
        since=min(since, default=None),
        planned=sum(_read_between(positions[one], positions[two]) for one, two in pairwise(recent)),
        planned_batches=len(recent) - 1,
        parts={f"{topic}-{lag.partition}": lag.waiting for lag in lags},
        lost={f"{topic}-{lag.partition}": lag.lost for lag in lags if lag.lost},
        rewound=tuple(f"{topic}-{lag.partition}" for lag in lags if lag.rewound),
        partitions={f"{topic}-{lag.partition}": lag for lag in lags},
        topic_id=topic_id(connection(str(spec.source.connection)), topic, within=ID_WITHIN),
    )


def topic_input(spec: StreamSpec, checkpoint: str | None) -> BoundedInput:
    """The records of the topic up to now, for a fork with `checkpoint`; None: it begins with an empty one.

    Raises SourceError if the broker does not answer, has no such topic, or does not keep what the fork has to read;
    ConfigError, CheckpointError, OSError.
    """
    topic = str(spec.source.topic)
    positions = {} if checkpoint is None else _positions(open_path(checkpoint, spec.storage.connection))
    planned = _of(topic, positions[max(positions)]) if positions else {}
    lags = lag_of(spec.source, planned, planned)
    if positions and (gone := sum(lag.lost for lag in lags)):
        raise SourceError(
            f"{gone:,} records that the fork has to read are no longer in the topic",
            expected="a topic that keeps what was read since the batch that is forked",
            where=f"topic {topic}",
            next_step="fork at a later batch (a smaller `rewind`), or raise the topic's retention",
        )
    ranges = "".join(f"{topic}\t{lag.partition}\t{lag.first}\t{lag.last}\n" for lag in lags)
    unseen = sum(lag.waiting for lag in lags)
    return BoundedInput(
        what="record",
        total=sum(lag.last - lag.first for lag in lags),
        unseen=unseen,
        longest_queue=unseen,  # the limit of a batch is that of all partitions together
        digest=hashlib.sha256(ranges.encode()).hexdigest(),
        ranges=tuple(
            TopicRange(topic, lag.partition, max(lag.planned, lag.first), lag.last) for lag in lags if lag.waiting
        ),
    )


def copy_lag(spec: StreamSpec) -> tuple[PartitionLag, ...]:
    """The lag of each partition of the copied topic that a fork reads.

    Raises SourceError if the broker does not answer, or the fork's job reads another topic; ConfigError,
    CheckpointError, OSError.
    """
    topic = str(spec.source.topic)
    place = checkpoint_of(spec)
    positions = _positions(place)
    read = {name for offsets in positions.values() for name, _ in offsets}
    if read - {topic}:
        raise SourceError(
            f"the job reads {', '.join(sorted(read - {topic}))}",
            expected=f"the topic that its stream's spec names, here {topic}",
            where=spec.job,
            next_step="take the topic from spec.source.topic in the job (`read_rows` does), or drill another stream",
        )
    planned = _of(topic, positions[max(positions)]) if positions else {}
    batch = log_position(place).committed
    committed = _of(topic, positions[batch]) if batch in positions else {}
    return lag_of(spec.source, planned, committed)


def first_reach(spec: StreamSpec, partitions: Collection[int]) -> int | None:
    """The first batch that was planned with records of one of these partitions; None if none was yet.

    Raises CheckpointError, OSError.
    """
    return next(
        (
            batch
            for batch, offsets in sorted(_positions(checkpoint_of(spec)).items())
            if any(offset > 0 for (_, partition), offset in offsets.items() if partition in partitions)
        ),
        None,
    )


def lag_of(source: SourceSpec, planned: Mapping[int, int], committed: Mapping[int, int]) -> tuple[PartitionLag, ...]:
    """The lag of each partition of the source's topic, those that no batch knows yet included, by partition.

    Asks with the stream's own isolation level: the client's default ends a partition before the first open transaction,
    Spark's behind the newest record.

    Args:
        planned: partition -> the offset that comes next; committed: the one behind the newest committed batch.

    Raises SourceUnresponsive if the broker does not answer in time; SourceError if it has no such topic; ConfigError.
    """
    from confluent_kafka import KafkaError, KafkaException

    known, topic = connection(str(source.connection)), str(source.topic)
    deadline = time.monotonic() + ANSWER_WITHIN
    problems: list[str] = []
    settings = {"error_cb": lambda error: problems.append(error.str()), "isolation.level": isolation_of(source)}
    silence = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
    consumer = reader(known, "lag", **settings)
    try:
        metadata = consumer.list_topics(topic, timeout=_left(deadline)).topics[topic]
        if metadata.error is not None:
            raise _unknown(known, topic, metadata.error.str(), SourceError)
        lags = {}
        for partition in sorted(metadata.partitions):
            first, last = kept_offsets(consumer, topic, partition, deadline=deadline)
            lags[partition] = PartitionLag(
                partition=partition,
                planned=planned.get(partition, 0),
                committed=committed.get(partition, 0),
                first=first,
                last=last,
            )
        since = _oldest(consumer, topic, lags, deadline)
    except KafkaException as error:
        consumer.poll(0)  # the callback reports why a connection fails; the call itself only that no broker answered
        kind = SourceUnresponsive if error.args[0].code() in silence else SourceError
        raise _unknown(known, topic, problems[0] if problems else error.args[0].str(), kind) from error
    finally:
        consumer.close()
    return tuple(replace(lag, since=since.get(partition)) for partition, lag in lags.items())


def _positions(checkpoint: Location) -> dict[int, dict[tuple[str, int], int]]:
    """Batch -> the offsets that it ends at, of the query's first source."""
    return {
        batch: offsets
        for batch, record in all_offsets(checkpoint).items()
        if record.sources and (offsets := topic_offsets(record.sources[0])) is not None
    }


def _of(topic: str, offsets: Mapping[tuple[str, int], int]) -> dict[int, int]:
    return {partition: offset for (name, partition), offset in offsets.items() if name == topic}


def _oldest(consumer: Any, topic: str, lags: Mapping[int, PartitionLag], deadline: float) -> dict[int, float]:
    """Partition -> Unix seconds of its oldest record that is not committed, for those whose records came in time."""
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, TopicPartition

    wanted = [lag for lag in lags.values() if lag.behind]
    if not wanted:
        return {}
    consumer.assign([TopicPartition(topic, lag.partition, max(lag.committed, lag.first)) for lag in wanted])
    times: dict[int, tuple[int, int]] = {}
    while len(times) < len(wanted) and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is None or message.error() is not None or message.partition() in times:
            continue
        times[message.partition()] = message.timestamp()
        consumer.pause([TopicPartition(topic, message.partition())])
    return {partition: at / 1000 for partition, (kind, at) in times.items() if kind != TIMESTAMP_NOT_AVAILABLE}


def _read_between(before: Mapping[tuple[str, int], int], after: Mapping[tuple[str, int], int]) -> int:
    return sum(max(0, end - before.get(part, 0)) for part, end in after.items())


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def _unknown(known: Connection, topic: str, said: str, kind: type[SourceError]) -> SourceError:
    return kind(
        f"the broker does not report the offsets of the topic: {said}",
        expected=f"an answer within {ANSWER_WITHIN:g} s",
        where=f"topic {topic} at the connection {known.name}",
        next_step="check that the broker runs, that the topic exists, and that the connection's user, password and "
        "certificates let it read",
    )
