"""The health monitor: probes streams (store, checkpoint, input), runs all checks, keeps verdicts and incidents."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.processes import is_alive
from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.errors import CheckpointError
from streamwarden.health.check import Check
from streamwarden.health.checks import CHECK_NAMES, CHECKS
from streamwarden.health.checks.state.partition_skew import CHECK as PARTITION_SKEW
from streamwarden.health.checks.state.state_growth import CHECK as STATE_GROWTH
from streamwarden.health.evaluate import evaluate, named_checks
from streamwarden.health.incidents.incident import Changes, IncidentPolicy
from streamwarden.health.resting import is_resting
from streamwarden.health.shown_verdicts import overall, silenced
from streamwarden.health.signals.partitions import spread
from streamwarden.health.signals.series import BACKLOG_SECONDS, MEMORY_BYTES, STATE_BYTES
from streamwarden.health.signals.services import attempts
from streamwarden.health.signals.stopped import ended_well
from streamwarden.health.thresholds import DEFAULTS, Thresholds
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import DRIVERS_SINCE, Batch, Measurement, Probed, Window
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.driver_folder import QUARANTINE_GAP
from streamwarden.lifecycle.lease import Lease, Liveness, is_held
from streamwarden.lifecycle.queries import StreamPart, owner, stream_parts
from streamwarden.lifecycle.supervision.restarter import Restarter, restarter
from streamwarden.services.fleet.exits.backfill import fill_missing
from streamwarden.services.fleet.exits.lease_grace import GRACE
from streamwarden.services.fleet.exits.liveness import is_alive as driver_alive
from streamwarden.services.incidents.incident_keeper import IncidentKeeper
from streamwarden.services.monitoring import quarantined
from streamwarden.services.monitoring.probe import ProbeResult, probe, probes_of, skipped_of
from streamwarden.services.monitoring.probing_order import ProbingOrder
from streamwarden.services.monitoring.reachability import Services
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

Paused = Callable[[str], bool | None]
"""Whether the DAG of this stream is paused; None: unknown."""

LOOK_BACK: Final = 100
"""Batches of a stream that are read from the store; hourly numbers cover older history."""

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 50
"""Streams whose windows are in memory at the same time (a hundred reports are about 600 kB), and whose verdicts are
saved together: an evaluation that is ended early has saved those before."""
_MEASURED: Final = 900.0
"""Seconds of measurements that are read: the memory check judges twenty, taken every ten seconds."""
_SAMPLES: Final = 30
_STEP: Final = 1.25
"""Older batches that are read for the forecast: how many, and by which factor each is further back than the last."""
_HISTORY: Final = 7 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamHealth:
    """One stream's verdicts, in the checks' order; `problems`: failed probes, and why."""

    stream: str
    verdicts: tuple[Verdict, ...]
    problems: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """OK if no check alarms and every essential check has data."""
        return overall(self.verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One evaluation.

    Args:
        at: Unix seconds.
        seconds: wall time of its phases: `read` (store and checkpoints), `check`, `save`.
    """

    at: float
    streams: Mapping[str, StreamHealth]
    changes: Changes = field(default_factory=Changes)
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(verdict for health in self.streams.values() for verdict in health.verdicts)


@dataclass(frozen=True, slots=True)
class _Shared:
    """What the probes of one evaluation share; `rest`: checks may rest."""

    services: Services = field(default_factory=Services)
    order: ProbingOrder = field(default_factory=ProbingOrder)
    rest: bool = False

    def resting(self, spec: StreamSpec, before: Mapping[str, Verdict], now: float) -> frozenset[str]:
        """The checks whose verdict before this evaluation stands."""
        if not self.rest:
            return frozenset()
        return frozenset(each.name for each in CHECKS if is_resting(each, spec.name, before.get(each.name), now))


class HealthMonitor:
    """Evaluates streams. Reading a damaged or missing checkpoint makes verdicts UNKNOWN, never an error.

    Args:
        store: verdicts and incidents are kept there, batches and measurements read.
        thresholds: the project's; each stream's own come on top.
        alive: says whether a driver's process is alive.
        paused: says whether the DAG of a stream is paused; None if that is unknown, or if there is no Airflow. It is
            asked only about streams whose driver failed.
    """

    def __init__(
        self,
        store: Store,
        *,
        thresholds: Thresholds = DEFAULTS,
        policy: IncidentPolicy | None = None,
        alive: Liveness = is_alive,
        paused: Paused = lambda _: None,
        look_back: int = LOOK_BACK,
    ) -> None:
        self._store = store
        self._thresholds = thresholds
        self._incidents = IncidentKeeper(store, policy or IncidentPolicy())
        self._alive = alive
        self._paused = paused
        self._look_back = look_back

    def judge(self, spec: StreamSpec, now: float, only: Collection[str] = CHECK_NAMES) -> tuple[Verdict, ...]:
        """The verdicts of the checks with these names on one stream (or fork) at `now`, without saving them. Only what
        they need is read. Raises StoreError."""
        parts, checks = self._units([spec], now), named_checks(only)
        windows = self._windows(parts, now, self._previous(parts), _Shared(), checks)
        verdicts = [verdict for window, _ in windows for verdict in evaluate(window, self._thresholds, checks)]
        return tuple(verdict for verdict in verdicts if verdict.check in only)

    def window(self, spec: StreamSpec, now: float) -> Window:
        """The input of the checks; for a stream with several queries, that of its driver. Raises StoreError."""
        first = self._units([spec], now)[:1]
        ((window, _),) = self._windows(first, now, self._previous(first), _Shared())
        return window

    def evaluate(self, specs: Iterable[StreamSpec], now: float, *, afresh: bool = False) -> Evaluation:
        """Judge all `specs` at `now`, save the verdicts, advance the incidents. Raises StoreError.

        The streams are judged in groups, so groups judged before an error or a time limit are saved. For a stream with
        several queries the driver is judged under the stream's name, each query under `STREAM/QUERY`.

        Args:
            afresh: no check rests.
        """
        with _collector_paused():
            return self._evaluate(list(specs), now, _Shared(rest=not afresh))

    def _evaluate(self, given: Sequence[StreamSpec], now: float, shared: _Shared) -> Evaluation:
        wanted = self._units(given, now)
        seconds = dict.fromkeys(("read", "check", "save"), 0.0)
        streams: dict[str, StreamHealth] = {}
        changes = Changes()
        previous = self._previous(wanted)
        for first in range(0, len(wanted), _AT_ONCE):
            group = wanted[first : first + _AT_ONCE]
            changes += self._evaluate_group(group, now, previous, shared, streams, seconds)
        judged_now = {(verdict.stream, verdict.check) for health in streams.values() for verdict in health.verdicts}
        self._forget({spec.name for spec in given}, previous, judged_now, now)
        return Evaluation(at=now, streams=streams, changes=changes, seconds=seconds)

    def _evaluate_group(
        self,
        parts: Sequence[StreamPart],
        now: float,
        previous: Mapping[str, Mapping[str, Verdict]],
        shared: _Shared,
        streams: dict[str, StreamHealth],
        seconds: dict[str, float],
    ) -> Changes:
        """Judge these parts and save what was found. Adds to `streams` and `seconds`."""
        started = time.perf_counter()
        checking = 0.0
        verdicts: list[Verdict] = []
        measured: list[Measurement] = []
        running: set[str] = set()
        for window, problems in self._windows(parts, now, previous, shared):
            name = window.spec.name
            before = time.perf_counter()
            verdicts_of_one = evaluate(window, self._thresholds)
            if window.wanted_stopped:
                verdicts_of_one = silenced(verdicts_of_one)
            checking += time.perf_counter() - before
            streams[name] = StreamHealth(stream=name, verdicts=verdicts_of_one, problems=problems)
            verdicts += verdicts_of_one
            measured += attempts(window)
            if window.driver_alive:
                running.add(name)
                measured += spread(window)
        judged = time.perf_counter()
        changes = self._keep(verdicts, previous, [*measured, *_values(verdicts, running)], now)
        seconds["read"] += judged - started - checking
        seconds["check"] += checking
        seconds["save"] += time.perf_counter() - judged
        return changes

    def _units(self, specs: Sequence[StreamSpec], now: float) -> list[StreamPart]:
        """The parts to judge: each stream, or its driver and its queries."""
        records = self._store.queries.of_many([spec.name for spec in specs])
        return [unit for spec in specs for unit in stream_parts(spec, records[spec.name], now)]

    def _forget(
        self, given: Set[str], previous: Mapping[str, Mapping[str, Verdict]], judged: Set[tuple[str, str]], now: float
    ) -> None:
        """Remove verdicts and end incidents of parts that no longer exist. Otherwise they would stay forever.

        Such a part is a query that its script no longer starts, or a stream whose script now starts a second query.
        """
        old = {(name, check) for name, verdicts in previous.items() for check in verdicts if owner(name) in given}
        if gone := old - judged:
            self._store.verdicts.forget(gone)
        self._incidents.end_those_not_judged(given, judged, now)

    def _keep(
        self,
        verdicts: Sequence[Verdict],
        previous: Mapping[str, Mapping[str, Verdict]],
        measured: Sequence[Measurement],
        now: float,
    ) -> Changes:
        self._store.verdicts.save(verdicts, previous)
        self._store.measurements.add(measured)
        return self._incidents.advance(verdicts, now)

    def _previous(self, parts: Sequence[StreamPart]) -> dict[str, dict[str, Verdict]]:
        """stream -> check -> the previous verdict."""
        previous: dict[str, dict[str, Verdict]] = {}
        for verdict in self._store.verdicts.latest(parts[0].spec.name if len(parts) == 1 else None):
            previous.setdefault(verdict.stream, {})[verdict.check] = verdict
        return previous

    def _windows(
        self,
        parts: Sequence[StreamPart],
        now: float,
        previous: Mapping[str, Mapping[str, Verdict]],
        shared: _Shared,
        checks: Sequence[Check] = CHECKS,
    ) -> Iterator[tuple[Window, tuple[str, ...]]]:
        """Each part's window, with what the checks need, and the failed probes."""
        probed = probes_of(checks)
        specs = [part.spec for part in parts]
        names = [spec.name for spec in specs]
        streams = sorted({owner(name) for name in names})
        store = self._store

        resting = {spec.name: shared.resting(spec, previous.get(spec.name, {}), now) for spec in specs}

        def probed_one(spec: StreamSpec) -> ProbeResult:
            due = [check for check in checks if check.name not in resting[spec.name]]
            before = previous.get(spec.name, {}) if shared.rest else {}
            return probe(spec, shared.services, due, sized=PARTITION_SKEW in due, before=before)

        results = dict(zip(names, shared.order.each(specs, probed_one), strict=True))
        batches = store.batches.windows(names, self._look_back)
        output = [spec for spec in specs if Probed.SKIPPED in probed]
        found = shared.order.each(output, lambda spec: skipped_of(spec, batches[spec.name]))
        skipped = {spec.name: one for spec, one in zip(output, found, strict=True)}
        filled = [spec.name for spec in specs if self._fill_in(spec, results[spec.name], batches[spec.name])]
        batches |= store.batches.windows(filled, self._look_back)
        growing = [name for name in names if STATE_GROWTH.name not in resting[name]]
        older = store.batches.chosen({name: wanted for name in growing if (wanted := _before(batches[name]))})
        drivers = store.drivers.histories(streams, now - DRIVERS_SINCE)
        wanted_stopped = store.stops.wanted_stopped()
        measurements = store.measurements.recents(names, now - _MEASURED)
        hourly = store.measurements.hourlies(growing, now - _HISTORY, only=(STATE_BYTES,))
        histories = {stream: self._drivers(stream, drivers[stream]) for stream in streams}
        setting_aside = {owner(spec.name) for spec in specs if spec.quarantine is not None}
        driver_ids = [driver.driver_id for stream in setting_aside for driver in histories[stream]]
        given_up = store.drivers.events_since(driver_ids, QUARANTINE_GAP, now - DRIVERS_SINCE)
        for part in parts:
            spec, stream = part.spec, owner(part.spec.name)
            result = results[spec.name]
            history = histories[stream]
            ids = {driver.driver_id for driver in history}
            before = previous.get(spec.name, {})
            alive = self._is_alive(history, now, before)
            recent = _of_this_checkpoint(batches.pop(spec.name), result.log)
            window = Window(
                spec=spec,
                now=now,
                batches=recent,
                older=older.get(spec.name, ()),
                hourly=hourly.get(spec.name, ()),
                measurements=measurements[spec.name],
                drivers=history,
                log=result.log,
                driver_alive=alive,
                wanted_stopped=stream in wanted_stopped,
                restarter=self._restarter(stream, history, alive=alive, wanted=stream not in wanted_stopped),
                state=result.state,
                waiting=result.waiting,
                skipped=skipped.get(spec.name),
                answers=result.answers,
                logs=result.logs,
                table=result.table,
                readings=result.readings,
                quarantined=quarantined.sample(spec, recent) if Probed.QUARANTINED in probed else None,
                gaps=quarantined.gaps(store, spec.name, [event for event in given_up if event.driver_id in ids]),
                previous=before,
                resting=resting[spec.name],
                part=part.part,
                query=part.query,
            )
            yield window, result.problems

    def _fill_in(self, spec: StreamSpec, result: ProbeResult, batches: Sequence[Batch]) -> bool:
        """Fill in from the logs the batches whose report was lost by a kill; True if there were any.

        The runner does this too; here it is for stopped streams. `known` was read before; only a gap in it costs a
        query.
        """
        log = result.log
        if log is None or log.query_id is None or log.committed is None:
            return False
        since = max(0, log.committed - self._look_back + 1)
        stored = {batch.batch_id for batch in batches if batch.query_id == log.query_id and _is_complete(batch)}
        if all(batch in stored for batch in range(since, log.committed + 1)):
            return False
        try:
            filled = fill_missing(self._store, spec.name, log.query_id, result.times, since=since, newest=log.committed)
        except CheckpointError as error:  # it was readable a moment ago: the next evaluation tries again
            _log.warning("%s: the times of lost batches were not filled in: %s", spec.name, error)
            return False
        return filled > 0

    def _drivers(self, stream: str, recent: Sequence[DriverRecord]) -> tuple[DriverRecord, ...]:
        """The drivers of the last day; at least the newest, which may have been launched weeks ago."""
        if recent:
            return tuple(recent)
        newest = self._store.drivers.latest(stream)
        return () if newest is None else (newest,)

    def _is_alive(self, drivers: Sequence[DriverRecord], now: float, before: Mapping[str, Verdict]) -> bool | None:
        if not drivers:
            return None

        def held(lease: Lease) -> bool | None:
            if is_held(lease, now=now, alive=self._alive):
                return True
            # Right after an outage no driver has renewed yet. One whose lease had expired before that had time to.
            return False if any(lease.expires_at <= verdict.at <= now - GRACE for verdict in before.values()) else None

        return driver_alive(drivers[-1], lease_on=self._store.leases.current, held=held, now=now, alive=self._alive)

    def _restarter(
        self, stream: str, drivers: Sequence[DriverRecord], *, alive: bool | None, wanted: bool
    ) -> Restarter:
        if alive is not False or not wanted or not drivers or ended_well(drivers[-1]):
            return Restarter.UNKNOWN
        return restarter(self._store.drivers.events(drivers[-1].driver_id), self._paused(stream))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep Python's garbage collector from going through windows and verdicts again and again: they have no cycles.

    For 1,000 streams it takes a tenth of the evaluation if it runs between two groups.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _is_complete(batch: Batch) -> bool:
    return batch.committed_at is not None or (batch.progress is not None and batch.progress.has_run)


def _before(batches: Sequence[Batch]) -> tuple[str, list[int]] | None:
    """The query of the newest batches, and ids of batches before them, at growing distances; None for no state.

    Each distance is a quarter longer than the one before it, so thirty batches cover a day of short ones.
    """
    newest = next((batch for batch in reversed(batches) if batch.progress is not None and batch.progress.has_run), None)
    if newest is None or newest.progress is None or not newest.progress.operators:
        return None
    oldest = min(batch.batch_id for batch in batches if batch.query_id == newest.query_id)
    back = max(1, newest.batch_id - oldest)
    ids = {0, *(newest.batch_id - round(back * _STEP**exponent) for exponent in range(1, _SAMPLES))}
    earlier = sorted(batch_id for batch_id in ids if 0 <= batch_id < oldest)
    return (newest.query_id, earlier) if earlier else None


def _of_this_checkpoint(batches: Sequence[Batch], log: LogPosition | None) -> tuple[Batch, ...]:
    """The batches of the checkpoint's query; those of an older checkpoint's query are left out."""
    if log is None or log.query_id is None:
        return tuple(batches)
    return tuple(batch for batch in batches if batch.query_id == log.query_id)


RECORDED: Final[Mapping[str, str]] = {
    "state_size": STATE_BYTES,
    "backlog": BACKLOG_SECONDS,
    "memory_usage": MEMORY_BYTES,
}
"""Check -> the measurement that keeps its values: no report of a batch has them."""


def _values(verdicts: Sequence[Verdict], running: Set[str]) -> list[Measurement]:
    """The checks' values as measurements: the store rolls them up, and forecast and charts read them."""
    return [
        Measurement(
            stream=verdict.stream,
            name=RECORDED[verdict.check],
            at=verdict.at,
            value=verdict.value,
            unit=verdict.unit,
            source=f"check {verdict.check}",
        )
        for verdict in verdicts
        if verdict.check in RECORDED and verdict.value is not None and verdict.stream in running
    ]
