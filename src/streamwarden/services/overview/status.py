"""The state of each stream, gathered from configuration, store and processes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field

from streamwarden.adapters.store.history.batches import Flow
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.mutes import Mute, mute_of
from streamwarden.health.shown_verdicts import current_health
from streamwarden.health.signals.executors import latest_snapshot
from streamwarden.health.verdict import ALARMS, Status, worst_of
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.events import last_crash, stream_events
from streamwarden.lifecycle.queries import SEPARATOR, Part, QueryRecord, StreamPart, owner, stream_parts
from streamwarden.lifecycle.supervision.heartbeat import silent_since
from streamwarden.lifecycle.supervision.pool import pool_state
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.lifecycle.supervision.standby import standby_state
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.services.monitoring.quarantined import gaps
from streamwarden.services.overview.facts import RATE_WINDOW, FleetFacts, read_facts
from streamwarden.services.overview.models import Text
from streamwarden.services.overview.standing import LACKING, SHOWN, SILENT, Standing, standing
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

StandbyWord = Literal["", "starting", "ready"]

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
        malformed: input rows that could not be used, since the first start; malformed_share: of the newest batches.
        not_kept: those of them that the quarantine will never have, because their input was removed too early.
        rows_in_per_second: None: the stream does not run.
        backlog_seconds: value of the check `backlog`, as long as it is current.
        health: the worst of the state, the verdicts of the last evaluation, the open incidents and the newest drill;
            UNKNOWN in place of OK if that evaluation is too long ago. Of a stream with several queries also theirs.
        health_causes: what gives it that status, if it is an alarm: the state, checks, `drill_NAME`; health_reason:
            why the first one that is not its state does.
        open_incidents: without consequences; incident_status: the worst of them and their consequences.
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
    standby: Annotated[
        StandbyWord,
        Field(description="`ready`: a second driver waits to take over; `starting`: it does not yet; else empty"),
    ] = ""
    pool: Annotated[
        str,
        Field(description="`1 of 2`: standbys of its pool that are ready, and how many there are to be; else empty"),
    ] = ""
    group: Annotated[str, Field(description="the group of streams whose JVM it shares; else empty")] = ""
    executors: Hidden[int | None] = None
    executors_lost: Hidden[int | None] = None
    first_batch_at: Hidden[float | None] = None
    batch_id: int | None = None
    batch_at: Annotated[float | None, Field(description="when the newest batch was committed")] = None
    watermark: Annotated[float | None, Field(description="of event time, after the newest batch")] = None
    batches: Hidden[int] = 0
    rows: Hidden[int] = 0
    rows_in_per_second: Annotated[float | None, Field(description="input rows, over the last five minutes")] = None
    malformed: Hidden[int] = 0
    malformed_share: Annotated[float | None, Field(description="of the rows of the newest batches, 0 to 1")] = None
    not_kept: Hidden[int] = 0
    state_bytes: Hidden[float | None] = None
    backlog_seconds: float | None = None
    health: Status = Status.UNKNOWN
    health_causes: Annotated[tuple[str, ...], Field(description="what gives it that status, at most three")] = ()
    health_reason: Text = ""
    judged_at: float | None = None
    stale: Annotated[bool, Field(description="the last evaluation is too old to describe the stream")] = False
    open_incidents: int = 0
    incidents_by_status: Annotated[
        Mapping[Status, int], Field(description="how many of them have each status; one that none has is left out")
    ] = field(default_factory=dict)
    incident_status: Annotated[Status, Field(description="the worst of the open incidents, OK without one")] = Status.OK
    acknowledged_incidents: Annotated[int, Field(description="those of them that a person takes care of")] = 0
    muted_incidents: Annotated[int, Field(description="those of them of which nothing is sent")] = 0
    restarts: Annotated[int, Field(description="launches after a crash in the last 24 hours")] = 0
    last_exit: Hidden[ExitRecord | None] = None
    cured: Hidden[CuredCrash | None] = None
    problem: Hidden[str] = ""
    log: Hidden[str | None] = None
    mute: Hidden[Mute | None] = None
    muted: Annotated[
        str, Field(description="`muted` or `in maintenance`: nothing of the stream is sent; else empty")
    ] = ""
    muted_until: float | None = None

    @property
    def lacks_driver(self) -> bool:
        """Whether it should run and does not, or may not run."""
        return self.state in LACKING

    @property
    def shows_health(self) -> bool:
        """Whether its health says something: nothing is judged while no driver runs and none should."""
        return self.state not in SILENT and (self.state != "completed" or self.health in ALARMS)

    @property
    def in_trouble(self) -> bool:
        """Whether its status is CRITICAL; never that of a stream that was stopped on purpose, or never started."""
        return self.health is Status.CRITICAL and self.state not in SILENT


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
        fleet += _with_rates([_worst_of_queries(whole, queries), *queries], facts)
    return [replace(status, **_muted(status.stream, facts)) for status in fleet]


def _muted(name: str, facts: FleetFacts) -> dict[str, Any]:
    """The mute of the whole stream, as an object and as words."""
    mute = mute_of(name, facts.handling.mutes, facts.now)
    return {"mute": mute, "muted": "" if mute is None else mute.word, "muted_until": mute and mute.over_at}


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
    whole = replace(whole, restarts=sum(event.cures for event in recent))
    if crash is None or restart is None or whole.state not in ("running", "starting"):
        return whole
    exits = {driver.driver_id: driver.exit for driver in drivers}
    exit = exits[crash.driver_id] or ExitRecord(kind=ExitKind.KILLED, ended_at=crash.at, message=crash.why)
    return replace(whole, cured=CuredCrash(exit=exit, restarted_at=restart.at))


def _worst_of_queries(whole: StreamStatus, queries: Sequence[StreamStatus]) -> StreamStatus:
    """The stream with the status of its worst query, if that is worse than its own."""
    worst = max(queries, key=lambda query: query.health.rank, default=whole)
    if worst.health not in ALARMS or worst.health.rank <= whole.health.rank or whole.state in SILENT:
        return whole
    query = worst.stream.partition(SEPARATOR)[2]
    causes = tuple(f"{query}: {cause}" for cause in worst.health_causes)
    return replace(whole, health=worst.health, health_causes=causes, health_reason=worst.health_reason)


def _with_rates(group: list[StreamStatus], facts: FleetFacts) -> list[StreamStatus]:
    """Each running stream with its rows a second; a stream of several queries has the sum of theirs."""
    rates = {status.stream: _rate(status, facts) for status in group}

    def total(of: str) -> float:
        return sum(value for name, value in rates.items() if of in (name, owner(name)))

    return [
        replace(status, rows_in_per_second=total(status.stream)) if status.state == "running" else status
        for status in group
    ]


def _rate(status: StreamStatus, facts: FleetFacts) -> float:
    """Rows a second over the part of `RATE_WINDOW` in which the stream existed."""
    return rate(facts.flows.get(status.stream), status.first_batch_at, facts.now)


def rate(flow: Flow | None, first_batch_at: float | None, now: float) -> float:
    """Rows a second of the batches of `RATE_WINDOW`, of which a young stream has only a part. Pure."""
    age = RATE_WINDOW if first_batch_at is None else now - first_batch_at
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
        standby="",
        pool="",
        executors=None,
        executors_lost=None,
        **_judged_and_done(part.spec.name, state, facts, stopped=whole.state == "stopped", declared=whole.declared),
        restarts=0,
        cured=None,
        problem=problem,
    )


def shown_error(record: QueryRecord) -> str:
    """The error of an ended query, in one line."""
    return f"failed: {record.error[:300]}" if record.error else "stopped, its driver goes on"


def _judged_and_done(name: str, state: State, facts: FleetFacts, *, stopped: bool, declared: bool) -> dict[str, Any]:
    """The store's facts under this name, a stream's or a query's."""
    last, incidents = facts.newest.get(name), facts.incidents.get(name, ())
    return {
        "first_batch_at": last.first_at if last else None,
        "batch_id": last.batch_id if last else None,
        "batch_at": last.at if last else None,
        "watermark": last.watermark if last else None,
        **_opened(incidents),
        **_handled(incidents, facts),
        "incident_status": worst_of((Status.OK, *(incident.status for incident in incidents))),
        **_health(name, state, facts, stopped=stopped, declared=declared),
    }


def _opened(incidents: Sequence[Incident]) -> dict[str, Any]:
    """How many of these incidents are no consequence, in all and of each status."""
    found = Counter(incident.status for incident in incidents if incident.is_root)
    return {"open_incidents": found.total(), "incidents_by_status": dict(found)}


def _handled(incidents: Sequence[Incident], facts: FleetFacts) -> dict[str, Any]:
    """How many of these incidents a person takes care of, and of how many nothing is sent."""
    handling, roots = facts.handling, [incident for incident in incidents if incident.is_root]
    acknowledged = [found for incident in roots if (found := handling.acknowledged(incident)) is not None]
    return {
        "acknowledged_incidents": len(acknowledged),
        "muted_incidents": sum(handling.muted(incident, facts.now) is not None for incident in roots),
    }


def _health(name: str, state: State, facts: FleetFacts, *, stopped: bool, declared: bool) -> dict[str, Any]:
    """Fields from the last evaluation, as far as it still holds, and the status that it gives with everything else."""
    last = current_health(facts.verdicts.get(name, ()), facts.now, stopped=stopped)
    values = {verdict.check: verdict.value for verdict in last.verdicts}
    drill = facts.ended_drills.get(owner(name))
    return {
        "state_bytes": values.get("state_size"),
        "backlog_seconds": None if last.stale else values.get("backlog"),
        "malformed_share": None if last.stale else values.get("malformed_rows"),
        "judged_at": last.judged_at,
        "stale": last.stale,
        **_stands(standing(state, last.verdicts, facts.incidents.get(name, ()), drill, declared=declared)),
    }


def _stands(found: Standing) -> dict[str, Any]:
    """The status as fields."""
    return {
        "health": found.status,
        "health_causes": tuple(cause.name for cause in found.causes)[:SHOWN],
        "health_reason": next((cause.reason for cause in found.causes if cause.reason), ""),
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
    state = _state(record, alive=alive, expired=expired, silent=silent, broken=bool(broken), stopped=stopped)
    declared = not (undeclared or (broken and alive))
    return StreamStatus(
        stream=name,
        state=state,
        driver_id=record.driver_id if record else None,
        pid=record.process.pid if alive and record and record.process else None,
        since=(record.started_at or record.launched_at) if alive and record else None,
        standby=_standby(facts.events[record.driver_id]) if alive and record is not None else "",
        pool=pool_state(facts.events[record.driver_id]) if alive and record is not None else "",
        group=(facts.catalog.streams[name].group or "") if name in facts.catalog.streams else "",
        executors=executors.active if executors else None,
        executors_lost=executors.lost if executors else None,
        **_judged_and_done(name, state, facts, stopped=stopped, declared=declared),
        last_exit=ended,
        declared=declared,
        problem=broken or undeclared or (describe(ended) if ended is not None else _doubt(expired, silent, facts.now)),
        log=str(Path(record.folder) / files.LOG) if record else None,
    )


def _standby(events: Sequence[DriverEvent]) -> StandbyWord:
    """The state of a living driver's standby, in a word. Pure."""
    standby = standby_state(events)
    if standby is None:
        return ""
    return "ready" if standby.ready else "starting"


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
    """Malformed rows of the batches that the quarantine gave up, as long as the store has these batches."""
    events = space.store.drivers.events_of(stream, files.QUARANTINE_GAP)
    return sum(gap.rows or 0 for gap in gaps(space.store, stream, events))
