"""Finds the batch that a stream is put back to for a time. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime

from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.plan import Survey, why_not


def batch_at(survey: Survey, at_ms: int, now_ms: int) -> int:
    """The newest committed batch that was planned at that time, Unix milliseconds, or before it.

    Raises CheckpointError if it lies ahead, or before every batch that is still kept; the message says what is.
    """
    planned = {batch: survey.offsets[batch].timestamp_ms for batch in survey.commits & survey.offsets.keys()}
    before = [batch for batch, time_ms in planned.items() if time_ms <= at_ms]
    if before and at_ms <= now_ms:
        return max(before)
    observed = "it lies ahead" if at_ms > now_ms else "no batch is kept that was planned then or before"
    raise CheckpointError(
        f"the stream cannot be put back to {_clock(at_ms)}: {observed}",
        expected=f"a time since one of the batches that are kept: {_kept(survey, planned)}",
        where=survey.checkpoint,
        next_step="name a later time, or restore a savepoint (`streamwarden savepoint list`)"
        if at_ms <= now_ms
        else "name an earlier time",
    )


def _kept(survey: Survey, planned: Mapping[int, int]) -> str:
    """The first and the last batch that the stream can be put back to, with their times."""
    kept = sorted(batch for batch in planned if why_not(survey, batch) is None)
    if not kept:
        return "none"
    ends = dict.fromkeys((kept[0], kept[-1]))
    return " to ".join(f"{batch} ({_clock(planned[batch])})" for batch in ends)


def _clock(unix_ms: int) -> str:
    return f"{datetime.fromtimestamp(unix_ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}Z"
