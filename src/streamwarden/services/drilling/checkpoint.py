"""Reads a fork's checkpoint for a drill: positions, times, batches, uploaded snapshots.

Times are those of the files. An object store may report them in whole seconds, and by its own clock.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.batch_progress import BatchTraces, ListedOutput, manifest_output, read_traces
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import COMMITS, OFFSETS
from streamwarden.checkpoint.formats.logs import (
    LogPosition,
    committed_times,
    log_position,
    offsets,
    planned_times,
    read_query_id,
    unreadable,
    written_at,
)
from streamwarden.checkpoint.formats.state import SSTS, StateFile, StateStore, state_stores
from streamwarden.drills.records.exercised import NotExercised
from streamwarden.drills.records.phases import BatchCourse
from streamwarden.drills.records.types import BatchFact, ForkView, PlanTimes
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.forks.scripts import ForkQuery, OutputKind
from streamwarden.lifecycle.forks.started import fork_queries
from streamwarden.lifecycle.handovers import Handover, ran_again, read_handovers
from streamwarden.lifecycle.location import same_place
from streamwarden.lifecycle.recovery import SnapshotFacts
from streamwarden.lifecycle.script_queries import WritingFunction
from streamwarden.lint.batch_id import appends
from streamwarden.progress import Progress
from streamwarden.services.analysis.jobs import job_facts
from streamwarden.services.forks.scripts import unplanned
from streamwarden.sinks.base import Sink
from streamwarden.sources.base import Source
from streamwarden.stream.spec import ForeachBatch, ScriptFork, StreamSpec

_DAY: Final = 86400.0

_FRESH: Final = 1.0
"""Seconds for which the list of a fork's drivers is kept. A new driver needs longer for its first batch."""

_MOST: Final = 10_000
"""Batches of one fork that are read back from the store."""


class ForkCheckpoint:
    """Implements `drills.ports.CheckpointReader`. Never writes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: tuple[str, float, Sequence[DriverRecord]] = "", 0.0, ()

    def position(self, fork: ForkView) -> LogPosition:
        return log_position(_checkpoint(fork))

    def commit_time(self, fork: ForkView, batch: int) -> float | None:
        return _written_at(fork, COMMITS, batch)

    def plan_times(self, fork: ForkView, batch: int) -> PlanTimes | None:
        """The time in `offsets/batch`, and the one of that file."""
        storage = _written_at(fork, OFFSETS, batch)
        try:
            driver = offsets(_checkpoint(fork), batch).timestamp_ms / 1000
        except CheckpointError:
            return None
        return None if storage is None else PlanTimes(driver=driver, storage=storage)

    def is_planned(self, fork: ForkView, batch: int) -> bool:
        """Whether `offsets/batch` is there; Spark publishes it whole, by a rename."""
        return _written_at(fork, OFFSETS, batch) is not None

    def is_committed(self, fork: ForkView, batch: int) -> bool:
        return _written_at(fork, COMMITS, batch) is not None

    def unplanned(self, fork: ForkView) -> int:
        """Input files that the logs of the fork's sources do not have; records that its newest offsets do not reach."""
        if fork.spec.fork is not None:
            query = _timed(fork)
            return 0 if query is None else unplanned(query, fork.spec.storage.connection)
        source = fork.spec.source
        assert isinstance(source, Source)  # no other source can be forked
        return source.unplanned(fork.spec)

    def traces(self, fork: ForkView, batch: int) -> BatchTraces:
        return read_traces(_checkpoint(fork), _listed_output(fork), batch)

    def course(self, fork: ForkView, batch: int) -> BatchCourse:
        """By what the function's driver recorded; else by the sink's files, if the fork is on this host."""
        committed = {number: _written_at(fork, COMMITS, number) for number in (batch - 1, batch)}
        return self._course(fork, batch, _written_at(fork, OFFSETS, batch), committed, self._calls(fork))

    def courses(self, fork: ForkView, batches: Sequence[int]) -> Sequence[BatchCourse]:
        checkpoint, calls = _checkpoint(fork), self._calls(fork)
        planned, committed = planned_times(checkpoint), committed_times(checkpoint)
        return [self._course(fork, batch, planned.get(batch), committed, calls) for batch in batches]

    def _calls(self, fork: ForkView) -> Sequence[Handover]:
        return [call for driver in self._handovers(fork) for call in driver]

    def _course(
        self,
        fork: ForkView,
        batch: int,
        planned_at: float | None,
        committed: Mapping[int, float | None],
        calls: Sequence[Handover],
    ) -> BatchCourse:
        committed_at, before = committed.get(batch), committed.get(batch - 1)
        warm = self._is_warm(fork, before, committed_at)
        course = BatchCourse(planned_at=planned_at, committed_at=committed_at, shown=bool(calls), warm=warm)
        call = next((call for call in reversed(calls) if call.batch == batch), None)
        if call is not None:
            began, over, wrote = call.began_at, call.handed_over_at, call.wrote
            return replace(course, writing_at=began, written_at=over, wrote=wrote, function=True)
        local = "://" not in f"{fork.checkpoint}{fork.output}"
        if calls or planned_at is None or not local or _listed_output(fork) is None:
            return course
        traces = self.traces(fork, batch)
        return replace(
            course, writing_at=traces.files_at, written_at=traces.listed_at, wrote=traces.files > 0, shown=True
        )

    def _is_warm(self, fork: ForkView, before: float | None, committed: float | None) -> bool:
        """Whether no driver was launched between the commit before and the end of the batch."""
        until = math.inf if committed is None else committed
        launches = [record.launched_at for record in self._records(fork)]
        return before is not None and not any(before < launch < until for launch in launches)

    def not_exercised(self, fork: ForkView) -> Sequence[NotExercised]:
        script = fork.spec.fork
        if script is None:
            again = ran_again(self._handovers(fork), log_position(_checkpoint(fork)).query_id)
            return [_of_job(fork.spec)] if again is False else []
        drivers = self._drivers(fork)
        queries = [query for query in fork_queries(fork.spec) if query.kind is OutputKind.CAPTURE]
        return [_of_query(script, query) for query in queries if not _ran_again(script, query, drivers)]

    def _handovers(self, fork: ForkView) -> Sequence[Sequence[Handover]]:
        """Of each driver of the fork the calls of the function that gets the rows of `_checkpoint`."""
        query = read_query_id(_checkpoint(fork))
        return [[call for call in driver if call.query_id in (query, "")] for driver in self._drivers(fork)]

    def _drivers(self, fork: ForkView) -> Sequence[Sequence[Handover]]:
        """Of each driver of the fork what it recorded, the first driver first."""
        return [read_handovers(Path(record.folder)) for record in self._records(fork)]

    def _records(self, fork: ForkView) -> Sequence[DriverRecord]:
        """The drivers of the fork, the first one first; of a live stream those of the last day."""
        stream, until, records = self._kept
        now = time.monotonic()
        if stream != fork.stream or now > until:  # a fault asks every few milliseconds
            records = self._store.drivers.history(fork.stream, time.time() - _DAY if fork.live else 0.0)
            self._kept = fork.stream, now + _FRESH, records
        return records

    def batches(self, fork: ForkView) -> Sequence[BatchFact]:
        """Every batch that the fork itself logged, with Spark's numbers if its progress report survived."""
        checkpoint = _checkpoint(fork)
        planned, committed = planned_times(checkpoint), committed_times(checkpoint)
        query = log_position(checkpoint).query_id  # a fork that was remediated had another one before
        reports = {
            batch.batch_id: batch.progress
            for batch in self._store.batches.window(self._name(fork), _MOST)
            if batch.progress is not None and batch.progress.query_id == query
        }
        first = 0 if fork.batch is None else fork.batch + 1
        return tuple(
            _fact(batch, planned.get(batch), committed.get(batch), reports.get(batch))
            for batch in sorted(planned.keys() | committed.keys())
            if batch >= first
        )

    def _name(self, fork: ForkView) -> str:
        """The name under which the store keeps the batches of `_checkpoint`."""
        queries = self._store.queries.of(fork.stream) if fork.spec.fork is not None else ()
        first = _place(fork)
        return next((query.identity for query in queries if same_place(query.checkpoint, first)), fork.stream)

    def snapshot(self, fork: ForkView) -> SnapshotFacts:
        """The newest uploaded snapshot of each partition; the oldest of these bounds what a restart replays."""
        backend = fork.spec.state.backend
        stores = state_stores(_checkpoint(fork))
        newest = [_newest_snapshot(store) for store in stores]
        snapshots = [file for file in newest if file is not None]
        complete = bool(snapshots) and len(snapshots) == len(newest)
        return SnapshotFacts(
            backend=backend,
            version=min(file.version for file in snapshots) if complete else None,
            size=sum(file.size for file in snapshots) + sum(_table_bytes(store) for store in stores),
        )


def _checkpoint(fork: ForkView) -> Location:
    return open_path(_place(fork), fork.spec.storage.connection)


def _place(fork: ForkView) -> str:
    """The checkpoint whose batches time the fault and the recovery: see `_timed`. No batch has the name of a query, so
    that the root is an empty checkpoint until one has started."""
    query = _timed(fork)
    return fork.checkpoint if query is None else query.checkpoint


def _timed(fork: ForkView) -> ForkQuery | None:
    """The query of a script that a fault aims at: the first whose rows are captured, since its own output may not know
    a batch that runs again; else the first with an output. None: no query has started, or it is no script."""
    queries = fork_queries(fork.spec)
    captured = (query for query in queries if query.kind is OutputKind.CAPTURE)
    return next(captured, next(iter(queries), None))


def _ran_again(script: ScriptFork, query: ForkQuery, drivers: Sequence[Sequence[Handover]]) -> bool:
    """Whether the script's own function got a batch again. A capture in place of it shows nothing."""
    position = log_position(open_path(query.checkpoint))
    return _is_called(script, query) and ran_again(drivers, position.query_id) is True


def _is_called(script: ScriptFork, query: ForkQuery) -> bool:
    return script.foreach_batch is ForeachBatch.RUN and query.has_function


def _of_query(script: ScriptFork, query: ForkQuery) -> NotExercised:
    function, called = query.function, _is_called(script, query)
    if function is None:
        return NotExercised(what=query.instead_of, called=called)
    return NotExercised(what=str(function), called=called, appends=_appends(function))


def _of_job(spec: StreamSpec) -> NotExercised:
    """The function of a job with `build`, or of Streamwarden's own sink."""
    given = next((use for use in job_facts(spec).sinks if use.function is not None), None)
    if given is None:
        return NotExercised(what="the function that writes the batches")
    return NotExercised(what=str(given.function), appends=given.uses_batch_id is False)


def _appends(function: WritingFunction) -> bool:
    try:
        return appends(Path(function.file).read_text(encoding="utf-8"), function.line, function.bound)
    except (OSError, UnicodeDecodeError):
        return False


def _listed_output(fork: ForkView) -> ListedOutput | None:
    """The output of the query that a fault aims at; None: its sink lists no files."""
    spec, sink = fork.spec, fork.spec.sink
    if spec.fork is None:
        if not isinstance(sink, Sink) or sink.LOG is None:
            return None
        return ListedOutput(open_path(str(sink.path), spec.storage.connection), sink.LOG, partial(sink.listed_at, spec))
    query = _timed(fork)
    if query is None or query.kind is not OutputKind.FILES:
        return None
    return manifest_output(open_path(str(query.output), spec.storage.connection))


def _written_at(fork: ForkView, log: str, batch: int) -> float | None:
    checkpoint = _checkpoint(fork)
    try:
        return written_at(checkpoint, log, batch)
    except OSError as error:
        raise unreadable(checkpoint, error) from error


def _newest_snapshot(store: StateStore) -> StateFile | None:
    return max((file for file in store.files if file.kind.is_snapshot), key=lambda file: file.version, default=None)


def _table_bytes(store: StateStore) -> int:
    """Bytes of all SSTs of a RocksDB store. Its snapshots share them: the newest one has at most these."""
    return sum(size for name, size in store.other.items() if name.startswith(SSTS))


def _fact(batch: int, planned: float | None, committed: float | None, report: Progress | None) -> BatchFact:
    return BatchFact(
        batch_id=batch,
        planned_at=planned,
        committed_at=committed,
        rows=report.rows if report is not None else None,
        rows_changed=report.rows_changed if report is not None else None,
    )
