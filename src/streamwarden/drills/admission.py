"""Decide whether a live stream may be hit now. Pure: the same drill, status and time give the same answer."""

from collections.abc import Iterable, Iterator, Sequence

from streamwarden.drills.faults.base import Fault
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.records.sections import DrillTarget
from streamwarden.drills.records.types import LiveStatus
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.drills.spec import DrillSpec
from streamwarden.drills.state import RunState
from streamwarden.errors import DrillAborted, DrillError
from streamwarden.health.check_relations import DRILL, OVERDUE
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.supervision.restarter import Restarter


def require_live_fault(fault: Fault, drill: DrillSpec) -> None:
    """Raises DrillAborted if the fault may not hit a live stream."""
    if not fault.live.allowed:
        raise DrillAborted(
            f"{drill.breaks} may not hit the live stream {drill.stream}, because {fault.live.reason}",
            expected="a fault that may hit a live stream, such as kill_driver: the page of the faults says which",
            where=f"fault.kind of the drill {drill.name}",
            next_step="remove `target: production` to drill a fork, or choose another fault",
        )


def admit(drill: DrillSpec, run_id: str, status: LiveStatus, now: float) -> None:
    """Raises DrillAborted with the first reason for which the live stream may not be hit now (Unix seconds)."""
    for refused in _obstacles(drill, run_id, status, now):
        raise refused


def _obstacles(drill: DrillSpec, run_id: str, status: LiveStatus, now: float) -> Iterator[DrillAborted]:
    where = f"drill {drill.name}, stream {drill.stream}"
    yield from _of_hours(drill, now)
    yield from _of_driver(drill, status, where)
    yield from _of_supervision(drill, status, where)
    yield from _of_incidents(relevant(status.incidents, drill), where)
    yield from _of_drills(others(status.drills, drill, run_id), where)


def _of_hours(drill: DrillSpec, now: float) -> Iterator[DrillAborted]:
    hours = drill.production.allowed_hours if drill.production is not None else None
    if hours is not None and now not in hours:
        yield DrillAborted(
            f"it is {hours.clock(now)}, which is outside the allowed hours",
            expected=str(hours),
            where=f"production.allowed_hours of the drill {drill.name}",
            next_step=f"trigger the DAG drill_{drill.name} within these hours",
        )


def _of_driver(drill: DrillSpec, status: LiveStatus, where: str) -> Iterator[DrillAborted]:
    start = f"start it with `streamwarden start {drill.stream}`, and run the drill again"
    if status.stopped or not status.alive:
        observed = "was stopped by a person" if status.stopped else "does not run"
        yield DrillAborted(
            f"the stream {drill.stream} {observed}", expected="a running stream", where=where, next_step=start
        )
    elif not status.here:
        yield DrillAborted(
            f"the driver of {drill.stream} runs on another host, or in a cluster: the drill cannot see its process",
            expected="a driver on the host of the Airflow worker that runs the drill",
            where=where,
            next_step="run the drill's tasks on the driver's host, or drill a fork",
        )


_NOBODY = {
    Restarter.GAVE_UP: "its supervisor gave up",
    Restarter.PAUSED_DAG: "its DAG is paused",
    Restarter.NOTHING: "no supervisor follows its driver",
    Restarter.UNKNOWN: "it is unknown whether its DAG is paused",
}


def _of_supervision(drill: DrillSpec, status: LiveStatus, where: str) -> Iterator[DrillAborted]:
    if status.supervised:
        return
    reason = status.down or _NOBODY.get(status.restarter, "it is stopped")
    yield DrillAborted(
        f"nothing would start {drill.stream} again: {reason}",
        expected="a stream that its DAG, or `streamwarden start --supervise`, starts again when its driver ends",
        where=where,
        next_step=f"unpause the DAG stream_{drill.stream}, and wait until its restart budget allows one more failure",
    )


def relevant(incidents: Iterable[Incident], drill: DrillSpec) -> list[Incident]:
    """The incidents that forbid the drill: all but advice, and those that only a run of this drill can resolve."""
    own = (OVERDUE, f"{DRILL}{drill.name}")
    return [incident for incident in incidents if incident.status is not Status.ADVICE and incident.check not in own]


def _of_incidents(incidents: Sequence[Incident], where: str) -> Iterator[DrillAborted]:
    if incidents:
        named = "; ".join(f"{incident.check}: {incident.reason}" for incident in incidents)
        yield DrillAborted(
            f"the stream has an open incident: {named}",
            expected="no open incident",
            where=where,
            next_step="resolve it first; `streamwarden incidents` says how",
        )


def others(runs: Iterable[DrillRun], drill: DrillSpec, run_id: str) -> list[DrillRun]:
    """The unfinished runs that forbid the drill: any of the same stream, and any on a live stream."""
    return [
        run
        for run in runs
        if run.run_id != run_id and (run.stream == drill.stream or target_of(run) != DrillTarget.FORK)
    ]


def target_of(run: DrillRun) -> DrillTarget:
    """The target of a stored run. One that this version cannot read counts as a live stream."""
    try:
        return RunState.of(run).drill.target
    except DrillError:
        return DrillTarget.PRODUCTION


def _of_drills(runs: Sequence[DrillRun], where: str) -> Iterator[DrillAborted]:
    if runs:
        named = ", ".join(run.run_id for run in runs)
        yield DrillAborted(
            f"another drill has not ended: {named}",
            expected="no other drill of this stream, and none of another live stream",
            where=where,
            next_step="wait until it has ended; a run that was killed is healed by the next run of the same drill",
        )


def last_on_fork(drill: DrillSpec, runs: Iterable[DrillRun]) -> str:
    """The last verdict of the same fault on a fork, in words.

    Args:
        runs: of the same stream, newest first.
    """
    (fault,) = drill.sequence
    for run in runs:
        if run.ended_at is None or target_of(run) is not DrillTarget.FORK:
            continue
        if fault.kind in {other.kind for other in RunState.of(run).drill.sequence}:
            return f"{verdict_word(run)} in the run {run.run_id}: {run.reason}"
    return f"none: {fault.kind} was never drilled on a fork of {drill.stream}"
