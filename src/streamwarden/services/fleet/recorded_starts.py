"""Start positions of drivers: the launcher reads the logs before each launch, and records them with it.

The reading is evidence that the driver under test did not write, so it is taken before the driver exists.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.formats.sink import newest_entry
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord
from streamwarden.lifecycle.forks.scripts import OutputKind
from streamwarden.lifecycle.forks.started import fork_queries
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.starts import Start

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

LOGS_AT_LAUNCH: Final = "logs_at_launch"
"""Kind of the event that names the checkpoint, its `query_id` and its newest batches as text: `planned`, `committed`,
`sink`. Each query of a script's fork has its own, as `QUERY.planned` and so on. What is not there is left out."""

ATTEMPTS: Final = 3
PAUSE: Final = 0.5
"""Seconds between two attempts to read and record the logs: an object store or a database may fail for a moment, and
the driver waits for this."""


def read_logs(spec: StreamSpec) -> dict[str, str]:
    """The newest batches of the logs now, and the query's id. Raises CheckpointError or OSError if the storage cannot
    be read."""
    listed = spec.sink.newest_listed(spec) if isinstance(spec.sink, Sink) else None
    found = _read_logs(spec, spec.checkpoint, listed)
    for query in fork_queries(spec):
        manifest = query.output if query.kind is OutputKind.FILES else None
        entry = None if manifest is None else newest_entry(open_path(manifest, spec.storage.connection))
        logs = _read_logs(spec, query.checkpoint, entry)
        found |= {_of_query(query.name, name): value for name, value in logs.items()}
    return found


def _read_logs(spec: StreamSpec, checkpoint: str, sink: int | None) -> dict[str, str]:
    """The logs of one checkpoint, and the newest batch that the sink lists; None: it lists none."""
    position = log_position(open_path(checkpoint, spec.storage.connection))
    numbers = {"planned": position.planned, "committed": position.committed, "sink": sink}
    found = {"query_id": position.query_id, **numbers}
    return {name: str(value) for name, value in found.items() if value is not None}


def _of_query(query: str, name: str) -> str:
    return f"{query}.{name}"


def keep_start(store: Store, spec: StreamSpec, driver_id: str, *, at: float) -> None:
    """Record where the driver is about to start. The launch does not fail if the logs cannot be read or recorded in
    `ATTEMPTS` attempts: a verification then knows that the driver started, but not where."""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE)
        with contextlib.suppress(StreamwardenError, OSError):
            _keep(store, spec, driver_id, at)
            return


def _keep(store: Store, spec: StreamSpec, driver_id: str, at: float) -> None:
    detail = {"checkpoint": spec.checkpoint, **read_logs(spec)}
    store.drivers.event(DriverEvent(driver_id=driver_id, at=at, kind=LOGS_AT_LAUNCH, detail=detail))


def starts_of(store: Store, stream: str, checkpoint: str, query: str | None = None) -> tuple[Start, ...]:
    """The starts of a stream's drivers on this checkpoint, oldest first, those without a record of the logs included.

    Args:
        query: of a script's fork, whose logs are below this checkpoint; None: the checkpoint itself is a query's.

    Raises StoreError.
    """
    events = {event.driver_id: event for event in store.drivers.events_of(stream, LOGS_AT_LAUNCH)}
    return tuple(
        _start(record, events.get(record.driver_id), query)
        for record in store.drivers.history(stream, 0.0)
        if record.checkpoint == checkpoint
    )


def committed_at_launch(store: Store, stream: str, query_id: str, since: float) -> int | None:
    """The newest batch of this query that a launch after `since` (Unix seconds) found committed. Raises StoreError."""
    launches = store.drivers.events_of(stream, LOGS_AT_LAUNCH)
    found = (
        _number(event, "committed")
        for event in launches
        if event.at > since and event.detail.get("query_id") == query_id
    )
    return max((batch for batch in found if batch is not None), default=None)


def _start(record: DriverRecord, event: DriverEvent | None, query: str | None) -> Start:
    ended = None if record.exit is None else record.exit.ended_at
    if event is None:
        return Start(at=record.launched_at, planned=None, committed=None, ended=ended, logs_known=False)
    planned, committed, sink = (
        _number(event, name if query is None else _of_query(query, name)) for name in ("planned", "committed", "sink")
    )
    return Start(at=event.at, planned=planned, committed=committed, sink=sink, ended=ended)


def _number(event: DriverEvent, name: str) -> int | None:
    return int(event.detail[name]) if name in event.detail else None
