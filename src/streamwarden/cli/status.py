"""The state of each stream, gathered from configuration, store and processes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from streamwarden.health.current import current_health
from streamwarden.health.mutes import Mute, mute_of
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.events import EventKind, last_crash, stream_events
from streamwarden.lifecycle.queries import SEPARATOR, Part, QueryRecord, StreamPart, owner, stream_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamwarden.adapters.store.batches import Summary
    from streamwarden.lifecycle.driver import DriverRecord
    from streamwarden.services.workspace import Workspace

State = Literal[
    "running", "starting", "unresponsive", "unseen", "stopped", "completed", "ended", "down", "new", "broken"
]
"""running: its query runs; starting: its driver is alive, but has no query yet; unresponsive: its driver is alive, but
the JVM does not answer; unseen: its driver is on another host and did not renew its lease in time; stopped: it was
stopped on request; completed: its query ended by itself; ended: this query of several failed or was stopped while its
driver continues; down: its driver ended although the stream should run; new: it never had a driver; broken: its YAML
file cannot be used and no driver is alive."""

RATE_WINDOW: Final = 300.0
"""Seconds over which rows a second are averaged."""
CRASHES_SINCE: Final = 86400.0
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
    """One line of `status`. Times are Unix seconds, sizes bytes.

    Args:
        since: when the query of the living driver started, or the driver was launched.
        executors: how many live, on a cluster; executors_lost: how many this driver has lost. None: unknown, or local.
        malformed: input rows that could not be used.
        not_kept: those of them that the quarantine will never have, because their input was removed too early.
        rows_per_second: input rows of the last five minutes, per second; None: the stream does not run.
        backlog_seconds: value of the check `backlog`, as long as it is current.
        worst: the worst verdict of the last evaluation, UNKNOWN in place of OK if that is too long ago; worst_checks:
            whose it is, unless it is OK; worst_reason: why the first of them says so.
        judged_at: when the last evaluation was; unjudged: it is too long ago to say that all is well.
        restarts: launches that followed a crash, in the last 24 hours.
        cured: the newest crash of the last 24 hours, if a restart followed it.
        problem: why the newest driver ended, why it may have, or what is wrong with the file; empty while all is well.
        mute: what keeps everything of the stream from being sent; a mute of single checks is shown with the incidents.
    """

    stream: str
    state: State
    driver_id: str | None = None
    pid: int | None = None
    since: float | None = None
    executors: int | None = None
    executors_lost: int | None = None
    first_batch_at: float | None = None
    last_batch: int | None = None
    last_batch_at: float | None = None
    batches: int = 0
    rows: int = 0
    rows_per_second: float | None = None
    malformed: int = 0
    not_kept: int = 0
    state_bytes: float | None = None
    backlog_seconds: float | None = None
    worst: Status = Status.UNKNOWN
    worst_checks: tuple[str, ...] = ()
    worst_reason: str = ""
    judged_at: float | None = None
    unjudged: bool = False
    incidents: int = 0
    restarts: int = 0
    last_exit: ExitRecord | None = None
    cured: CuredCrash | None = None
    problem: str = ""
    log: str | None = None
    mute: Mute | None = None

    @property
    def lacks_driver(self) -> bool:
        """Whether it should run and does not, or may not run."""
        return self.state in ("down", "broken", "unresponsive", "unseen", "ended")

    @property
    def in_trouble(self) -> bool:
        """A stream that was stopped on purpose, or never started, is not in trouble, whatever its last verdict was."""
        return self.lacks_driver or (self.worst is Status.CRITICAL and self.state not in ("stopped", "new"))


def gather(space: Workspace, only: str | None, *, now: float) -> list[StreamStatus]:
    """The status of every stream, or of one: of a stream with several queries its own, then that of each query.

    Args:
        only: a stream, or `STREAM/QUERY`.

    Raises ConfigError for an unknown name, StoreError.
    """
    catalog = space.catalog()
    names = sorted({*catalog.streams, *catalog.broken})
    if only is not None:
        stream = owner(only)
        if stream not in names:
            catalog.get(stream)
        names = [stream]
    verdicts: dict[str, list[Verdict]] = {}
    for verdict in space.store.verdicts.latest():
        verdicts.setdefault(verdict.stream, []).append(verdict)
    incidents: dict[str, int] = {}
    for incident in space.store.incidents.alarming():
        if not incident.is_root:
            continue
        incidents[incident.stream] = incidents.get(incident.stream, 0) + 1
    records = space.store.queries.of_many(names)
    drivers = space.store.drivers.histories(names, now - CRASHES_SINCE)
    found: list[StreamStatus] = []
    for name in names:
        broken = str(catalog.broken[name]) if name in catalog.broken else ""
        whole = _one(space, name, broken, verdicts.get(name, []), incidents.get(name, 0), now)
        whole = _with_crashes(space, whole, drivers[name], now)
        parts = stream_parts(catalog.streams[name], records[name], now) if name in catalog.streams else ()
        several = [
            _query(space, part, whole, verdicts.get(part.spec.name, []), incidents.get(part.spec.name, 0), now)
            for part in parts
            if part.part is Part.QUERY
        ]
        found += [_with(whole, several), *several]
    found = _with_rates(found, space.store.batches.rows_since([each.stream for each in found], now - RATE_WINDOW), now)
    mutes = space.store.mutes.since(now)
    found = [replace(each, mute=mute_of(each.stream, mutes, now)) for each in found]
    if only is not None and SEPARATOR in only:
        return [require(found, only)]
    return found


def require(found: list[StreamStatus], name: str) -> StreamStatus:
    """The status of this query. Raises ConfigError if its stream has no such query."""
    from streamwarden.config.loading import unknown

    for each in found:
        if each.stream == name:
            return each
    raise unknown("query", name, [each.stream for each in found], f"see `streamwarden status {owner(name)}`")


def _with(whole: StreamStatus, queries: list[StreamStatus]) -> StreamStatus:
    """The stream with what its queries did; a stream with one query did that itself."""
    if not queries:
        return whole
    return replace(
        whole,
        batches=whole.batches + sum(each.batches for each in queries),
        rows=whole.rows + sum(each.rows for each in queries),
    )


def _with_crashes(space: Workspace, whole: StreamStatus, drivers: Sequence[DriverRecord], now: float) -> StreamStatus:
    """The stream with its restarts after crashes, and the newest crash if a restart cured it."""
    killed = [each.driver_id for each in drivers if each.exit is not None and each.exit.kind is ExitKind.KILLED]
    events = stream_events(drivers, {driver_id: space.store.drivers.events(driver_id) for driver_id in killed})
    recent = [each for each in events if each.at > now - CRASHES_SINCE]
    crash, restart = last_crash(recent) or (None, None)
    whole = replace(whole, restarts=sum(each.kind is EventKind.RESTARTED for each in recent))
    if crash is None or restart is None or whole.state not in ("running", "starting"):
        return whole
    exits = {each.driver_id: each.exit for each in drivers}
    exit = exits[crash.driver_id] or ExitRecord(kind=ExitKind.KILLED, ended_at=crash.at, message=crash.why)
    return replace(whole, cured=CuredCrash(exit=exit, restarted_at=restart.at))


def _with_rates(found: list[StreamStatus], recent: Mapping[str, int], now: float) -> list[StreamStatus]:
    """Each running stream with its rows a second; a stream of several queries has the sum of theirs."""
    rates = {each.stream: recent.get(each.stream, 0) / _covered(each, now) for each in found}

    def rate(of: str) -> float:
        return sum(each for name, each in rates.items() if of in (name, owner(name)))

    return [replace(each, rows_per_second=rate(each.stream)) if each.state == "running" else each for each in found]


def _covered(each: StreamStatus, now: float) -> float:
    """Seconds of `RATE_WINDOW` in which the stream existed."""
    age = RATE_WINDOW if each.first_batch_at is None else now - each.first_batch_at
    return min(RATE_WINDOW, max(1.0, age))


def _query(
    space: Workspace, part: StreamPart, whole: StreamStatus, verdicts: list[Verdict], incidents: int, now: float
) -> StreamStatus:
    """One of several queries: it shares the stream's driver, and has its own everything else."""
    record = part.query
    mine = record is not None and record.driver_id == whole.driver_id
    state, problem, since = whole.state, whole.problem, None
    if whole.state in ("running", "starting") and not mine:
        state = "starting"
    elif whole.state == "running" and record is not None:
        since = record.started_at
        if record.ended_at is not None:
            done = record.error is None and record.trigger.available_now
            state = "completed" if done else "ended"
            problem = "" if done else shown_error(record)
    total = space.store.batches.summary(part.spec.name)
    return replace(
        whole,
        stream=part.spec.name,
        state=state,
        since=since,
        executors=None,
        executors_lost=None,
        **_done(total),
        **_health(verdicts, now, stopped=whole.state == "stopped"),
        not_kept=0,
        incidents=incidents,
        restarts=0,
        cured=None,
        problem=problem,
    )


def shown_error(record: QueryRecord) -> str:
    """Why a query of several ended, in one line."""
    return f"failed: {record.error[:300]}" if record.error else "stopped, its driver goes on"


def _done(total: Summary) -> dict[str, Any]:
    """What the store counted."""
    last = total.last
    return {
        "first_batch_at": total.first_at,
        "last_batch": last.batch_id if last else None,
        "last_batch_at": (last.committed_at or (last.progress.at if last.progress else None)) if last else None,
        "batches": total.batches,
        "rows": total.rows,
        "malformed": total.malformed,
    }


def _health(verdicts: list[Verdict], now: float, *, stopped: bool) -> dict[str, Any]:
    """What the last evaluation found, as far as it says something of `now`."""
    last = current_health(verdicts, now, stopped=stopped)
    shown, level = last.verdicts, last.status
    values = {each.check: each.value for each in shown}
    bad = [] if level is Status.OK else [each for each in shown if each.status is level]
    return {
        "state_bytes": values.get("state_size"),
        "backlog_seconds": None if last.stale else values.get("backlog"),
        "worst": level,
        "worst_checks": tuple(each.check for each in bad)[:3],
        "worst_reason": bad[0].reason if bad else "",
        "judged_at": last.judged_at,
        "unjudged": last.stale,
    }


def _one(space: Workspace, name: str, broken: str, verdicts: list[Verdict], incidents: int, now: float) -> StreamStatus:
    from streamwarden.health.executors import latest_snapshot
    from streamwarden.health.series import FRESH
    from streamwarden.lifecycle.heartbeat import silent_since
    from streamwarden.lifecycle.restart import describe
    from streamwarden.lifecycle.stop import Desired

    record = space.store.drivers.latest(name)
    wanted = space.store.stops.desired(name)
    alive = expired = False
    if record is not None and record.exit is None:
        seen = space.fleet.observe(record.driver_id)
        record, alive, expired = seen.record, seen.alive, seen.expired
    silent = silent_since(space.store.drivers.events(record.driver_id)) if alive and record is not None else None
    ended = record.exit if record is not None else None
    state: State
    if expired:
        state = "unseen"
    elif silent is not None:
        state = "unresponsive"
    elif alive:
        state = "running" if record is not None and record.started_at is not None else "starting"
    elif broken:
        state = "broken"
    elif wanted is not None and wanted.desired is Desired.STOPPED:
        state = "stopped"
    elif record is None:
        state = "new"
    elif ended is not None and ended.kind is ExitKind.COMPLETED:
        state = "completed"
    else:
        state = "down"
    executors = latest_snapshot(space.store.measurements.recent(name, now - FRESH), now) if alive else None
    total = space.store.batches.summary(name)
    return StreamStatus(
        stream=name,
        state=state,
        driver_id=record.driver_id if record else None,
        pid=record.process.pid if alive and record and record.process else None,
        since=(record.started_at or record.launched_at) if alive and record else None,
        executors=executors.active if executors else None,
        executors_lost=executors.lost if executors else None,
        **_done(total),
        not_kept=_not_kept(space, name) if total.malformed else 0,
        **_health(verdicts, now, stopped=wanted is not None and wanted.desired is Desired.STOPPED),
        incidents=incidents,
        last_exit=ended,
        problem=broken or (describe(ended) if ended is not None else _doubt(expired, silent, now)),
        log=str(space.fleet.log_path(record.driver_id)) if record else None,
    )


def _doubt(expired: bool, silent: float | None, now: float) -> str:
    """Why the driver, which has not ended, may not run; empty if it does. Pure."""
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
    from streamwarden.lifecycle.folder import QUARANTINE_GAP

    gaps = sorted(
        {
            (event.detail["query_id"], int(event.detail["first"]), int(event.detail["last"]))
            for event in space.store.drivers.events_of(stream, QUARANTINE_GAP)
        }
    )
    rows, query, counted = 0, "", -1
    for query_id, first, last in gaps:
        counted = counted if query_id == query else -1
        rows += space.store.batches.malformed(stream, query_id, max(first, counted + 1), last)
        query, counted = query_id, max(counted, last)
    return rows
