"""Where drivers started: the launcher reads the logs before it launches one, and keeps what it saw with the driver.

The reading is evidence that the driver under test did not write, so it is taken before the driver exists.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.files import open_path
from streamwarden.checkpoint.logs import log_position
from streamwarden.checkpoint.sink import newest_entry
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle.driver import DriverEvent
from streamwarden.stream import SinkKind, StreamSpec
from streamwarden.verification.starts import Start

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

LOGS_AT_LAUNCH: Final = "logs_at_launch"
"""Kind of the event that names the checkpoint and its newest batches as text: `planned`, `committed`, `sink`. A log
without a batch is left out."""


def look(spec: StreamSpec, *, at: float) -> Start:
    """The logs as they are. Raises CheckpointError or OSError if the storage cannot be read."""
    connection = spec.storage.connection
    position = log_position(*open_path(spec.checkpoint, connection))
    sink = None
    if spec.sink.kind is SinkKind.PARQUET and spec.sink.path is not None:
        sink = newest_entry(*open_path(spec.sink.path, connection))
    return Start(at=at, planned=position.planned, committed=position.committed, sink=sink)


def keep_start(store: Store, spec: StreamSpec, driver_id: str, *, at: float) -> None:
    """Record where the driver is about to start. Logs that cannot be read now are left out: the launch does not fail
    for it, and a verification then knows of no start here."""
    with contextlib.suppress(StreamwardenError, OSError):
        seen = look(spec, at=at)
        numbers = {"planned": seen.planned, "committed": seen.committed, "sink": seen.sink}
        known = {name: str(number) for name, number in numbers.items() if number is not None}
        detail = {"checkpoint": spec.checkpoint, **known}
        store.drivers.event(DriverEvent(driver_id=driver_id, at=at, kind=LOGS_AT_LAUNCH, detail=detail))


def starts_of(store: Store, stream: str, checkpoint: str) -> tuple[Start, ...]:
    """The recorded starts of a stream's drivers on this checkpoint, oldest first. Raises StoreError."""
    records = {record.driver_id: record for record in store.drivers.history(stream, 0.0)}
    found = []
    for event in store.drivers.events_of(stream, LOGS_AT_LAUNCH):
        record = records.get(event.driver_id)
        if record is None or event.detail.get("checkpoint") != checkpoint:
            continue
        found.append(
            Start(
                at=event.at,
                planned=_number(event, "planned"),
                committed=_number(event, "committed"),
                sink=_number(event, "sink"),
                ended=None if record.exit is None else record.exit.ended_at,
            )
        )
    return tuple(found)


def _number(event: DriverEvent, name: str) -> int | None:
    return int(event.detail[name]) if name in event.detail else None
