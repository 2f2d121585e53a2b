"""SW101: state that nothing bounds."""

from collections.abc import Iterable

from streamwarden.lint.facts import Bound, Facts
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule


def judge(facts: Facts) -> Iterable[Finding]:
    """An operator whose state only grows. Without a source that shows all operators, the answer is unknown."""
    if not facts.all_known:
        yield RULE.unknown(facts, _unread(facts), FactOrigin.JOB, facts.job.path)
    for operator in facts.operators() or ():
        if operator.bound is Bound.UNKNOWN and not facts.all_known:
            continue  # the finding above names it
        kind = "" if operator.kind in operator.name else f" ({operator.kind})"
        observed = f"{operator.name}{kind}: {operator.why}"
        declared = facts.spec.state.bounded_by
        if operator.bound is Bound.NONE and declared:
            observed = f"{observed}. It is declared to be bounded by {declared}, and nothing enforces that"
            yield RULE.finding(facts, observed, operator.origin, operator.where, severity=Severity.WARNING)
        elif operator.bound is Bound.NONE:
            yield RULE.finding(facts, observed, operator.origin, operator.where)
        elif operator.bound is Bound.UNKNOWN:
            yield RULE.unknown(facts, observed, operator.origin, operator.where)


def _unread(facts: Facts) -> str:
    if facts.job.problem:
        return f"what state the job keeps is not known: {facts.job.problem}"
    calls = (
        ", ".join(f"{operator.name} ({operator.where})" for operator in facts.job.operators)
        or "no method that keeps state"
    )
    return (
        f"what state the job keeps, and what bounds it, is not known: its text calls {calls}, and only the logical "
        "plan (`lint --plan`) or the checkpoint of a query that has run shows more"
    )


RULE = Rule(
    id="SW101",
    title="Unbounded state",
    severity=Severity.ERROR,
    reason=(
        "State that only grows makes each day slower and larger than the one before, and in the end kills the driver."
    ),
    reads=(
        "Each stateful operator and what removes its rows: a watermark on a column that the operator uses (for a join "
        "on both sides, and in its condition), a time to live of every state variable, timers of a processor that "
        "clears state, a timeout other than NoTimeout. The logical plan shows this (`--plan`), together with the class "
        "of a processor in the job's text; without a plan, the operators in the checkpoint of a query that has run (a "
        "query that has committed ten batches without a watermark, and whose job's text sets none, has no bound). With "
        "neither, the finding is unknown and lists the stateful methods that the job's text calls. Where the stream "
        "declares `state.bounded_by`, a missing bound is a warning."
    ),
    remedy=(
        "Set a watermark on a column that the operator groups by (`dropDuplicatesWithinWatermark` for deduplication), "
        "a time to live (`ttlDurationMs`) on each state variable, or a timer that clears the key. Where the keys are "
        "few by their nature, say so: `state: {bounded_by: the number of customers}`."
    ),
    judge=judge,
)
