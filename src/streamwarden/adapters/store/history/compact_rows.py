"""Reads batches with the compact form of their reports."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from streamwarden.adapters.store.history.compact import expand
from streamwarden.adapters.store.history.merging import announces_another
from streamwarden.adapters.store.tables import batches
from streamwarden.health.window import Batch
from streamwarden.progress import Progress, parse_progress

_IS_COMPACT: Final = batches.c.compact_at == batches.c.started_at

COMPACT: Final = (
    batches.c.query_id,
    batches.c.batch_id,
    batches.c.planned_at,
    batches.c.committed_at,
    batches.c.executed,
    batches.c.run_id,
    sa.case((_IS_COMPACT, batches.c.compact)).label("compact"),
    sa.case((sa.not_(sa.func.coalesce(_IS_COMPACT, sa.false())), batches.c.progress)).label("progress"),
)
"""The columns of a batch with a compact report. The report itself is read if its compact form is missing, because an
older version stored it, or is that of the report before, because an older version replaced that one."""


@cache
def newest_of_stream(limit: int) -> sa.Select[Any]:
    """The newest `limit` batches of the stream `of`, newest first. Built once: that takes longer than running it."""
    newest = batches.c.at.desc(), batches.c.batch_id.desc()
    return sa.select(*COMPACT).where(batches.c.stream == sa.bindparam("of")).order_by(*newest).limit(limit)


def compact_batches(stream: str, rows: Iterable[Sequence[Any]]) -> tuple[Batch, ...]:
    """The batches of these rows of `COMPACT`, in their order. Raises ProgressError."""
    return tuple([_batch(stream, row) for row in rows])


def _batch(stream: str, row: Sequence[Any]) -> Batch:
    query_id, batch_id, planned_at, committed_at, executed, run_id, compact, progress = row
    return Batch(
        stream=stream,
        query_id=query_id,
        batch_id=batch_id,
        planned_at=planned_at,
        committed_at=committed_at,
        progress=None
        if announces_another(executed=executed, planned_at=planned_at)
        else _report(compact, progress, (query_id, run_id, batch_id)),
    )


def _report(compact: str | None, progress: str | None, key: tuple[str, str, int]) -> Progress | None:
    if compact is not None:
        return expand(compact, key)
    return None if progress is None else parse_progress(progress)
