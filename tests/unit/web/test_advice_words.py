"""The order of advice on a stream, and what is folded of the linter's findings."""

from __future__ import annotations

from dataclasses import replace

from streamwarden.airflow.web.words.advice import folded, in_order
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.tuning.recommendation import Decision, Recommendation

FINDING = Finding(
    rule="SW101",
    title="state is bounded",
    severity=Severity.WARNING,
    stream="orders",
    observed="nothing bounds it",
    origin=FactOrigin.JOB,
    where="orders.py:14",
    reason="it grows",
    remedy="set a watermark",
)


def test_what_is_to_be_changed_comes_first_the_costliest_before_the_others() -> None:
    def advice(topic: str, status: Decision, costs: float | None = None) -> Recommendation:
        return Recommendation(topic=topic, status=status, says="", costs=costs)

    given = [
        advice("kept", Decision.KEEP, 90.0),
        advice("cheap", Decision.CHANGE),
        advice("unclear", Decision.UNKNOWN),
        advice("costly", Decision.CHANGE, 30.0),
    ]
    assert [each.topic for each in in_order(given)] == ["costly", "cheap", "unclear", "kept"]


def test_equal_findings_are_one_line_with_each_place() -> None:
    again = replace(FINDING, where="orders.py:40", observed="nor that")
    found = folded([again, FINDING, FINDING])
    assert [each.rule for each in found] == ["SW101"]
    assert set(found[0].seen) == {
        ("nor that", "job file: orders.py:40"),
        ("nothing bounds it", "job file: orders.py:14"),
    }


def test_the_worst_finding_comes_first_and_another_remedy_is_another_line() -> None:
    worse = replace(FINDING, rule="SW999", severity=Severity.ERROR)
    other = replace(FINDING, remedy="say what bounds it")
    unknown = replace(FINDING, severity=Severity.UNKNOWN)
    found = folded([unknown, FINDING, worse, other])
    assert [each.severity for each in found] == ["error", "warning", "warning", "unknown"]
    assert found[0].rule == "SW999"
