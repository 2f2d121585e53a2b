"""Histories for advice: reports as Spark 4.3 wrote them, with the fields that a test is about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamwarden.lifecycle.submission import spark_conf
from streamwarden.progress import Progress
from streamwarden.stream.spec import StreamSpec
from streamwarden.tuning.history import History, StateFiles
from support.streams.health_windows import NOW, batch_of, report, spec


def batch(
    number: int, *, rows: int = 1000, seconds: float = 2.0, backend: str = "rocksdb", **operator: int
) -> Progress:
    """The report of one batch, ten seconds after the one before."""
    top = {"numInputRows": rows, "batchDuration": round(seconds * 1000)}
    return report(number, NOW - 10_000 + 10 * number, backend=backend, top=top, operator=operator)


def files(**changes: Any) -> StateFiles:
    """Four partitions on disk, rows of 72 bytes, a snapshot at each fifth version."""
    settings: dict[str, Any] = {
        "bytes": 4_000_000,
        "by_partition": dict.fromkeys(range(4), 1_000_000),
        "instances": 4,
        "snapshots": ((5, 10, 15, 20),) * 4,
        "oldest": 1,
        "newest": 24,
        "rows": 100,
        "keys": 1_600,
        "values": 5_600,
        "changed": {24: (300, 1000)},
    }
    return StateFiles(**{**settings, **changes})


def history(reports: Iterable[Progress] = (), of: StreamSpec | None = None, **changes: Any) -> History:
    of, reports = of or spec(), list(reports)
    first = {each.run_id: each for each in reversed(reports)}
    settings: dict[str, Any] = {
        "spec": of,
        "conf": spark_conf(of),
        "now": NOW,
        "files": files(),
        "first_reports": first,
    }
    return History(**{**settings, "batches": tuple(batch_of(each) for each in reports), **changes})
