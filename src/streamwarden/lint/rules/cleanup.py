"""SW106: state that has a bound, and is not cleaned up."""

from collections.abc import Iterable
from typing import Final

from streamwarden.lifecycle.settings import MAINTENANCE, flag, seconds
from streamwarden.lint.facts import Bound, Facts
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule
from streamwarden.units import format_duration

NO_DATA: Final = "spark.sql.streaming.noDataMicroBatches.enabled"
MOST_MAINTENANCE: Final = 600.0
"""Seconds between two removals of old versions from disk: ten times Spark's default."""

FEWEST: Final = 100
"""Batches without a single removed row after which growth is not the normal start of a stream any more."""


def judge(facts: Facts) -> Iterable[Finding]:
    """State has a bound, and what would apply the bound is off, late or missing."""
    operators = facts.operators() or ()
    where = f"{facts.file}: spark.conf"
    for operator in operators:
        if operator.bound is Bound.UNCLEARED:
            yield RULE.finding(
                facts, f"{operator.name}: {operator.why}", operator.origin, operator.where, severity=Severity.ERROR
            )
    uncertain = not facts.all_known or any(operator.bound is Bound.UNKNOWN for operator in operators)
    if not flag(facts.conf, NO_DATA, True):
        if any(operator.by_event_time for operator in operators):
            observed = f"{NO_DATA} is false: what the last rows closed stays in the state until new rows come"
            yield RULE.finding(facts, observed, FactOrigin.DECLARATION, where)
        elif uncertain:
            observed = f"{NO_DATA} is false, and whether state ends by event time is not known"
            yield RULE.unknown(facts, observed, FactOrigin.DECLARATION, where)
    interval = seconds(facts.conf, MAINTENANCE)
    if interval > MOST_MAINTENANCE and facts.operators() != ():
        observed = f"old versions are removed only every {format_duration(interval)}"
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, where)
    history = facts.history
    bounded = any(operator.bound not in (Bound.NONE, Bound.ONE_ROW, Bound.UNKNOWN) for operator in operators)
    if history is not None and (bounded or uncertain) and history.batches >= FEWEST:
        grown = history.rows_last - history.rows_first
        if history.rows_removed == 0 and grown > 0:
            observed = f"in {history.batches} batches {grown:,} rows came to the state and none was removed"
            severity = None if bounded else Severity.UNKNOWN
            yield RULE.finding(facts, observed, FactOrigin.HISTORY, "the store", severity=severity)


RULE = Rule(
    id="SW106",
    title="Cleanup missing",
    severity=Severity.WARNING,
    reason="A watermark, a timeout or a timer bounds state only if something runs that removes what is past it.",
    reads=(
        f"Processors that register timers and clear nothing; `{NO_DATA}` where state ends by event time; "
        f"`maintenanceInterval` (at most {format_duration(MOST_MAINTENANCE)}); from the history, rows removed in at "
        f"least {FEWEST} batches in which the state grew."
    ),
    remedy=(
        "Clear the state in `handleExpiredTimer`; leave no-data batches on; shorten the maintenance interval. Where "
        "nothing is ever removed, check the watermark: `streamwarden check STREAM` shows whether it moves."
    ),
    judge=judge,
)
