"""SW104: metrics that are not collected."""

from collections.abc import Iterable
from typing import Final

from streamwarden.lifecycle.settings import STATE_STORE, flag, number
from streamwarden.lint.facts import Facts
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule
from streamwarden.stream.spec import Backend

MOST_UNREPORTED: Final = 0.2
"""Of the batches that may lack a report: a kill takes the reports of the last few, no more."""

FEWEST: Final = 10
"""Fewest batches of which a share is computed."""


def judge(facts: Facts) -> Iterable[Finding]:
    """Settings that take numbers out of the reports, and reports that do not come."""
    where = f"{facts.file}: spark.conf"
    if facts.spec.state.backend is Backend.ROCKSDB and not flag(
        facts.conf, f"{STATE_STORE}.rocksdb.trackTotalNumberOfRows", True
    ):
        observed = "trackTotalNumberOfRows is false: every report says that the state has 0 rows"
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, where)
    if number(facts.conf, f"{STATE_STORE}.numStateStoreInstanceMetricsToReport", 5) < 1:
        observed = "numStateStoreInstanceMetricsToReport is 0: no report says which snapshot was uploaded last"
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, where)
    history = facts.history
    if history is not None and history.batches >= FEWEST and history.unreported > MOST_UNREPORTED * history.batches:
        observed = f"{history.unreported} of the newest {history.batches} batches have no report in the store"
        yield RULE.finding(facts, observed, FactOrigin.HISTORY, "the store")


RULE = Rule(
    id="SW104",
    title="Metrics not collected",
    severity=Severity.WARNING,
    reason=(
        "Without rows and bytes the growth of state is invisible: every check on them is UNKNOWN, and the forecast too."
    ),
    reads=(
        "`rocksdb.trackTotalNumberOfRows` and `numStateStoreInstanceMetricsToReport`; from the history, how many of "
        f"the newest batches have no report (more than {MOST_UNREPORTED:.0%} is too many). The runner attaches the "
        "listener to every query, also to a script's."
    ),
    remedy=(
        "Remove the setting. Where reports are lost, see whether drivers are killed, and whether the store is reached."
    ),
    judge=judge,
)
