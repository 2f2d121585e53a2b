"""What the checks look at: one stream's recent measurements, gathered once, passed to every check."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamwarden.checkpoint.logs import LogPosition
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.progress import Progress
from streamwarden.stream import StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One number about a stream at a time (Unix seconds), with its unit and where it came from."""

    stream: str
    name: str
    at: float
    value: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch of one query, as the store has it.

    Args:
        planned_at: when `offsets/N` was written; committed_at: when `commits/N` was. Unix seconds, from the logs.
        progress: Spark's report, None if it was lost (a kill) and the row was filled in from the logs.
    """

    stream: str
    query_id: str
    batch_id: int
    planned_at: float | None = None
    committed_at: float | None = None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Input of every check. Sequences are oldest first.

    Args:
        now: Unix seconds; the checks have no clock of their own.
        batches: recent batches, at most a few hundred.
        hourly: roll-ups of older history as measurements, for the forecast.
        measurements: what is not in a progress report: resident memory, bytes under `state/`, …
        drivers: the stream's drivers of the last day.
        log: position of the checkpoint's offset and commit logs now; None if it could not be read.
    """

    spec: StreamSpec
    now: float
    batches: tuple[Batch, ...] = ()
    hourly: tuple[Measurement, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    drivers: tuple[DriverRecord, ...] = ()
    log: LogPosition | None = None
    driver_alive: bool | None = None
    extra: dict[str, float] = field(default_factory=dict)
