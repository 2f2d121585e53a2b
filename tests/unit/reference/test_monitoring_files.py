"""The dashboard and the alert rules use only metrics that exist, and there is an alert for every check."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from reference_pages.alert_rules import check_rules
from streamwarden.health.checks import CHECKS
from streamwarden.services.exporting.metrics import COUNTS, LABELS, STATE_SETS, names

PACKAGING = Path(__file__).parents[3] / "packaging"
DASHBOARD = json.loads((PACKAGING / "grafana/streamwarden.json").read_text())
RULES = yaml.safe_load((PACKAGING / "prometheus/rules.yaml").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
KNOWN_LABELS = {
    *LABELS,
    *("check", "dag_id", "owner"),
    *(each.name for each in STATE_SETS),
    *(each.label for each in COUNTS),
}
OF_PROMETHEUS = {"step", "titleFormat", "textFormat", "useValueForTime", "definition"}
"""Keys that Grafana keeps for its Prometheus data source: the schema of a dashboard leaves them to the data source."""
VARIABLES = {each["name"] for each in DASHBOARD["templating"]["list"]}


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
    events = [each["expr"] for each in DASHBOARD["annotations"]["list"]]
    annotations = [text for rule in ALERTS for text in rule["annotations"].values()]
    return [
        *queries,
        *variables,
        *events,
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


def lost(given: Any, kept: Any, path: str = "") -> Iterator[str]:
    """The parts of `given` that `kept` lacks or has with another value."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, value in given.items():
            yield from lost(value, kept[key], f"{path}.{key}") if key in kept else [f"{path}.{key}"]
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for number, (one, other) in enumerate(zip(given, kept, strict=True)):
            yield from lost(one, other, f"{path}[{number}]")
    elif given != kept:
        yield path


def as_grafana_keeps_it(dashboard: dict[str, Any]) -> Any:
    """The dashboard through Grafana's own model of one: what the schema does not know is gone."""
    return json.loads(json.dumps(Dashboard.from_json(copy.deepcopy(dashboard)), cls=JSONEncoder))


def test_the_dashboard_fits_grafanas_schema() -> None:
    gone = set(lost(DASHBOARD, as_grafana_keeps_it(DASHBOARD)))
    assert {path for path in gone if path.rpartition(".")[2] not in OF_PROMETHEUS} == set()


@pytest.mark.parametrize("place", ["panels", "annotations", "templating"])
def test_a_key_that_grafana_does_not_know_would_be_found(place: str) -> None:
    wrong = copy.deepcopy(DASHBOARD)
    there = wrong[place] if place == "panels" else wrong[place]["list"]
    there[-1]["tittle"] = "a typing error"
    assert any(path.endswith(".tittle") for path in lost(wrong, as_grafana_keeps_it(wrong)))


def test_crashes_drills_and_deployments_are_marked_in_every_panel() -> None:
    assert [each["name"] for each in DASHBOARD["annotations"]["list"]] == [
        "Crashes and outages",
        "Drills",
        "Starts and deployments",
    ]
    for each in DASHBOARD["annotations"]["list"]:
        assert each["enable"]
        assert each["datasource"]["uid"] == "${datasource}"
        assert 'stream="$stream"' in each["expr"]


def test_links_lead_to_the_pages_of_streams_and_use_variables_that_exist() -> None:
    in_panels = [link for panel in panels() for link in panel["fieldConfig"]["defaults"].get("links", [])]
    links = [link["url"] for link in (*DASHBOARD["links"], *in_panels)]
    assert "${airflow}/streamwarden/streams/${stream}" in links
    assert "${airflow}/streamwarden/streams/${__field.labels.stream}" in links
    used = {name for url in links for name in re.findall(r"\$\{(\w+)", url)}
    assert used <= VARIABLES | {"__field"}


def test_what_an_operator_looks_for_has_a_panel() -> None:
    drawn = {name for panel in panels() for target in panel["targets"] for name in metrics_of(target["expr"])}
    assert drawn >= {
        "streamwarden_topic_lag_seconds",
        "streamwarden_late_rows_ratio",
        "streamwarden_malformed_rows_ratio",
        "streamwarden_replay_debt_seconds",
        "streamwarden_watermark_lag_seconds",
        "streamwarden_watermark_stalled_seconds",
    }


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
