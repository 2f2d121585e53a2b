"""Judges the drills: a drill that did not pass or does not end is an incident until it passes, and a stream with a
drill that is overdue has an incident until the drill begins.

A stream that was stopped on purpose is silent: its drills have no open incident meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.state import was_declined
from streamwarden.health.check_relations import DRILL, OVERDUE
from streamwarden.health.verdict import Status, Verdict
from streamwarden.schedules import last_due
from streamwarden.services.incidents.incident_keeper import keep
from streamwarden.units import format_count, format_duration

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.drills.spec import DrillSpec
    from streamwarden.errors import ConfigError
    from streamwarden.health.incidents.incident import Incident

GRACE: Final = 1800.0
"""Seconds that a scheduled drill may begin late, because other tasks of Airflow have to end first."""

_EARLY: Final = 60.0
"""Seconds by which the clocks of two hosts may differ."""

RUN: Final = "run"
"""Key of the evidence: the id of the run that a verdict is about."""

_LOOK_BACK: Final = 3
"""Runs of a drill that are read. The newest run that ended is among them."""


def drill_verdict(spec: DrillSpec, runs: Sequence[DrillRun], now: float) -> Verdict:
    """The verdict on a drill at `now`: OK if its newest run passed, or if it never ran. Pure.

    An unfinished run counts more than an older run that did not pass.

    Args:
        runs: the drill's newest runs, newest first.
    """
    passed = _verdict(spec.stream, spec.name, now, Status.OK, f"the drill {spec.name} passed")
    return _unfinished(spec, runs, now) or _not_passed(spec, runs, now) or passed


def _verdict(
    stream: str, drill: str, now: float, status: Status, reason: str, advice: str = "", run: str = ""
) -> Verdict:
    evidence = {RUN: run} if run else {}
    return Verdict(
        stream=stream, check=DRILL + drill, status=status, at=now, reason=reason, advice=advice, evidence=evidence
    )


def run_of(incident: Incident) -> str:
    """The id of the drill's run that the incident is about; empty: it is about none."""
    return str(incident.evidence.get(RUN, "")) if incident.check.startswith(DRILL) else ""


def _unfinished(spec: DrillSpec, runs: Sequence[DrillRun], now: float) -> Verdict | None:
    newest = runs[0] if runs else None
    if newest is None or newest.ended_at is not None or now - newest.started_at <= longest_run(spec):
        return None
    lasted = format_duration(now - newest.started_at)
    reason = f"the run {newest.run_id} of the drill {spec.name} began {lasted} ago and has not ended"
    advice = f"read `streamwarden drill show {newest.run_id}` and the log of the DAG drill_{spec.name}"
    return _verdict(spec.stream, spec.name, now, Status.WARNING, reason, advice, newest.run_id)


def longest_run(spec: DrillSpec) -> float:
    """Seconds after which a run that has not ended hangs, or was abandoned."""
    return spec.waits + 2 * spec.longest_step + GRACE


def due_and_missed(spec: DrillSpec, runs: Sequence[DrillRun], since: float | None, now: float) -> float | None:
    """The time at which an overdue drill was due, Unix seconds; None if not overdue. Pure.

    Args:
        runs: the drill's newest runs, newest first.
        since: first observation of Airflow running the drill on its schedule; None if it does not.
    """
    due = last_due(spec.schedule, now - GRACE) if spec.schedule and since is not None else None
    if due is None or since is None or due < since:
        return None
    return None if any(run.started_at >= due - _EARLY for run in runs) else due


def overdue_verdict(stream: str, missed: Mapping[str, float], now: float) -> Verdict:
    """The verdict of the check `drill_overdue` on a stream: WARNING if one of its drills did not begin. Pure. `missed`:
    drill -> when it had to begin, Unix seconds."""
    if not missed:
        return Verdict(stream=stream, check=OVERDUE, status=Status.OK, at=now, reason="no drill is overdue")
    late = ", ".join(f"{name} (due at {_minute(due)})" for name, due in sorted(missed.items()))
    drills = "the drill" if len(missed) == 1 else format_count(len(missed), "drill")
    return Verdict(
        stream=stream,
        check=OVERDUE,
        status=Status.WARNING,
        at=now,
        value=float(len(missed)),
        reason=f"no run began of {drills} {late}",
        advice="check that Airflow's scheduler runs, or run it with `streamwarden drill run NAME`",
    )


def _minute(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _not_passed(spec: DrillSpec, runs: Sequence[DrillRun], now: float) -> Verdict | None:
    newest = next((run for run in runs if run.ended_at is not None), None)
    if newest is None or newest.passed or was_declined(newest):
        return None
    status = Status.CRITICAL if newest.deviated else Status.WARNING
    advice = (
        f"read `streamwarden drill show {newest.run_id}` and fix the cause, then "
        f"{spec.how_to_run}: the incident is resolved when the drill passes"
    )
    reason = f"the drill {spec.name} {_how(newest)}: {newest.reason}"
    return _verdict(spec.stream, spec.name, now, status, reason, advice, newest.run_id)


def _how(run: DrillRun) -> str:
    if run.status is DrillStatus.COMPLETED:
        return "deviated"
    return "was aborted" if run.status is DrillStatus.ABORTED else "failed"


def follow_drills(store: Store, drills: Mapping[str, DrillSpec], broken: Mapping[str, ConfigError], now: float) -> None:
    """Open, update and resolve the incidents of all drills. Raises StoreError.

    Args:
        drills: all drills with a correct file, by name.
        broken: the errors of the other files, by their stems.
    """
    judged = {name: store.journals.recent(drill=name, limit=_LOOK_BACK) for name in drills}
    verdicts = {
        verdict.check: verdict
        for verdict in (
            *(drill_verdict(spec, judged[name], now) for name, spec in drills.items()),
            *_broken(store, broken, now),
        )
    }
    late = [
        overdue_verdict(stream, missed, now)
        for stream, missed in overdue_drills(drills, judged, store.drill_schedules.since(), now).items()
    ]
    gone = [
        Verdict(stream=incident.stream, check=incident.check, status=Status.OK, at=now, reason=_GONE)
        for incident in store.incidents.open()
        if incident.check.startswith(DRILL)
        and incident.check != OVERDUE
        and incident.check.removeprefix(DRILL) not in broken
        and (incident.check not in verdicts or verdicts[incident.check].stream != incident.stream)
    ]
    without = {incident.stream for incident in store.incidents.open() if incident.check == OVERDUE} - {
        verdict.stream for verdict in late
    }
    none = [overdue_verdict(stream, {}, now) for stream in sorted(without)]
    keep(store, (*verdicts.values(), *gone, *late, *none), now)


def overdue_drills(
    drills: Mapping[str, DrillSpec],
    runs: Mapping[str, Sequence[DrillRun]],
    since: Mapping[str, float],
    now: float,
) -> dict[str, dict[str, float]]:
    """Stream -> its overdue drills, each with the time at which it had to begin. Pure. `runs`: of each drill the
    newest, newest first; since: see `due_and_missed`."""
    overdue: dict[str, dict[str, float]] = {spec.stream: {} for spec in drills.values()}
    for name, spec in drills.items():
        if (due := due_and_missed(spec, runs[name], since.get(name), now)) is not None:
            overdue[spec.stream][name] = due
    return overdue


def overdue_now(
    store: Store, drills: Mapping[str, DrillSpec], newest: Mapping[str, DrillRun], now: float
) -> dict[str, dict[str, float]]:
    """As `overdue_drills`. Raises StoreError. `newest`: drill -> its newest run."""
    runs = {name: [newest[name]] if name in newest else [] for name in drills}
    return overdue_drills(drills, runs, store.drill_schedules.since(), now)


_GONE: Final = "the drill is no longer in config/drills, or it drills another stream"


def _broken(store: Store, broken: Mapping[str, ConfigError], now: float) -> Iterator[Verdict]:
    """The drills that ran on their schedules until their files broke. A file that a person is writing is not one."""
    since = store.drill_schedules.since()
    for name, error in broken.items():
        last = store.journals.recent(drill=name, limit=1) if name in since else ()
        if last:
            reason = f"the drill {name} does not run, because its file is broken: {error}"
            advice = "fix the file; `streamwarden validate` checks it"
            yield _verdict(last[0].stream, name, now, Status.WARNING, reason, advice)


def scheduled(drills: Iterable[DrillSpec], is_paused: Callable[[str], bool | None]) -> dict[str, str]:
    """Drill -> schedule, of the drills that Airflow runs by itself. `is_paused`: returns whether the DAG with this id
    is paused; None if that is unknown, which counts as paused."""
    return {drill.name: drill.schedule for drill in drills if drill.schedule and is_paused(DRILL + drill.name) is False}
