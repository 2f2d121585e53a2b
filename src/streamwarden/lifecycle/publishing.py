"""When the progress of a stream is published, and what the event says. Pure.

An event is written down as pending before Airflow gets it, together with the run that publishes it. The next run asks
Airflow how that run ended: Airflow keeps an event in the transaction that ends its task well, so a run that succeeded
has published its events, and any other has published none. So no event is lost, and none is sent twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from streamwarden.stream.publish import PublishSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The last batch that an event covers. Times are Unix seconds.

    Args:
        stream: a stream, or `STREAM/QUERY`.
        batch_at: when the batch was committed.
        published_at: when the event was made.
        run: the DAG run that publishes it.
        pending: it is not known whether that run succeeded.
    """

    stream: str
    query_id: str
    batch_id: int
    batch_at: float
    published_at: float
    run: str
    pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatches:
    """The committed batches since a publication, or all that are known.

    Args:
        query_id, batch_id, at, watermark: of the newest one; times are Unix seconds.
        batches: how many; rows: what they read, as far as their reports are known.
        unreported: how many of them have no report, so that their rows are not known.
    """

    query_id: str
    batch_id: int
    at: float
    watermark: float | None
    batches: int
    rows: int
    unreported: int


class Ending(Enum):
    """How the run of a pending publication ended, as Airflow knows it."""

    PUBLISHED = "published"
    LOST = "lost"
    OPEN = "open"  # it still runs


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressEvent:
    """Content of an asset event of a stream or a query."""

    publication: Publication
    extra: Mapping[str, Any]


def is_due(policy: PublishSpec, last: Publication | None, new: NewBatches | None, now: float) -> bool:
    """Whether an event about `new` is due; never without a new batch. The first by time is due at once."""
    if new is None or new.batches == 0:
        return False
    if policy.batches is not None:
        return new.batches >= policy.batches
    return policy.every is not None and (last is None or now - last.published_at >= policy.every)


def event(stream: str, last: Publication | None, new: NewBatches, now: float, run: str) -> ProgressEvent:
    """The event about the batches since `last`."""
    publication = Publication(
        stream=stream,
        query_id=new.query_id,
        batch_id=new.batch_id,
        batch_at=new.at,
        published_at=now,
        run=run,
        pending=True,
    )
    extra = {
        "stream": stream,
        "query_id": new.query_id,
        "batch_id": new.batch_id,
        "after_batch_id": last.batch_id if last is not None and last.query_id == new.query_id else None,
        "committed_at": _iso(new.at),
        "watermark": None if new.watermark is None else _iso(new.watermark),
        "batches": new.batches,
        "rows": new.rows,
        "unreported_batches": new.unreported,
    }
    return ProgressEvent(publication=publication, extra=extra)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
