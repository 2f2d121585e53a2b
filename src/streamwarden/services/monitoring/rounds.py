"""An evaluation round: follows the streams' files, judges every stream, and summarises the result.

The health DAG, `streamwarden watch` and `streamwarden check` run the same round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from streamwarden.services.monitoring.config_incidents import follow_files
from streamwarden.services.monitoring.health_monitor import Evaluation, HealthMonitor
from streamwarden.services.monitoring.round_entries import Entry, entries_of, fold

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.config.loading import Catalog
    from streamwarden.errors import ConfigError
    from streamwarden.health.thresholds import Thresholds
    from streamwarden.services.fleet.fleet import Fleet


class Place(Protocol):
    """What a round needs of a workspace."""

    @property
    def store(self) -> Store: ...
    @property
    def fleet(self) -> Fleet: ...
    def catalog(self) -> Catalog: ...
    def thresholds(self) -> Thresholds: ...


Publish = Callable[[Iterable[str]], AbstractContextManager[None]]
"""Makes connections available in the environment while the round runs: Airflow's, by their ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The result of one round.

    Args:
        broken: the files that cannot be used, by their stems.
        idle: streams that have never run or that were stopped on purpose, each with the reason.
    """

    evaluation: Evaluation
    broken: Mapping[str, ConfigError] = field(default_factory=dict)
    idle: Mapping[str, str] = field(default_factory=dict)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What a person sees: one entry for each stream that is not healthy, the healthy ones together."""
        return fold(entries_of(self.evaluation, self.broken, self.idle))


def run_round(
    place: Place, *, clock: Callable[[], float] = time.time, publish: Publish = lambda _: nullcontext()
) -> Round:
    """Judge every stream now and update all incidents. Raises ConfigError for a broken thresholds file, StoreError."""
    now, catalog, store = clock(), place.catalog(), place.store
    follow_files(store.incidents, catalog, partial(_runs, place), now)
    needed = sorted({name for spec in catalog.streams.values() for name in spec.connections})
    with publish(needed):
        evaluation = HealthMonitor(store, thresholds=place.thresholds()).evaluate(catalog.streams.values(), now)
    return Round(evaluation=evaluation, broken=catalog.broken, idle=_idle(store, catalog.streams))


def _runs(place: Place, stream: str) -> bool:
    newest = place.store.drivers.latest(stream)
    return newest is not None and place.fleet.observe(newest.driver_id).alive


def _idle(store: Store, streams: Iterable[str]) -> dict[str, str]:
    """The streams that no check can judge because they should not run, and why."""
    stopped = store.stops.wanted_stopped()
    found = {stream: "stopped on purpose" for stream in streams if stream in stopped}
    new = (stream for stream in streams if stream not in stopped and store.drivers.latest(stream) is None)
    return found | dict.fromkeys(new, "never started")
