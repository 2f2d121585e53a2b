"""The repository's own streams, and the page of a DAG."""

from dataclasses import replace

import pytest

from streamwarden.airflow.dags.docs import stream_doc
from streamwarden.config.loading import load_thresholds
from streamwarden.lint.finding import Finding, Severity
from streamwarden.lint.linter import lint
from streamwarden.lint.plan_reader import read_plan
from streamwarden.lint.rules import RULES
from streamwarden.services.analysis.linting import declared, lint_declared
from streamwarden.stream.spec import StreamSpec
from support.streams.catalogue import REPOSITORY as ROOT
from support.streams.catalogue import drills, streams

STREAMS = streams()
DRILLS = tuple(drills().values())


def planned(spec: StreamSpec) -> tuple[Finding, ...]:
    """What `lint --plan` finds; the plans were printed by Spark (tests/data/make_plans.py)."""
    plan = read_plan((ROOT / "tests" / "data" / "plans" / f"{spec.name}.txt").read_text(), spec.sink.mode)
    return lint(declared(spec, DRILLS, plan=plan))


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_with_the_plan_only_the_bad_example_has_an_error(name: str) -> None:
    grave = [each.rule for each in planned(STREAMS[name]) if each.severity is not Severity.WARNING]
    assert grave == (["SW101"] if name == "flight_dedup_unbounded" else [])


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_without_the_plan_a_stream_that_never_ran_is_unknown_and_not_clean(name: str) -> None:
    found = lint_declared(STREAMS[name], DRILLS)
    assert Severity.ERROR not in {each.severity for each in found}
    assert ("SW101", Severity.UNKNOWN) in {(each.rule, each.severity) for each in found}


def test_the_drilled_stream_is_clean() -> None:
    assert planned(STREAMS["flight_departures"]) == ()


def test_the_ids_of_the_rules_are_theirs_alone() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_dag_page_shows_the_findings() -> None:
    spec, thresholds = STREAMS["flight_dedup_unbounded"], load_thresholds(ROOT)
    assert "| `SW101 error` | Deduplicate" in stream_doc(spec, thresholds, planned(spec))
    assert "| `SW101 unknown` | what state the job keeps" in stream_doc(spec, thresholds, lint_declared(spec, DRILLS))
    assert "No findings" in stream_doc(spec, thresholds, ())


def test_a_shared_folder_is_found_among_the_streams_of_the_project() -> None:
    """Spark removes files that the other stream has not read; a stream that removes nothing is not compared."""
    spec = STREAMS["flight_departures"]
    other = replace(spec, name="other")
    cleaning = replace(spec, source=replace(spec.source, options={"cleanSource": "delete"}))
    found = lint_declared(cleaning, DRILLS, [cleaning, other])
    assert any("other may not have read" in each.observed for each in found)
    assert declared(spec, DRILLS, [spec, other]).readers == ()
