"""Reads the store's facts on many streams, in a handful of queries, however many streams there are."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from streamwarden.adapters.store import Store
from streamwarden.adapters.store.history.batches import Flow, NewestBatch
from streamwarden.config.loading import Catalog
from streamwarden.drills.records.journal import DrillRun
from streamwarden.health.incidents.handling import Handling
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.signals.executors import COUNTED
from streamwarden.health.signals.series import FRESH
from streamwarden.health.verdict import Verdict
from streamwarden.health.window import Measurement
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord
from streamwarden.lifecycle.queries import QueryRecord, identity
from streamwarden.lifecycle.supervision.stop import DesiredState
from streamwarden.lifecycle.supervision.supervisor import HISTORY

RATE_WINDOW: Final = 300.0
"""Seconds over which rows a second are averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """The store's facts on `names` at `now` (Unix seconds).

    Args:
        drivers: stream -> its drivers of the last 24 hours, oldest first; latest: its newest driver, however old.
        events: driver id -> its events, of the drivers in `drivers` and `latest`.
        verdicts, incidents, newest, flows: stream or `STREAM/QUERY` -> its own.
        executors: stream -> how many executors its driver counted lately.
        incidents: the open ones of streams that should not be stopped, consequences included.
        handling: acknowledgements of open incidents; the mutes in force, and those that are planned.
        drills, ended_drills: stream -> its newest drill, and its newest one that has ended.
    """

    now: float
    names: tuple[str, ...]
    catalog: Catalog
    latest: Mapping[str, DriverRecord]
    drivers: Mapping[str, Sequence[DriverRecord]]
    events: Mapping[str, Sequence[DriverEvent]]
    wanted: Mapping[str, DesiredState]
    queries: Mapping[str, Sequence[QueryRecord]]
    verdicts: Mapping[str, Sequence[Verdict]]
    incidents: Mapping[str, Sequence[Incident]]
    newest: Mapping[str, NewestBatch]
    flows: Mapping[str, Flow]
    executors: Mapping[str, Sequence[Measurement]]
    handling: Handling
    drills: Mapping[str, DrillRun]
    ended_drills: Mapping[str, DrillRun]

    def events_of(self, stream: str) -> dict[str, Sequence[DriverEvent]]:
        """Driver id -> events, of the recent drivers of `stream`."""
        return {driver.driver_id: self.events.get(driver.driver_id, ()) for driver in self.drivers.get(stream, ())}


def read_facts(
    store: Store, catalog: Catalog, names: Iterable[str], now: float, verdicts: Sequence[Verdict] | None = None
) -> FleetFacts:
    """The facts about `names`. Raises StoreError.

    Args:
        verdicts: the newest ones, if the caller has read them.
    """
    wanted = tuple(names)
    queries = store.queries.of_many(wanted)
    parts = _parts(wanted, catalog, queries)
    latest = store.drivers.latests(wanted)
    drivers = store.drivers.histories(wanted, now - HISTORY)
    ids = {driver.driver_id for records in (*drivers.values(), latest.values()) for driver in records}
    only = wanted[0] if len(wanted) == 1 and len(parts) == 1 else None
    return FleetFacts(
        now=now,
        names=wanted,
        catalog=catalog,
        latest=latest,
        drivers=drivers,
        events=store.drivers.events_of_all(ids),
        wanted=store.stops.every_desired(wanted),
        queries=queries,
        verdicts=_by_stream(store.verdicts.latest(only) if verdicts is None else verdicts),
        incidents=_by_stream(store.incidents.alarming()),
        newest=store.batches.newest(parts),
        handling=Handling(actions=store.incident_actions.current(now), mutes=store.mutes.since(now)),
        drills=store.journals.newest(),
        ended_drills=store.journals.newest(ended=True),
        executors=store.measurements.recents(wanted, now - FRESH, COUNTED),
        flows=store.batches.flows_since(parts, now - RATE_WINDOW),
    )


def _parts(streams: Iterable[str], catalog: Catalog, queries: Mapping[str, Sequence[QueryRecord]]) -> Collection[str]:
    """The streams, and every name under which the batches of one of their queries may be kept."""
    parts = set()
    for name in streams:
        parts |= {name, *(query.identity for query in queries[name])}
        if name in catalog.streams:
            parts |= {identity(name, query) for query in catalog.streams[name].queries}
    return parts


T = TypeVar("T", Verdict, Incident)


def _by_stream(all_of_them: Iterable[T]) -> dict[str, list[T]]:
    grouped: dict[str, list[T]] = {}
    for record in all_of_them:
        grouped.setdefault(record.stream, []).append(record)
    return grouped
