"""The repository's own streams, and the page of a DAG."""

from pathlib import Path

import pytest

from streamwarden.airflow.docs import stream_doc
from streamwarden.config.loading import load_catalog, load_drills, load_thresholds
from streamwarden.lint.finding import Severity
from streamwarden.lint.rules import RULES
from streamwarden.services.analysis.lint_facts import job_facts, lint_declared

ROOT = Path(__file__).resolve().parents[3]
STREAMS = load_catalog(ROOT, ROOT / "var").streams
DRILLS = tuple(load_drills(ROOT)[0].values())


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_only_the_bad_example_has_an_error_and_every_job_is_followed(name: str) -> None:
    assert job_facts(STREAMS[name]).followed
    grave = [each.rule for each in lint_declared(STREAMS[name], DRILLS) if each.severity is not Severity.WARNING]
    assert grave == (["SW101"] if name == "flight_dedup_unbounded" else [])


def test_the_drilled_stream_is_clean() -> None:
    assert lint_declared(STREAMS["flight_departures"], DRILLS) == ()


def test_the_ids_of_the_rules_are_theirs_alone() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_the_page_of_a_dag_shows_what_was_found() -> None:
    spec, thresholds = STREAMS["flight_dedup_unbounded"], load_thresholds(ROOT)
    shown = stream_doc(spec, thresholds, lint_declared(spec, DRILLS))
    assert "| `SW101 error` | dropDuplicates" in shown
    assert "Nothing found" in stream_doc(spec, thresholds, ())
