"""SW101: state that nothing bounds."""

from __future__ import annotations

from collections.abc import Iterable

from streamwarden.lint.facts import Bound, Facts
from streamwarden.lint.finding import Finding, Origin, Severity
from streamwarden.lint.rule import Rule


def judge(facts: Facts) -> Iterable[Finding]:
    """An operator whose state only grows; with no source that tells the operators, nobody knows."""
    if not facts.all_known:
        why = facts.job.problem or "its steps cannot be followed from the source to the result"
        yield RULE.unknown(facts, f"what state the job keeps is not known: {why}", Origin.JOB, facts.job.path)
    for each in facts.operators() or ():
        kind = "" if each.kind in each.name else f" ({each.kind})"
        observed = f"{each.name}{kind}: {each.why}"
        declared = facts.spec.state.bounded_by
        if each.bound is Bound.NONE and declared:
            told = f"{observed}. It is declared to be bounded by {declared}, and nothing enforces that"
            yield RULE.finding(facts, told, each.origin, each.where, severity=Severity.WARNING)
        elif each.bound is Bound.NONE:
            yield RULE.finding(facts, observed, each.origin, each.where)
        elif each.bound is Bound.UNKNOWN:
            yield RULE.unknown(facts, observed, each.origin, each.where)


RULE = Rule(
    id="SW101",
    title="Unbounded state",
    severity=Severity.ERROR,
    reason=(
        "State that only grows makes each day slower and larger than the one before, and in the end kills the driver."
    ),
    reads=(
        "Each stateful operator and what removes its rows: a watermark on a column that the operator uses (for a "
        "join on "
        "both sides, and in its condition), a time to live of every state variable, timers of a processor that clears "
        "state, a timeout other than NoTimeout. From the logical plan if it was asked for, else from the job's "
        "text, else "
        "from the checkpoint's operators (a query that has committed without a watermark has none). Where the stream "
        "declares `state.bounded_by`, it is a warning: somebody has thought of it."
    ),
    remedy=(
        "Set a watermark on a column that the operator groups by (`dropDuplicatesWithinWatermark` for deduplication), "
        "a time to live (`ttlDurationMs`) on each state variable, or a timer that clears the key. Where the keys are "
        "few by their nature, say so: `state: {bounded_by: the number of customers}`."
    ),
    judge=judge,
)
