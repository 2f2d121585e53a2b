"""The compact form of a progress report: what the health checks and the charts read of it, and nothing else.

A report of Spark has some 3 kB, most of it counters of RocksDB that nobody judges, and an evaluation reads a hundred
reports of each stream every minute. Whoever stores a report stores this form of it beside it, a JSON list of a fifth of
its size, so that the checks parse no report.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import from_json  # two and a half times as fast as `json`, and these texts are half of the reading

from streamwarden.progress import INPUT_METRIC, OperatorProgress, Progress, SourceProgress

KEPT: Final = frozenset({"rocksdbSstFileSize", "stateOnCurrentVersionSizeBytes", "numDroppedDuplicateRows"})
"""Custom metrics of an operator that a check reads."""

KEPT_PREFIX: Final = "SnapshotLastUploaded."
"""How the others begin: one for each partition of the state."""


def compact(progress: Progress) -> str:
    """The compact form, for `expand`. Its key is stored beside it."""
    return json.dumps(
        [
            progress.at,
            progress.duration_ms,
            progress.rows,
            progress.name,
            progress.durations_ms,
            progress.input_rows_per_second,
            progress.processed_rows_per_second,
            progress.has_watermark,
            progress.watermark,
            progress.event_time_max,
            progress.sink,
            {name: metric for name, metric in progress.observed_metrics.items() if _is_of_the_input(name)},
            [_operator(operator) for operator in progress.operators],
            [[s.description, s.end_offset, s.latest_offset, s.rows, s.metrics] for s in progress.sources],
            progress.rows_written,
        ],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def expand(text: str, key: tuple[str, str, int]) -> Progress:
    """The report without `raw` and without the custom metrics that nobody reads.

    Args:
        key: query id, run id and batch id.
    """
    query_id, run_id, batch_id = key
    (
        at,
        duration_ms,
        rows,
        name,
        durations,
        rows_in,
        rows_done,
        has_watermark,
        watermark,
        event_time_max,
        sink,
        observed,
        operators,
        sources,
        *written,  # a driver of an older version stored none
    ) = from_json(text)
    return Progress(
        query_id=query_id,
        run_id=run_id,
        name=name,
        batch_id=batch_id,
        at=at,
        rows=rows,
        duration_ms=duration_ms,
        durations_ms=durations,
        input_rows_per_second=rows_in,
        processed_rows_per_second=rows_done,
        watermark=watermark,
        event_time_max=event_time_max,
        operators=tuple([OperatorProgress(index, *numbers) for index, numbers in enumerate(operators)]),
        sources=tuple([SourceProgress(*facts) for facts in sources]),
        sink=sink,
        observed_metrics=observed,
        has_watermark=has_watermark,
        rows_written=written[0] if written else None,
    )


def _operator(operator: OperatorProgress) -> list[Any]:
    return [
        operator.name,
        operator.rows_total,
        operator.rows_updated,
        operator.rows_removed,
        operator.rows_dropped_by_watermark,
        operator.memory_used_bytes,
        operator.update_ms,
        operator.removal_ms,
        operator.commit_ms,
        operator.partitions,
        kept(operator.custom),
    ]


def kept(custom: Mapping[str, int]) -> dict[str, int]:
    """Those custom metrics that a check reads."""
    return {name: value for name, value in custom.items() if name in KEPT or name.startswith(KEPT_PREFIX)}


def _is_of_the_input(metric: str) -> bool:
    return metric == INPUT_METRIC or metric.startswith(f"{INPUT_METRIC}_")
