"""Histories of real streams, from `tests/data/histories` (`tests/data/make_histories.py` records them)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.health.window import Batch, Measurement
from streamwarden.lifecycle.driver import DriverRecord, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.submission import spark_conf
from streamwarden.progress import Progress, parse_progress
from streamwarden.stream.spec import StreamSpec
from streamwarden.tuning.history import History, StateFiles

HISTORIES = Path(__file__).parents[1] / "data" / "histories"


@dataclass(frozen=True)
class RecordedHistory:
    """A stream from its first batch to its stop; its driver was killed at `killed_at` and started again at once.

    Args:
        states: (Unix time, what was under `state/` then), oldest first.
    """

    spec: StreamSpec
    killed_at: float
    batches: tuple[Batch, ...]
    drivers: tuple[DriverRecord, ...]
    measurements: tuple[Measurement, ...]
    states: Sequence[tuple[float, StateFiles]]

    def until(self, at: float, look_back: int = 300) -> History:
        """What `advise` would have known at the Unix time `at`."""
        batches = [each for each in self.batches if _ended(each) <= at]
        reports = [each.progress for each in batches if each.progress is not None and each.progress.has_run]
        first: dict[str, Progress] = {}
        for report in reports:
            first.setdefault(report.run_id, report)
        files = [files for seen, files in self.states if seen <= at]
        return History(
            spec=self.spec,
            conf=spark_conf(self.spec),
            now=at,
            batches=tuple(batches[-look_back:]),
            drivers=tuple(each for each in self.drivers if each.launched_at <= at),
            measurements=tuple(each for each in self.measurements if each.at <= at),
            files=files[-1] if files else None,
            first_reports=first,
        )

    @property
    def end(self) -> float:
        """When the last batch had ended."""
        return max(map(_ended, self.batches))


def _ended(batch: Batch) -> float:
    if batch.progress is not None:
        return batch.progress.at + batch.progress.duration_ms / 1000
    return batch.committed_at or batch.planned_at or 0.0


@cache
def recorded(name: str) -> RecordedHistory:
    """The history of the stream `name`."""
    document = json.loads(gzip.decompress((HISTORIES / f"{name}.json.gz").read_bytes()))
    return RecordedHistory(
        spec=spec_from_dict(document["spec"]),
        killed_at=document["killed_at"],
        batches=tuple(_batch(name, each) for each in document["batches"]),
        drivers=tuple(map(_driver, document["drivers"])),
        measurements=tuple(Measurement(**each) for each in document["measurements"]),
        states=[(each["at"], _files(each["files"])) for each in document["states"]],
    )


def _batch(stream: str, row: Mapping[str, Any]) -> Batch:
    progress = None if row["progress"] is None else parse_progress(row["progress"])
    return Batch(**{**row, "stream": stream, "progress": progress})


def _driver(row: Mapping[str, Any]) -> DriverRecord:
    exit = None if row["exit"] is None else ExitRecord.from_document(row["exit"])
    process = None if row["process"] is None else ProcessIdentity(**row["process"])
    return DriverRecord(**{**row, "exit": exit, "process": process})


def _files(row: Mapping[str, Any]) -> StateFiles:
    """JSON has only text as keys, and lists."""
    return StateFiles(
        **{
            **row,
            "by_partition": {int(key): value for key, value in row["by_partition"].items()},
            "snapshots": tuple(map(tuple, row["snapshots"])),
            "snapshot_bytes": {int(key): value for key, value in row["snapshot_bytes"].items()},
            "changed": {int(key): tuple(value) for key, value in row["changed"].items()},
        }
    )
