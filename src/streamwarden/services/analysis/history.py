"""What happened to a stream: launches, crashes, restarts, stops, drills, and launches with a changed configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamwarden.drills.report import verdict_word
from streamwarden.lifecycle import folder as files
from streamwarden.lifecycle.events import EventKind, StreamEvent, stream_events

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.drills.journal import DrillRun
    from streamwarden.lifecycle.driver import DriverRecord

DRILLS: Final = 1000
"""Runs of drills that are read at most."""

_LAUNCHES: Final = (EventKind.LAUNCHED, EventKind.RESTARTED)


def history(store: Store, stream: str, since: float) -> tuple[StreamEvent, ...]:
    """The events of `stream` since `since` (Unix seconds), oldest first. Raises StoreError."""
    drivers = store.drivers.history(stream, since)
    changes = changed_configurations(drivers)
    events = stream_events(drivers, {each.driver_id: store.drivers.events(each.driver_id) for each in drivers})
    found = [_with_changes(each, changes.get(each.driver_id, ())) for each in events]
    found += [event for run in store.journals.recent(stream=stream, limit=DRILLS) if (event := drilled(run))]
    return tuple(sorted((each for each in found if each.at >= since), key=lambda event: event.at))


def drilled(run: DrillRun) -> StreamEvent | None:
    """The end of a drill of the stream as an event; None while it runs."""
    if run.ended_at is None:
        return None
    return StreamEvent(
        at=run.ended_at,
        kind=EventKind.DRILLED,
        stream=run.stream,
        who=f"drill {run.drill}",
        why=f"{verdict_word(run)}: {run.reason}",
    )


def changed_configurations(drivers: Sequence[DriverRecord]) -> dict[str, tuple[str, ...]]:
    """Driver id -> the keys in which its configuration differs from that of the driver before. A driver whose folder is
    on another host, or was removed, is left out. Only keys are named: a value may be a secret."""
    found: dict[str, tuple[str, ...]] = {}
    before: Mapping[str, Any] | None = None
    for driver in drivers:
        spec = files.read_document(Path(driver.folder) / files.SPEC)
        if before is not None and spec is not None and (keys := tuple(differing(before, spec))):
            found[driver.driver_id] = keys
        before = spec if spec is not None else before
    return found


def differing(before: Mapping[str, Any], after: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """The keys whose values differ, as `trigger.processing_time`, sorted."""
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from differing(old, new, f"{within}{key}.")
        elif old != new:
            yield f"{within}{key}"


def _with_changes(event: StreamEvent, keys: Sequence[str]) -> StreamEvent:
    if event.kind not in _LAUNCHES or not keys:
        return event
    return replace(event, why="; ".join(filter(None, [event.why, f"configuration changed: {', '.join(keys)}"])))
