"""The numbers of a row that each batch changes."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from streamwarden.adapters.store.history.batches import Flow, NewestBatch
from streamwarden.lifecycle.queries import owner
from streamwarden.services.overview.rows import StreamRow
from streamwarden.services.overview.status import rate


def with_numbers(
    rows: tuple[StreamRow, ...], newest: Mapping[str, NewestBatch], flows: Mapping[str, Flow], now: float
) -> tuple[StreamRow, ...]:
    """The rows with the numbers of these batches, those that have not changed as they were: what `stream_rows` makes of
    the same batches. Pure.

    Args:
        newest, flows: stream or `STREAM/QUERY` -> its own, of the rows whose state is `running`.
    """
    rates: dict[str, float] = defaultdict(float)
    for row in rows:
        last = newest.get(row.stream)
        own = rate(flows.get(row.stream), last.first_at if last else row.first_batch_at, now)
        for name in {row.stream, owner(row.stream)}:
            rates[name] += own
    return tuple(_with_numbers(row, newest, flows, rates[row.stream]) for row in rows)


def _with_numbers(
    row: StreamRow, newest: Mapping[str, NewestBatch], flows: Mapping[str, Flow], per_second: float
) -> StreamRow:
    last, flow = newest.get(row.stream), flows.get(row.stream)
    if row.state != "running" or (last is None and row.rows_in_per_second == per_second):
        return row
    changed: dict[str, object] = {
        "rows_in_per_second": per_second,
        "rows_processed_per_second": flow.rows / flow.busy if flow and flow.busy else None,
    }
    if last is not None:
        changed |= {
            "first_batch_at": last.first_at,
            "batch_id": last.batch_id,
            "batch_at": last.at,
            "batch_seconds": last.seconds,
            "watermark": last.watermark,
        }
    same = all(getattr(row, name) == value for name, value in changed.items())
    return row if same else replace(row, **changed)  # type: ignore[arg-type]
