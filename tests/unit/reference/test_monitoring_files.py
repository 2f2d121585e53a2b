"""The dashboard and the alert rules use only metrics that exist, and there is an alert for every check."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reference_pages.alert_rules import check_rules
from streamwarden.health.checks import CHECKS
from streamwarden.services.exporting.metrics import LABELS, STATE_SETS, names

PACKAGING = Path(__file__).parents[3] / "packaging"
DASHBOARD = json.loads((PACKAGING / "grafana/streamwarden.json").read_text())
RULES = yaml.safe_load((PACKAGING / "prometheus/rules.yaml").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
KNOWN_LABELS = {*LABELS, "check", "dag_id", "owner", *(each.name for each in STATE_SETS)}


def metrics_of(expression: str) -> set[str]:
    """The names of metrics in an expression of PromQL; the labels of a state set have such a name too."""
    return set(re.findall(r"\bstreamwarden_\w+", expression))


def labels_of(expression: str) -> set[str]:
    """The labels that an expression selects or groups by."""
    selected = {
        label for inside in re.findall(r"\{([^}]*)\}", expression) for label in re.findall(r"(\w+)\s*[=!]", inside)
    }
    grouped = {
        label.strip() for inside in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression) for label in inside.split(",")
    }
    return selected | grouped


def panels() -> Iterator[dict[str, Any]]:
    return (each for each in DASHBOARD["panels"] if each["type"] != "row")


def expressions() -> list[str]:
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]
    variables = [each["definition"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    annotations = [text for rule in ALERTS for text in rule["annotations"].values()]
    return [
        *queries,
        *variables,
        *(rule["expr"] for rule in ALERTS),
        *(each for each in annotations if "query }}" in each),
    ]


def test_every_metric_in_an_expression_exists() -> None:
    found = {name for each in expressions() for name in metrics_of(each)}
    assert len(found) > 25
    assert found - names() == set()


def test_every_label_in_an_expression_exists() -> None:
    found = {label for target in expressions() for label in labels_of(target) if "with" not in target}
    assert {"stream", "query", "check"} <= found
    assert found - KNOWN_LABELS == set()


@pytest.mark.parametrize("wrong", ["sum(streamwarden_state_size_megabytes)", "rate(streamwarden_batches[5m])"])
def test_a_metric_that_does_not_exist_would_be_found(wrong: str) -> None:
    """A typing error, and a counter without its suffix."""
    assert metrics_of(wrong) - names() != set()


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_has_a_title_a_description_a_unit_and_a_query(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]


def test_panels_do_not_overlap_and_have_their_own_ids() -> None:
    cells = [
        (x, y)
        for each in DASHBOARD["panels"]
        for x in range(each["gridPos"]["x"], each["gridPos"]["x"] + each["gridPos"]["w"])
        for y in range(each["gridPos"]["y"], each["gridPos"]["y"] + each["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    ids = [each["id"] for each in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_every_check_has_an_alert_for_warning_and_critical() -> None:
    for check in CHECKS:
        mine = [rule for rule in ALERTS if f'{{check="{check.name}"}} ==' in rule["expr"]]
        assert {rule["labels"]["severity"] for rule in mine} == {"warning", "critical"}
        for rule in mine:
            assert check.title in rule["annotations"]["summary"]
            assert check.advice.split(".")[0] in rule["annotations"]["description"]


def test_a_summary_names_the_threshold_that_the_check_declares() -> None:
    summaries = {rule.name: rule.summary for rule in check_rules()}
    assert summaries["StreamwardenStateSizeWarning"].endswith("State size is WARNING (by default from 1 GB)")
    assert summaries["StreamwardenStateSizeCritical"].endswith("State size is CRITICAL (by default above 5 GB)")
    assert summaries["StreamwardenStateGrowthCritical"].endswith("is CRITICAL (by default below 1d)")
