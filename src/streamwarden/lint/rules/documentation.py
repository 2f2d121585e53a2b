"""SW110: state without a description."""

from collections.abc import Iterable

from streamwarden.lint.facts import Facts
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule


def judge(facts: Facts) -> Iterable[Finding]:
    """A stateful job whose docstring has no part on its state."""
    if facts.job.problem:
        yield RULE.unknown(facts, f"the job was not read: {facts.job.problem}", FactOrigin.JOB, facts.job.path)
        return
    operators = facts.operators()
    if operators == () or facts.job.documented:
        return
    if operators is None:
        observed = "the docstring does not describe the state; whether the job keeps any is not known"
        yield RULE.unknown(facts, observed, FactOrigin.JOB, facts.job.path)
        return
    observed = f"the docstring has no paragraph that begins with `State`, and the job uses {operators[0].name}"
    yield RULE.finding(facts, observed, FactOrigin.JOB, facts.job.path)


RULE = Rule(
    id="SW110",
    title="Undocumented state schema",
    severity=Severity.WARNING,
    reason=(
        "An operator who decides at night whether a key may be lost, or a field changed, needs to know what the state "
        "holds."
    ),
    reads=(
        "The docstring of the job's module: a line that begins with `State` and a colon in it, if the job keeps state."
    ),
    remedy="Add a paragraph to the job's docstring: `State: …`, with key, value, and what bounds it.",
    judge=judge,
)
