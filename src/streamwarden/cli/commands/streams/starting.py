"""Starts a stream and reports what happened: its first batch, or the end of its driver."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from streamwarden.adapters.processes import this_host
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import LogPosition, log_position
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.exit_report import report_exit
from streamwarden.cli.output import say, text
from streamwarden.errors import ProcessError, StreamwardenError
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.hosts.report import host_name
from streamwarden.lifecycle.queries import QueryRecord
from streamwarden.lifecycle.supervision.restarter import restarts_elsewhere
from streamwarden.services.analysis.jobs import job_facts
from streamwarden.services.analysis.linting import job_problem
from streamwarden.services.fleet.exits.exit_recorder import Observation
from streamwarden.services.fleet.starting import Started
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_duration
from streamwarden.waiting import wait_until

PLANNED_WITHIN: Final = 10.0
"""Seconds after the start of a query in which its first batch is planned if there is input to read."""

COMMITTED_WITHIN: Final = 30.0
"""Seconds after the start of a query that `start` waits for the end of its first batch, which may take hours."""


def startable(space: Workspace, stream: str) -> StreamSpec:
    """The stream. Raises ConfigError if its file is broken, or its driver would refuse its job."""
    spec = space.stream(stream)
    problem = job_problem(spec)
    if problem is not None:
        raise problem
    return spec


def report_start(space: Workspace, spec: StreamSpec, started: Started, *, within: float) -> int:
    """Wait for the first batch of each query and print what happened. Exit code 1 if a query or the driver failed.

    Args:
        within: seconds until every query runs; 0: report the launch only.
    """
    record = started.record
    what = "runs already" if started.reattached else "launched"
    pid = f", pid {record.process.pid}" if record.process else ""
    say(f"{text(record.stream)}: driver {text(record.driver_id)} {what}{pid}")
    if started.reattached and record.process:
        say(f"  on host {text(record.process.host)}, checkpoint {text(record.checkpoint)}")
    say(f"  log: {text(space.fleet.log_path(record.driver_id))}")
    if within <= 0:
        return Exit.OK
    observation, starts = await_queries(space, spec, record.driver_id, within)
    patience = 0.0 if started.reattached else min(within, COMMITTED_WITHIN)
    observation, batches = await_batches(space, spec, observation, starts, patience)
    what = "runs" if started.reattached else "started"
    for query in starts.running:
        batch = batches[query.query_id]
        if observation.alive or batch.state is BatchState.COMMITTED:
            say(f"  query {text(query.name or spec.name)} {what}; {batch.summary}")
    if not observation.alive:
        return report_exit(observation)
    return _report_failed(starts_now(space, spec, record.driver_id))


def _report_failed(starts: Starts) -> int:
    from streamwarden.services.overview.status import shown_error

    for query in starts.failed:
        say(f"  [bold red]query {text(query.name)} {text(shown_error(query))}[/]")
    return Exit.BAD if starts.failed else Exit.OK


def is_left_to_its_supervisor(space: Workspace, ended: DriverRecord) -> bool:
    """Whether another host starts the stream again. Raises StoreError."""
    return restarts_elsewhere(ended, space.store.drivers.events(ended.driver_id), this_host())


def report_restart_elsewhere(space: Workspace, spec: StreamSpec, ended: DriverRecord, *, within: float) -> int:
    """Wait for the next driver of a stream that another host starts again, and report it as `report_start` does.

    Raises ProcessError if there is none after `within` seconds; 0: do not wait.
    """
    host = host_name(ended.process.host) if ended.process is not None else "another host"
    say(f"{text(spec.name)}: its supervisor starts it again, as it ran on {text(host)}")
    if within == 0.0:
        return Exit.OK

    def next_one() -> DriverRecord | None:
        newest = space.store.drivers.latest(spec.name)
        return newest if newest is not None and newest.driver_id != ended.driver_id else None

    if not wait_until(lambda: next_one() is not None, within=within, every=_POLL) or (record := next_one()) is None:
        raise ProcessError(
            f"no driver was started within {format_duration(within)}",
            expected="its DAG or `start --supervise` to start one",
            where=f"stream {spec.name}",
            next_step=f"see `streamwarden hosts`; `streamwarden start {spec.name}` starts it on this host",
        )
    return report_start(space, spec, Started(record, reattached=False), within=within)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """The queries that a driver has started, and those that it should start.

    Args:
        declared: names of all that should run; empty: they are counted only.
        count: how many should run, as far as anybody knows.
    """

    started: tuple[QueryRecord, ...]
    declared: tuple[str, ...] = ()
    count: int = 1

    @property
    def running(self) -> tuple[QueryRecord, ...]:
        """Queries that run, or have processed all input."""
        return tuple(query for query in self.started if query.error is None)

    @property
    def failed(self) -> tuple[QueryRecord, ...]:
        return tuple(query for query in self.started if query.error is not None)

    @property
    def missing(self) -> tuple[str, ...]:
        names = {query.name for query in self.started}
        return tuple(name for name in self.declared if name not in names)

    @property
    def complete(self) -> bool:
        return not self.missing and len(self.started) >= self.count


def starts_of(spec: StreamSpec, known: Sequence[QueryRecord], driver_id: str, count: int | None) -> Starts:
    """The starts of `driver_id`. Pure.

    Args:
        known: the records of the stream's queries.
        count: how many queries the job starts, by its text; None where the text does not say.
    """
    declared = tuple(spec.queries)
    return Starts(
        started=tuple(query for query in known if query.driver_id == driver_id),
        declared=declared,
        count=len(declared) or count or 1,
    )


def starts_now(space: Workspace, spec: StreamSpec, driver_id: str) -> Starts:
    """The starts of `driver_id` until now. Raises StoreError."""
    return starts_of(spec, space.store.queries.of(spec.name), driver_id, job_facts(spec).queries)


def await_queries(space: Workspace, spec: StreamSpec, driver_id: str, within: float) -> tuple[Observation, Starts]:
    """Wait until the driver has started all its queries, or has ended. Raises ProcessError after `within` seconds."""

    def complete() -> bool:
        return starts_now(space, spec, driver_id).complete

    try:
        seen = space.fleet.wait(driver_id, timeout=within, until=lambda seen: not seen.alive or complete())
    except ProcessError as error:
        raise not_all(starts_now(space, spec, driver_id), within, error) from error
    return seen, starts_now(space, spec, driver_id)


def not_all(starts: Starts, within: float, error: ProcessError) -> ProcessError:
    """The error for a driver that has started only some of its queries, or none."""
    names = ", ".join(query.name or query.query_id for query in starts.started)
    absent = f"; not started: {', '.join(starts.missing)}" if starts.missing else ""
    return ProcessError(
        f"{len(starts.started)} of {starts.count} {'query' if starts.count == 1 else 'queries'} started within "
        f"{format_duration(within)}{': ' if names else ''}{names}{absent}",
        expected="every query that the stream's file declares" if starts.declared else "every query in the job's text",
        where=error.where,
        next_step=f"{error.next_step}; the driver continues: `streamwarden status` shows its queries",
    )


class BatchState(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class FirstBatch:
    """The progress of a query since its start."""

    state: BatchState
    batch: int | None = None

    @property
    def summary(self) -> str:
        if self.state is BatchState.WAITING:
            return "no batch yet: it waits for input"
        return f"batch {self.batch} is {self.state.value}"

    def settled(self, waited: float, patience: float) -> bool:
        """Whether `start` waits no longer, `waited` seconds after the query started."""
        if self.state is BatchState.COMMITTED or waited >= patience:
            return True
        return self.state is BatchState.WAITING and waited >= PLANNED_WITHIN


def first_batch(position: LogPosition | None, since: float) -> FirstBatch:
    """The newest batch of a query that started at `since`, Unix seconds. Pure.

    Args:
        position: None if the logs cannot be read yet.
    """
    if position is None:
        return FirstBatch(BatchState.WAITING)
    if position.committed_at is not None and position.committed_at >= since:
        return FirstBatch(BatchState.COMMITTED, position.committed)
    if position.gap > 0:
        return FirstBatch(BatchState.RUNNING, position.planned)
    return FirstBatch(BatchState.WAITING)


def await_batches(
    space: Workspace, spec: StreamSpec, seen: Observation, starts: Starts, patience: float
) -> tuple[Observation, Mapping[str, FirstBatch]]:
    """Wait until each running query has committed a batch, waits for input, or the driver has ended.

    Returns the newest observation and query id -> its first batch.
    """
    began = time.monotonic()
    while True:
        batches = {query.query_id: first_batch(_position(query, spec), query.started_at) for query in starts.running}
        waited = time.monotonic() - began
        if not seen.alive or all(batch.settled(waited, patience) for batch in batches.values()):
            return seen, batches
        time.sleep(_POLL)
        seen = space.fleet.observe(seen.record.driver_id)


_POLL: Final = 0.25


def _position(query: QueryRecord, spec: StreamSpec) -> LogPosition | None:
    with contextlib.suppress(StreamwardenError, OSError):
        return log_position(open_path(query.checkpoint, spec.storage.connection))
    return None
