"""What an audit can balance is found in the folder of its operators, and each operator is known to keep state."""

from __future__ import annotations

from streamwarden.lint.facts import STATEFUL
from streamwarden.spark.audit.operators import BALANCED, aggregation, deduplication, join, processor

NOT_BALANCED = {"Distinct", "FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState"}
"""An audit of one of these ends with exit code 4: docs/how-to/audit.md says so."""


def test_each_operator_is_balanced_by_the_module_that_names_it() -> None:
    modules = (aggregation, deduplication, join, processor)
    assert {operator: module.sides for module in modules for operator in module.OPERATORS} == BALANCED


def test_the_audit_finds_each_operator_in_a_plan() -> None:
    assert BALANCED.keys() == STATEFUL.keys() - NOT_BALANCED
