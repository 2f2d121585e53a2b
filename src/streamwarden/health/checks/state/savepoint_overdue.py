"""Savepoint overdue: the age of the newest savepoint, in intervals of the stream's schedule."""

from typing import Final

from streamwarden.checkpoint.filesystem import Location
from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.signals.saved import NewestSavepoint, newest_savepoint
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import DeclaredInput, Reading, Window
from streamwarden.units import format_duration


def _read(checkpoint: Location, declared: DeclaredInput) -> NewestSavepoint | None:
    return (
        None
        if declared.savepoints is None
        else newest_savepoint(declared.savepoints.root, declared.savepoints.interval)
    )


NEWEST: Final = Reading(_read)


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How many intervals of the schedule have passed since the newest savepoint of the query that runs now."""
    schedule, log, newest = window.spec.savepoints.schedule, window.log, window[NEWEST]
    if log is None or log.committed is None:
        return CHECK.verdict(window, Status.UNKNOWN, "no batch is committed yet, or the checkpoint was not read")
    if schedule is None:
        return CHECK.not_applicable(window, "the stream's file has no `savepoints.schedule`", 0.0)
    if newest is None:
        return CHECK.verdict(window, Status.UNKNOWN, "the savepoints were not read")
    own = newest.id is not None and newest.query_id == log.query_id
    if own and newest.batch >= log.committed:
        reason = f"the savepoint {newest.id} has the newest committed batch, {newest.batch}"
        return CHECK.verdict(window, Status.OK, reason, 0.0, {"savepoint": newest.id})
    since = newest.taken_at if own else _missed_since(window)
    age, limits_in_force = max(0.0, window.now - since), thresholds.of(CHECK.name)
    value = round(age / newest.interval, 6)
    reason = (
        f"{_which(newest, own)} {format_duration(age)}, {CHECK.shown(value, limits_in_force)} intervals of the "
        f"schedule {schedule} ({CHECK.limits_text(limits_in_force)})"
    )
    if newest.left:
        reason += f"; newer and no savepoint: {', '.join(newest.left)}"
    evidence: dict[str, object] = {"savepoint": newest.id, "since": since, "interval_seconds": newest.interval}
    status = CHECK.grade(value, limits_in_force)
    if not own and status is Status.OK:
        status = Status.UNKNOWN  # not yet due, but nothing can be restored
    return CHECK.verdict(window, status, reason, value, {**evidence, "query_id": log.query_id})


def _missed_since(window: Window) -> float:
    """Since when the query has had no savepoint, as far as the verdicts before this one remember."""
    before = window.previous.get(CHECK.name)
    evidence = {} if before is None else before.evidence
    since, query_id = evidence.get("since"), evidence.get("query_id")
    known = isinstance(since, int | float) and window.log is not None and query_id == window.log.query_id
    return float(since) if known and isinstance(since, int | float) else window.now


def _which(newest: NewestSavepoint, own: bool) -> str:
    if own:
        return f"the newest savepoint, {newest.id}, has batch {newest.batch}, and its age is"
    if newest.id is None:
        return "there has been no savepoint for"
    return f"the newest savepoint, {newest.id}, is of another query; there has been none of this one for"


CHECK = Check(
    name="savepoint_overdue",
    title="Savepoint overdue",
    unit=ValueUnit.TIMES,
    target="< 1.25 intervals of `savepoints.schedule`",
    thresholds=limits(1.25, 3.0, ValueUnit.TIMES, "age of the newest savepoint / interval of the schedule"),
    judge=check,
    readings=(NEWEST,),
    reads=(
        "The manifest of the newest savepoint, of a stream whose file has `savepoints.schedule`: its time, its query "
        "and its batch. A folder without a manifest that can be read is no savepoint. The age is divided by the time "
        "between the two dates of the schedule around the savepoint. One that a person took counts as well. One that "
        "has the newest committed batch is never overdue. A savepoint of another query does not count; without one of "
        "this query its age runs from when this was first seen. The files of the savepoint are not read: `streamwarden "
        "savepoint verify` and the drill `restore_savepoint` do that."
    ),
    unknown="The savepoints cannot be listed, no batch is committed yet, or the first savepoint is not due yet.",
    advice=(
        "Look at the DAG `savepoint_STREAM`: is it unpaused, and why did its last run fail? Take one now: "
        "`streamwarden savepoint create STREAM`. If it cannot be taken so often, change `savepoints.schedule`."
    ),
    source="Design of Streamwarden: a quarter of an interval for the copy, and two savepoints missed in a row.",
)
