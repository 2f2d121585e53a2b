"""An evaluation round: follows files, drills and Airflow, judges every stream, and records that it ran.

The health DAG, `streamwarden watch` and `streamwarden check` run the same round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from streamwarden.adapters.processes import this_host
from streamwarden.health.evaluations import EvaluationRecord, Evaluator, late_evaluation
from streamwarden.health.verdict import Status
from streamwarden.services.fleet.undeclared import with_undeclared
from streamwarden.services.incidents.config_incidents import follow_files
from streamwarden.services.incidents.drill_incidents import follow_drills, scheduled
from streamwarden.services.incidents.incident_keeper import keep
from streamwarden.services.monitoring.airflow_health import airflow_verdict
from streamwarden.services.monitoring.health_monitor import Evaluation, HealthMonitor
from streamwarden.services.monitoring.http import ping
from streamwarden.services.monitoring.round_entries import Entry, entries_of, fold

if TYPE_CHECKING:
    from pathlib import Path

    from streamwarden.adapters.store import Store
    from streamwarden.config.loading import Catalog
    from streamwarden.errors import ConfigError
    from streamwarden.health.thresholds import Thresholds
    from streamwarden.services.fleet.fleet import Fleet


class Place(Protocol):
    """The workspace as a round sees it."""

    @property
    def project(self) -> Path: ...
    @property
    def store(self) -> Store: ...
    @property
    def fleet(self) -> Fleet: ...
    def catalog(self) -> Catalog: ...
    def thresholds(self) -> Thresholds: ...


Publish = Callable[[Iterable[str]], AbstractContextManager[None]]
"""Makes connections available in the environment while the round runs: Airflow's, by their ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """A round's access to the world outside the workspace.

    Args:
        publish: see `Publish`.
        airflow: URL of Airflow's API server, to check Airflow's components; None: they are not checked.
        is_paused: returns whether the DAG with this id is paused, None if that is unknown; None: the round runs without
            Airflow, and the record of another round counts.
        heartbeat_url: the dead man's switch; None: there is none.
    """

    publish: Publish = lambda _: nullcontext()
    airflow: str | None = None
    is_paused: Callable[[str], bool | None] | None = None
    heartbeat_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The result of one round.

    Args:
        broken: the files of streams that cannot be used, by their stems.
        idle: streams that have never run or that were stopped on purpose, each with the reason.
        record: the round's record in the store.
    """

    evaluation: Evaluation
    record: EvaluationRecord
    broken: Mapping[str, ConfigError] = field(default_factory=dict)
    idle: Mapping[str, str] = field(default_factory=dict)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The summary: one entry for each stream that is not healthy, the healthy ones together."""
        return fold(entries_of(self.evaluation, self.broken, self.idle))


def run_round(
    place: Place,
    by: Evaluator,
    surroundings: Surroundings | None = None,
    *,
    clock: Callable[[], float] = time.time,
) -> Round:
    """Judge every stream now, update all incidents, record the round, and request the dead man's switch.

    A round that fails leaves no record and does not request the switch. Raises ConfigError for a broken thresholds
    file, StoreError.
    """
    around = surroundings or Surroundings()
    now, store = clock(), place.store
    catalog = with_undeclared(place.catalog(), store, place.fleet)
    follow_files(store, catalog, partial(_runs, place), now)
    failures = len(catalog.broken) + _follow_drills(place, around, now) + _follow_airflow(store, by, around, now)
    with around.publish(sorted({name for spec in catalog.streams.values() for name in spec.connections})):
        monitor = HealthMonitor(store, thresholds=place.thresholds(), paused=partial(_is_paused, around))
        evaluation = monitor.evaluate(catalog.streams.values(), now, afresh=by is Evaluator.SHELL)
    failures += sum(len(health.problems) for health in evaluation.streams.values())
    record = EvaluationRecord(
        at=clock(),
        evaluator=by,
        host=this_host().partition("/")[0],
        seconds=clock() - now,
        streams=len(catalog.streams),
        failures=failures,
    )
    store.evaluations.record(record)
    if around.heartbeat_url is not None:
        ping(around.heartbeat_url)
    return Round(evaluation=evaluation, record=record, broken=catalog.broken, idle=_idle(store, catalog.streams))


def _is_paused(around: Surroundings, stream: str) -> bool | None:
    return None if around.is_paused is None else around.is_paused(f"stream_{stream}")


def _follow_drills(place: Place, around: Surroundings, now: float) -> int:
    """Returns how many files of drills are broken."""
    from streamwarden.config.loading import load_drills

    drills, broken = load_drills(place.project)
    if around.is_paused is not None:
        place.store.drill_schedules.follow(scheduled(drills.values(), around.is_paused), now, keep=broken)
    follow_drills(place.store, drills, broken, now)
    return len(broken)


def _follow_airflow(store: Store, by: Evaluator, around: Surroundings, now: float) -> int:
    """Returns how many of these do not run: Airflow's components, and its health DAG as another process sees it."""
    if around.airflow is None:
        return 0
    late = None if by is Evaluator.DAG else late_evaluation(store.evaluations.all(), now)
    verdicts = [airflow_verdict(around.airflow, now), *([] if late is None else [late])]
    keep(store, verdicts, now)
    return sum(verdict.status is not Status.OK for verdict in verdicts)


def _runs(place: Place, stream: str) -> bool:
    newest = place.store.drivers.latest(stream)
    return newest is not None and place.fleet.observe_record(newest).alive


def _idle(store: Store, streams: Collection[str]) -> dict[str, str]:
    """The streams that no check can judge because they should not run, and why."""
    stopped, started = store.stops.wanted_stopped(), store.drivers.latests(streams)
    reasons = {stream: "stopped on purpose" for stream in streams if stream in stopped}
    new = (stream for stream in streams if stream not in stopped and stream not in started)
    return reasons | dict.fromkeys(new, "never started")
