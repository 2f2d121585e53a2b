"""SW108: an encoding in which state cannot change its fields."""

from collections.abc import Iterable

from streamwarden.lifecycle.settings import STATE_STORE, flag
from streamwarden.lint.facts import Facts, OperatorKind
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule


def judge(facts: Facts) -> Iterable[Finding]:
    """Only custom state can evolve: native operators derive theirs from the query, whatever the encoding."""
    operators = facts.operators() or ()
    encoding = facts.conf.get(f"{STATE_STORE}.encodingFormat", facts.spec.state.encoding.value).lower()
    for operator in operators:
        if operator.kind is OperatorKind.PROCESSOR and encoding != "avro":
            observed = (
                f"the state of {operator.name} is encoded as {encoding}: no field can be added to it or taken from it"
            )
            yield RULE.finding(facts, observed, FactOrigin.DECLARATION, f"{facts.file}: state.encoding")
    named = any(operator.kind is OperatorKind.PROCESSOR for operator in operators)
    if not facts.all_known and not named and encoding != "avro":
        observed = (
            f"the encoding is {encoding}, and whether the job uses transformWithState is not known without its plan"
        )
        yield RULE.unknown(facts, observed, FactOrigin.DECLARATION, f"{facts.file}: state.encoding")
    if facts.operators() != () and not flag(facts.conf, f"{STATE_STORE}.stateSchemaCheck", True):
        observed = "stateSchemaCheck is false: a changed schema reads old state as garbage instead of stopping"
        where = f"{facts.file}: spark.conf"
        severity = Severity.ERROR if operators else Severity.UNKNOWN
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, where, severity=severity)


RULE = Rule(
    id="SW108",
    title="Encoding not evolvable",
    severity=Severity.WARNING,
    reason=(
        "Custom state outlives the code that wrote it. As UnsafeRow its fields are fixed: a new field means a new "
        "checkpoint, and the state is lost. Avro carries the schema of each row along."
    ),
    reads="`state.encoding` where the job uses transformWithState; `stateSchemaCheck`.",
    remedy=(
        "`state: {encoding: avro}` before the first batch: an encoding cannot be changed in a checkpoint. Keep "
        "unsaferow where its speed is needed and losing the state at a change is accepted."
    ),
    judge=judge,
)
