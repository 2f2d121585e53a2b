"""The state of each stream, gathered from configuration, store and processes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field

from streamwarden.health.incidents.mutes import Mute, mute_of
from streamwarden.health.shown_verdicts import current_health
from streamwarden.health.signals.executors import latest_snapshot
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.events import EventKind, last_crash, stream_events
from streamwarden.lifecycle.queries import SEPARATOR, Part, QueryRecord, StreamPart, owner, stream_parts
from streamwarden.lifecycle.supervision.heartbeat import silent_since
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.services.overview.facts import RATE_WINDOW, FleetFacts, read_facts
from streamwarden.services.overview.models import Text
from streamwarden.services.workspace import Workspace
from streamwarden.units import DAY

State = Literal[
    "running", "starting", "unresponsive", "unseen", "stopped", "completed", "ended", "down", "new", "broken"
]
"""running: its query runs; starting: its driver is alive, but has no query yet; unresponsive: its driver is alive, but
the JVM does not answer; unseen: its driver is on another host and did not renew its lease in time; stopped: it was
stopped on request; completed: its query ended by itself; ended: this query of several failed or was stopped while its
driver continues; down: its driver ended although the stream should run; new: it never had a driver; broken: its YAML
file cannot be used and no driver is alive."""

T = TypeVar("T")
Hidden = Annotated[T, Field(exclude=True)]
"""A field that the API does not show."""

CRASHES_SINCE: Final = DAY
"""Seconds for which a crash that a restart cured is still shown."""

_UNSEEN: Final = (
    "its driver, on another host, did not renew its lease in time: it has ended, or the store was unavailable, or the "
    "clocks of the two hosts differ; a supervisor finds out within seconds, as does `streamwarden start`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CuredCrash:
    """A crash that a restart followed; `restarted_at` is in Unix seconds."""

    exit: ExitRecord
    restarted_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """The state of one stream, or of one query of several (`STREAM/QUERY`): a line of `status`. `rows.StreamRow` adds
    what pages, API and metrics show, and leaves out what is `Hidden`. Times are Unix seconds, sizes bytes.

    Args:
        executors: how many live, on a cluster; executors_lost: how many this driver has lost. None: unknown, or local.
        malformed: input rows that could not be used.
        not_kept: those of them that the quarantine will never have, because their input was removed too early.
        rows_in_per_second: None: the stream does not run.
        backlog_seconds: value of the check `backlog`, as long as it is current.
        health: the worst verdict of the last evaluation, UNKNOWN in place of OK if that is too long ago;
            health_checks: whose it is, unless it is OK; health_reason: why the first of them says so.
        cured: the newest crash of the last 24 hours, if a restart followed it.
        problem: why the newest driver ended, why it may have, or what is wrong with the file; empty while all is well.
        mute: the mute that covers the whole stream; a mute of single checks is shown with the incidents.
    """

    stream: str
    state: State
    declared: Annotated[bool, Field(description="false: it runs, and its file is gone or cannot be used")] = True
    driver_id: Hidden[str | None] = None
    pid: Hidden[int | None] = None
    since: Annotated[float | None, Field(description="when its query, or else its driver, started")] = None
    executors: Hidden[int | None] = None
    executors_lost: Hidden[int | None] = None
    first_batch_at: Hidden[float | None] = None
    batch_id: int | None = None
    batch_at: Annotated[float | None, Field(description="when the newest batch was committed")] = None
    batches: Hidden[int] = 0
    rows: Hidden[int] = 0
    rows_in_per_second: Annotated[float | None, Field(description="input rows, over the last five minutes")] = None
    malformed: Hidden[int] = 0
    not_kept: Hidden[int] = 0
    state_bytes: Hidden[float | None] = None
    backlog_seconds: float | None = None
    health: Status = Status.UNKNOWN
    health_checks: Annotated[tuple[str, ...], Field(description="the checks with that status, at most three")] = ()
    health_reason: Text = ""
    judged_at: float | None = None
    stale: Annotated[bool, Field(description="the last evaluation is too old to describe the stream")] = False
    open_incidents: int = 0
    restarts: Annotated[int, Field(description="launches after a crash in the last 24 hours")] = 0
    last_exit: Hidden[ExitRecord | None] = None
    cured: Hidden[CuredCrash | None] = None
    problem: Hidden[str] = ""
    log: Hidden[str | None] = None
    mute: Hidden[Mute | None] = None

    @property
    def lacks_driver(self) -> bool:
        """Whether it should run and does not, or may not run."""
        return self.state in ("down", "broken", "unresponsive", "unseen", "ended")

    @property
    def in_trouble(self) -> bool:
        """A stream that runs without a file cannot be restarted. One that was stopped on purpose, or never started, is
        not in trouble, whatever its last verdict was."""
        critical = self.health is Status.CRITICAL and self.state not in ("stopped", "new")
        return self.lacks_driver or not self.declared or critical


def gather(space: Workspace, only: str | None, *, now: float) -> list[StreamStatus]:
    """The status of every stream, or of one: of a stream with several queries its own, then that of each query.

    Args:
        only: a stream, or `STREAM/QUERY`.

    Raises ConfigError for an unknown name, StoreError.
    """
    catalog = space.fleet_catalog()
    names = catalog.names
    if only is not None:
        stream = owner(only)
        if stream not in names:
            catalog.get(stream)
        names = [stream]
    fleet = [_counted(space, status) for status in statuses(space, read_facts(space.store, catalog, names, now))]
    for name in names:
        fleet = _summed(fleet, name)
    return [require(fleet, only)] if only is not None and SEPARATOR in only else fleet


def statuses(space: Workspace, facts: FleetFacts) -> list[StreamStatus]:
    """The status of every stream of `facts`, each followed by those of its queries. The totals since the first batch
    (`batches`, `rows`, `malformed`) are left at 0: they take a scan of each stream. Raises StoreError."""
    fleet: list[StreamStatus] = []
    for name in facts.names:
        whole = _with_crashes(_one(space, name, facts), facts)
        spec = facts.catalog.streams.get(name)
        parts = stream_parts(spec, facts.queries[name], facts.now) if spec is not None else ()
        queries = [_query(part, whole, facts) for part in parts if part.part is Part.QUERY]
        fleet += _with_rates([whole, *queries], facts)
    return [replace(status, mute=mute_of(status.stream, facts.mutes, facts.now)) for status in fleet]


def require(found: list[StreamStatus], name: str) -> StreamStatus:
    """The status of this query. Raises ConfigError if its stream has no such query."""
    from streamwarden.config.loading import unknown

    for status in found:
        if status.stream == name:
            return status
    raise unknown("query", name, [status.stream for status in found], f"see `streamwarden status {owner(name)}`")


def _counted(space: Workspace, status: StreamStatus) -> StreamStatus:
    """The status with the totals since its first batch."""
    total = space.store.batches.summary(status.stream)
    lost = _not_kept(space, status.stream) if total.malformed and SEPARATOR not in status.stream else 0
    return replace(status, batches=total.batches, rows=total.rows, malformed=total.malformed, not_kept=lost)


def _summed(fleet: list[StreamStatus], stream: str) -> list[StreamStatus]:
    """Add its queries' totals to the stream's; a stream with one query has its own."""
    of_queries = [status for status in fleet if owner(status.stream) == stream != status.stream]
    batches, rows = sum(status.batches for status in of_queries), sum(status.rows for status in of_queries)
    return [
        replace(status, batches=status.batches + batches, rows=status.rows + rows)
        if status.stream == stream
        else status
        for status in fleet
    ]


def _with_crashes(whole: StreamStatus, facts: FleetFacts) -> StreamStatus:
    """The stream with its restarts after crashes, and the newest crash if a restart cured it."""
    drivers = facts.drivers[whole.stream]
    events = stream_events(drivers, facts.events_of(whole.stream))
    recent = [event for event in events if event.at > facts.now - CRASHES_SINCE]
    crash, restart = last_crash(recent) or (None, None)
    whole = replace(whole, restarts=sum(event.kind is EventKind.RESTARTED for event in recent))
    if crash is None or restart is None or whole.state not in ("running", "starting"):
        return whole
    exits = {driver.driver_id: driver.exit for driver in drivers}
    exit = exits[crash.driver_id] or ExitRecord(kind=ExitKind.KILLED, ended_at=crash.at, message=crash.why)
    return replace(whole, cured=CuredCrash(exit=exit, restarted_at=restart.at))


def _with_rates(group: list[StreamStatus], facts: FleetFacts) -> list[StreamStatus]:
    """Each running stream with its rows a second; a stream of several queries has the sum of theirs."""
    rates = {status.stream: _rate(status, facts) for status in group}

    def rate(of: str) -> float:
        return sum(value for name, value in rates.items() if of in (name, owner(name)))

    return [
        replace(status, rows_in_per_second=rate(status.stream)) if status.state == "running" else status
        for status in group
    ]


def _rate(status: StreamStatus, facts: FleetFacts) -> float:
    """Rows a second over the part of `RATE_WINDOW` in which the stream existed."""
    flow = facts.flows.get(status.stream)
    age = RATE_WINDOW if status.first_batch_at is None else facts.now - status.first_batch_at
    return 0.0 if flow is None else flow.rows / min(RATE_WINDOW, max(1.0, age))


def _query(part: StreamPart, whole: StreamStatus, facts: FleetFacts) -> StreamStatus:
    """One of several queries: it shares the stream's driver, and has its own everything else."""
    record = part.query
    is_current = record is not None and record.driver_id == whole.driver_id
    state, problem, since = whole.state, whole.problem, None
    if whole.state in ("running", "starting") and not is_current:
        state = "starting"
    elif whole.state == "running" and record is not None:
        since = record.started_at
        if record.ended_at is not None:
            done = record.error is None and record.trigger.available_now
            state = "completed" if done else "ended"
            problem = "" if done else shown_error(record)
    return replace(
        whole,
        stream=part.spec.name,
        state=state,
        since=since,
        executors=None,
        executors_lost=None,
        **_judged_and_done(part.spec.name, facts, stopped=whole.state == "stopped"),
        restarts=0,
        cured=None,
        problem=problem,
    )


def shown_error(record: QueryRecord) -> str:
    """The error of an ended query, in one line."""
    return f"failed: {record.error[:300]}" if record.error else "stopped, its driver goes on"


def _judged_and_done(name: str, facts: FleetFacts, *, stopped: bool) -> dict[str, Any]:
    """The store's facts under this name, a stream's or a query's."""
    last = facts.newest.get(name)
    return {
        "first_batch_at": last.first_at if last else None,
        "batch_id": last.batch_id if last else None,
        "batch_at": last.at if last else None,
        "open_incidents": len(facts.incidents.get(name, ())),
        **_health(facts.verdicts.get(name, ()), facts.now, stopped=stopped),
    }


def _health(verdicts: Sequence[Verdict], now: float, *, stopped: bool) -> dict[str, Any]:
    """Fields from the last evaluation, as far as it still holds at `now`."""
    last = current_health(verdicts, now, stopped=stopped)
    shown, level = last.verdicts, last.status
    values = {verdict.check: verdict.value for verdict in shown}
    bad = [] if level is Status.OK else [verdict for verdict in shown if verdict.status is level]
    return {
        "state_bytes": values.get("state_size"),
        "backlog_seconds": None if last.stale else values.get("backlog"),
        "health": level,
        "health_checks": tuple(verdict.check for verdict in bad)[:3],
        "health_reason": bad[0].reason if bad else "",
        "judged_at": last.judged_at,
        "stale": last.stale,
    }


def _one(space: Workspace, name: str, facts: FleetFacts) -> StreamStatus:
    broken = str(facts.catalog.broken[name]) if name in facts.catalog.broken else ""
    undeclared = str(facts.catalog.undeclared[name]) if name in facts.catalog.undeclared else ""
    record = facts.latest.get(name)
    alive = expired = False
    if record is not None and record.exit is None:
        observation = space.fleet.observe_record(record)
        record, alive, expired = observation.record, observation.alive, observation.expired
    silent = silent_since(facts.events[record.driver_id]) if alive and record is not None else None
    ended = record.exit if record is not None else None
    wanted = facts.wanted.get(name)
    stopped = wanted is not None and wanted.desired is Desired.STOPPED
    executors = latest_snapshot(facts.executors[name], facts.now) if alive else None
    return StreamStatus(
        stream=name,
        state=_state(record, alive=alive, expired=expired, silent=silent, broken=bool(broken), stopped=stopped),
        driver_id=record.driver_id if record else None,
        pid=record.process.pid if alive and record and record.process else None,
        since=(record.started_at or record.launched_at) if alive and record else None,
        executors=executors.active if executors else None,
        executors_lost=executors.lost if executors else None,
        **_judged_and_done(name, facts, stopped=stopped),
        last_exit=ended,
        declared=not (undeclared or (broken and alive)),
        problem=broken or undeclared or (describe(ended) if ended is not None else _doubt(expired, silent, facts.now)),
        log=str(Path(record.folder) / files.LOG) if record else None,
    )


def _state(
    record: DriverRecord | None, *, alive: bool, expired: bool, silent: float | None, broken: bool, stopped: bool
) -> State:
    """The stream's state from its newest driver. Pure."""
    if expired:
        return "unseen"
    if silent is not None:
        return "unresponsive"
    if alive:
        return "running" if record is not None and record.started_at is not None else "starting"
    if broken:
        return "broken"
    if stopped:
        return "stopped"
    if record is None:
        return "new"
    return "completed" if record.exit is not None and record.exit.kind is ExitKind.COMPLETED else "down"


def _doubt(expired: bool, silent: float | None, now: float) -> str:
    """Why a driver without an exit may not run; empty if it runs. Pure."""
    if expired:
        return _UNSEEN
    if silent is None:
        return ""
    return (
        f"its JVM has not answered for {now - silent:.0f} s: it was stopped, or its garbage collector pauses; past "
        "restart.unresponsive_after the driver is killed and restarted"
    )


def _not_kept(space: Workspace, stream: str) -> int:
    """Malformed rows of the batches that the quarantine gave up, each batch once, as long as the store has them."""
    gaps = sorted(
        {
            (event.detail["query_id"], int(event.detail["first"]), int(event.detail["last"]))
            for event in space.store.drivers.events_of(stream, files.QUARANTINE_GAP)
        }
    )
    rows, query, counted = 0, "", -1
    for query_id, first, last in gaps:
        counted = counted if query_id == query else -1
        rows += space.store.batches.malformed(stream, query_id, max(first, counted + 1), last)
        query, counted = query_id, max(counted, last)
    return rows
