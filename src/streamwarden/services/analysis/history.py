"""The history of a stream: launches, crashes, restarts, stops, drills, and deployments."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from streamwarden.adapters.store import Store
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.events import EventKind, StreamEvent, stream_events
from streamwarden.redaction import redacted

DRILLS: Final = 1000
"""Runs of drills that are read at most."""

LONGEST: Final = 80
"""Characters of a value that are shown."""

NAMED: Final = 10
"""Changes of a deployment that are named."""

_PER_RUN: Final = "spark.conf.spark.openlineage."
"""Settings that Airflow sets for each of its runs: they differ without a deployment."""


def history(store: Store, stream: str, since: float) -> tuple[StreamEvent, ...]:
    """The events of `stream` since `since` (Unix seconds), oldest first. Raises StoreError."""
    drivers = store.drivers.history(stream, since)
    if drivers and (before := store.drivers.before(drivers[0])) is not None:
        drivers = [before, *drivers]  # what the first launch changed, and whether it was a restart
    events = {driver.driver_id: store.drivers.events(driver.driver_id) for driver in drivers}
    # A launch, then the deployment of the same time.
    timeline = [*stream_events(drivers, events), *deployments(drivers)]
    timeline += [event for run in store.journals.recent(stream=stream, limit=DRILLS) if (event := drilled(run))]
    return tuple(sorted((event for event in timeline if event.at >= since), key=lambda event: event.at))


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


def deployments(drivers: Iterable[DriverRecord]) -> Iterator[StreamEvent]:
    """The launches with other code, packages or configuration than the launch before, each with what changed.

    A launch about which nothing is kept is not a deployment: its folder is on another host or was removed, or its
    version of Streamwarden kept no digests. The next launch is then compared with the last one that is documented.
    """
    before: Mapping[str, Mapping[str, Any]] = {}
    for driver in drivers:
        after = _launched_with(Path(driver.folder))
        changes = [*_changes(before, after)] if before else []
        if changes:
            yield StreamEvent(
                at=driver.launched_at,
                kind=EventKind.DEPLOYED,
                stream=driver.stream,
                driver_id=driver.driver_id,
                who=driver.launched_by,
                why=_listed(changes),
            )
        before = {**before, **after}


def _launched_with(folder: Path) -> dict[str, Mapping[str, Any]]:
    """`spec`, `files` and `packages` of a launch; a part that is not kept is left out."""
    code = files.read_document(folder / files.CODE) or {}
    parts = {"spec": files.read_document(folder / files.SPEC), **code}
    return {name: part for name, part in parts.items() if isinstance(part, Mapping) and part}


def _changes(before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The changes, as text without secrets: files, then keys of the configuration, then packages."""
    old, new = (code.get("files", {}) for code in (before, after))
    yield from (f"{name} was changed" for name in sorted(old.keys() & new) if old[name] != new[name])
    for part, shown in (("spec", redacted), ("packages", dict)):
        if part in before and part in after and before[part] != after[part]:  # most launches are equal: that is fast
            differences = differing(shown(before[part]), shown(after[part]))
            yield from (f"{key}: {_shown(was)} → {_shown(now)}" for key, was, now in differences)


def differing(
    before: Mapping[str, Any], after: Mapping[str, Any], within: str = ""
) -> Iterator[tuple[str, object, object]]:
    """The keys whose values differ, as `trigger.processing_time`, sorted, each with both values; None: it has none."""
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from differing(old, new, f"{within}{key}.")
        elif old != new and not f"{within}{key}".startswith(_PER_RUN):
            yield f"{within}{key}", old, new


def _shown(value: object) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _listed(changes: Sequence[str]) -> str:
    more = len(changes) - NAMED
    return "; ".join([*changes[:NAMED], *([f"and {more} more"] if more > 0 else [])])
