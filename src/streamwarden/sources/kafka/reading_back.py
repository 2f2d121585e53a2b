"""The records that a finished run read of its topic, fetched again for an oracle."""

from collections.abc import Mapping, Sequence

from streamwarden.adapters.connections import connection
from streamwarden.checkpoint.topics import TopicRange, topic_ranges, without
from streamwarden.errors import CheckpointError, ConfigError, SourceError, VerificationError
from streamwarden.sources.base import FinishedRun, RunInput, unknown_input
from streamwarden.sources.kafka.export import export_copied, export_topic, isolation_of
from streamwarden.sources.kafka.lag import lag_of
from streamwarden.stream.spec import SourceSpec, StreamSpec


def read_back(spec: StreamSpec, run: FinishedRun) -> RunInput:
    """See `Source.read_back`. The input is that of the committed batches, whatever else is in the topic."""
    if run.into is None:
        return RunInput()
    ranges = _committed_ranges(run)
    wanted = {batch: without(parts, run.lost) for batch, parts in ranges.items()}
    known = connection(str(spec.source.connection))
    if run.copied is not None:
        files = export_copied(known, wanted, run.copied, run.into, isolation=isolation_of(spec.source))
    else:
        files = export_topic(known, wanted, run.into)
    return RunInput(
        inputs=[path for paths in files.values() for path in paths],
        files=files,
        problems=tuple(unread(ranges, run.bounded_from or 0, run.owed)),
    )


def unread(ranges: Mapping[int, Sequence[TopicRange]], first: int, owed: int) -> list[str]:
    """Fewer records than there were, as a problem."""
    read = sum(part.end - part.start for batch, parts in ranges.items() if batch >= first for part in parts)
    if read >= owed:
        return []
    return [f"records never read: the batches from {first} on have {read:,} of the {owed:,} that were in the topic"]


def owed(source: SourceSpec, ranges: Sequence[TopicRange]) -> int:
    """Offsets of `ranges` that the topic still keeps, by the broker's own answer.

    Raises VerificationError if the broker does not answer.
    """
    ends = {part.partition: part.end for part in ranges}
    try:
        lags = lag_of(source, ends, ends)
    except (ConfigError, SourceError) as error:
        raise VerificationError.of(error, "it is unknown which records the topic still keeps: ") from error
    return still_owed(ranges, {lag.partition: lag.first for lag in lags})


def still_owed(ranges: Sequence[TopicRange], oldest: Mapping[int, int]) -> int:
    """Offsets of `ranges` that the topic still keeps: the retention may have removed others before the fork's first
    driver read them.

    Args:
        oldest: partition -> the oldest offset that the broker keeps now.
    """
    return sum(max(0, part.end - max(part.start, oldest.get(part.partition, 0))) for part in ranges)


def _committed_ranges(run: FinishedRun) -> dict[int, tuple[TopicRange, ...]]:
    """Committed batch -> ranges of the topic that it read."""
    last = -1 if run.committed is None else run.committed
    try:
        ranges = topic_ranges(run.checkpoint)
    except (CheckpointError, OSError) as error:
        raise unknown_input(run.checkpoint.path, error) from error
    missing = [batch for batch in range(last + 1) if batch not in ranges]
    if missing:
        raise unknown_input(run.checkpoint.path, f"batch {missing[0]} or the one before it is not in offsets/ any more")
    return {batch: parts for batch, parts in ranges.items() if batch <= last}
