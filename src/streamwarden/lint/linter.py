"""Runs all rules on one stream's facts."""

from collections.abc import Iterable, Sequence

from streamwarden.lint.facts import Facts
from streamwarden.lint.finding import FactOrigin, Finding
from streamwarden.lint.rule import Rule
from streamwarden.lint.rules import RULES


def lint(facts: Facts, rules: Sequence[Rule] = RULES) -> tuple[Finding, ...]:
    """The findings, the most severe first, then in the rules' order. Never raises: a rule that fails is unknown."""
    findings = [finding for rule in rules for finding in _run(rule, facts)]
    return tuple(sorted(findings, key=lambda finding: -finding.severity.rank))


def _run(rule: Rule, facts: Facts) -> Iterable[Finding]:
    try:
        return tuple(rule.judge(facts))
    except Exception as error:  # one rule's defect must not hide the findings of the others
        observed = f"the rule itself failed: {type(error).__name__}: {error}"
        return (rule.unknown(facts, observed, FactOrigin.DECLARATION, facts.file),)
