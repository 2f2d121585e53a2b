"""Query ended: one query of a script does not run, although its driver and the other queries do."""

from streamwarden.health.check import AMONG_OTHERS, Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import FAILING
from streamwarden.health.signals.stopped import has_ended
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.units import format_duration


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How long the query has not run although its driver does."""
    driver = window.drivers[-1] if window.drivers else None
    if driver is None:
        return CHECK.verdict(window, Status.UNKNOWN, "no driver of this stream is known")
    if driver.exit is not None or window.driver_alive is False:
        return CHECK.verdict(window, Status.OK, "no driver runs, so no query has ended alone", 0.0)
    query = window.query
    if query is None or query.driver_id != driver.driver_id:
        waited = max(0.0, window.now - driver.launched_at)
        status = CHECK.grade(waited, thresholds.of(CHECK.name))
        reason = f"its driver was launched {format_duration(waited)} ago and has not started this query"
        return CHECK.verdict(window, status, reason, waited, {"driver": driver.driver_id})
    evidence: dict[str, object] = {"driver": query.driver_id, "run_id": query.run_id, "checkpoint": query.checkpoint}
    if not has_ended(window) or query.ended_at is None:
        return CHECK.verdict(window, Status.OK, "the query runs", 0.0, evidence)
    since = max(0.0, window.now - query.ended_at)
    ago = f"{format_duration(since)} ago, its driver goes on"
    if query.error is not None:
        reason = f"the query failed {ago}: {query.error[:1000]}"
        return CHECK.verdict(window, Status.CRITICAL, reason, since, evidence)
    if query.trigger.available_now:
        return CHECK.verdict(window, Status.OK, f"the query processed all its input and ended {ago}", 0.0, evidence)
    if window.wanted_stopped:
        return CHECK.verdict(window, Status.OK, f"the query was stopped {ago}, as requested", 0.0, evidence)
    if since <= (within := _others_end_within(window)):
        reason = f"the query was stopped {ago}; a stop or restart may end the others within {format_duration(within)}"
        return CHECK.verdict(window, Status.UNKNOWN, reason, since, evidence)
    return CHECK.verdict(window, Status.WARNING, f"the query was stopped {ago}", since, evidence)


def _others_end_within(window: Window) -> float:
    """Seconds after the first query's end in which a stop or restart ends the driver, however long the batches are."""
    return window.spec.stop.batch_deadline + window.spec.stop.term_deadline


CHECK = Check(
    name="query_ended",
    title="Query ended",
    unit=ValueUnit.SECONDS,
    target="every query of a script runs while its driver does",
    thresholds=limits(
        120.0, 300.0, ValueUnit.SECONDS, "time since the driver's launch, for a query that has not started"
    ),
    judge=check,
    consequence_of=FAILING,
    judges=AMONG_OTHERS,
    reads=(
        "The store's record of each query of a script that starts several: the driver of its newest run, and when and "
        "why that run ended. A query that failed while its driver lives is CRITICAL at once. A query that was "
        "stopped, although its trigger does not end it, is a WARNING after `stop.batch_deadline` + "
        "`stop.term_deadline`, because a stop or restart ends the other queries within that time; it is OK in a stream "
        "that should be stopped. A query that processed all its input (`availableNow`) is OK. A query that the driver "
        "has not started is judged by the time since the driver's launch. A stream with one query has no such verdict, "
        "because its driver ends with the query."
    ),
    unknown=(
        "No driver of the stream is known, or the query was stopped so recently that its driver may be about to end."
    ),
    advice=(
        "Read driver.log for the cause (`streamwarden logs`). `streamwarden restart STREAM` starts all queries of the "
        "script again; the others stop at their batch boundaries, and nothing is lost. If the script no longer starts "
        "this query, remove it from `queries` in the stream's file."
    ),
    source="Design of Streamwarden: a script that waits for one of its queries does not notice that another one died.",
)
