"""What we give Prometheus, judged by Prometheus' own promtool: the rules, the metrics, and when an alert fires."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamwarden.services.exporting.openmetrics import Scrape, exposition
from support.servers.promtool import promtool
from support.streams.stream_rows import NOW, full_row, stream_row

PACKAGING = Path(__file__).parents[2] / "packaging" / "prometheus"
STATE_SIZE = 'streamwarden_check_status{check="state_size", stream="flights"}'
BACKLOG = 'streamwarden_check_status{check="backlog", stream="clicks", query="by_page"}'
DOWN = 'streamwarden_check_status{check="driver_down", stream="clicks"}'
SCRAPED = {"streamwarden_scrape_failures": "0x10", "streamwarden_round_age_seconds": "30x10"}


def test_the_rules_and_the_example_are_right(tmp_path: Path) -> None:
    """As promtool reads them, with the file of the token that the example names."""
    assert "SUCCESS" in promtool("check", "rules", str(PACKAGING / "rules.yaml")).stdout
    (tmp_path / "token").write_text("x")
    shutil.copy(PACKAGING / "rules.yaml", tmp_path)
    example = (PACKAGING / "prometheus.yml").read_text().replace("/etc/prometheus/streamwarden.token", "token")
    (tmp_path / "prometheus.yml").write_text(example)
    checked = promtool("check", "config", str(tmp_path / "prometheus.yml"))
    assert checked.returncode == 0, checked.stdout


def test_the_metrics_follow_the_conventions_of_prometheus() -> None:
    """promtool finds nothing to improve in their names, units, types and help texts."""
    rows = [full_row("flights"), full_row("clicks"), full_row("clicks/by_page"), stream_row("new", state="new")]
    text, _ = exposition(Scrape(now=NOW, rows=rows, read_at=NOW, judged_at=NOW), "")
    checked = promtool("check", "metrics", given=text)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_promtool_would_find_a_bad_name() -> None:
    """The negative control of the test above."""
    assert promtool("check", "metrics", given=b"# TYPE streamwarden_size_kilobytes gauge\nx_ms 1\n").returncode != 0


def assert_fires(tmp_path: Path, series: dict[str, str], alert: str, *expected: dict[str, str]) -> None:
    """Assert that `alert` fires with exactly these labels after four minutes, given one sample a minute.

    Without labels: that it does not fire.
    """
    test: dict[str, Any] = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in (SCRAPED | series).items()],
        "alert_rule_test": [
            {"eval_time": "4m", "alertname": alert, "exp_alerts": [{"exp_labels": labels} for labels in expected]}
        ],
    }
    rules = yaml.safe_load((PACKAGING / "rules.yaml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule.pop("annotations")  # promtool compares them too; the texts are tested where they are made
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [test]}))
    done = promtool("test", "rules", str(tmp_path / "test.yaml"))
    assert done.returncode == 0, done.stdout


def test_an_alert_fires_when_the_check_is_critical_and_not_before(tmp_path: Path) -> None:
    critical = {"severity": "critical", "check": "state_size", "stream": "flights"}
    assert_fires(tmp_path, {STATE_SIZE: "0 0 3 3 3"}, "StreamwardenStateSizeCritical", critical)
    assert_fires(tmp_path, {STATE_SIZE: "0 0 3 3 3"}, "StreamwardenStateSizeWarning")
    assert_fires(tmp_path, {STATE_SIZE: "0 0 2 2 2"}, "StreamwardenStateSizeCritical")
    assert_fires(tmp_path, {STATE_SIZE: "3 3 3 0 0"}, "StreamwardenStateSizeCritical")


def test_no_data_is_no_alarm(tmp_path: Path) -> None:
    """UNKNOWN fires neither of the two."""
    for severity in ("Warning", "Critical"):
        assert_fires(tmp_path, {STATE_SIZE: "1 1 1 1 1"}, f"StreamwardenStateSize{severity}")


def test_a_consequence_is_silent_while_its_cause_alarms(tmp_path: Path) -> None:
    """The driver of `clicks` is down, so its query falls behind: one alert, not two."""
    behind = {"severity": "critical", "check": "backlog", "stream": "clicks", "query": "by_page"}
    assert_fires(tmp_path, {BACKLOG: "3x10", DOWN: "0x10"}, "StreamwardenBacklogCritical", behind)
    assert_fires(tmp_path, {BACKLOG: "3x10", DOWN: "3x10"}, "StreamwardenBacklogCritical")
    down = {"severity": "critical", "check": "driver_down", "stream": "clicks"}
    assert_fires(tmp_path, {BACKLOG: "3x10", DOWN: "3x10"}, "StreamwardenDriverDownCritical", down)


def test_another_streams_cause_explains_nothing(tmp_path: Path) -> None:
    other = DOWN.replace("clicks", "flights")
    behind = {"severity": "critical", "check": "backlog", "stream": "clicks", "query": "by_page"}
    assert_fires(tmp_path, {BACKLOG: "3x10", other: "3x10"}, "StreamwardenBacklogCritical", behind)


@pytest.mark.parametrize(("values", "fires"), [("170 170 170 170 170", False), ("30 90 150 210 270", True)])
def test_nobody_judges_the_streams(tmp_path: Path, values: str, fires: bool) -> None:
    expected = [{"severity": "critical"}] if fires else []
    assert_fires(tmp_path, {"streamwarden_round_age_seconds": values}, "StreamwardenEvaluationLate", *expected)


def test_the_texts_of_an_alert_hold_the_stream_the_value_and_the_advice(tmp_path: Path) -> None:
    """The templates of the real file, rendered by Prometheus."""
    rules = yaml.safe_load((PACKAGING / "rules.yaml").read_text())
    (wanted,) = [
        rule
        for group in rules["groups"]
        for rule in group["rules"]
        if rule["alert"] == "StreamwardenCheckpointDurationCritical"
    ]
    advice = wanted["annotations"]["description"].partition("{{")[0]
    alert = {
        "exp_labels": {"severity": "critical", "check": "checkpoint_duration", "stream": "clicks", "query": "by_page"},
        "exp_annotations": {
            "summary": "clicks/by_page: Checkpoint duration is CRITICAL (by default above 30 s)",
            "description": f"{advice} Now: 42s.",
        },
    }
    of = '{stream="clicks", query="by_page"}'
    series = {
        f'streamwarden_check_status{{check="checkpoint_duration", {of[1:]}': "3x10",
        f"streamwarden_checkpoint_duration_seconds{of}": "42x10",
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": "4m", "alertname": wanted["alert"], "exp_alerts": [alert]}],
    }
    shutil.copy(PACKAGING / "rules.yaml", tmp_path)
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [test]}))
    done = promtool("test", "rules", str(tmp_path / "test.yaml"))
    assert done.returncode == 0, done.stdout


DASHBOARD = json.loads((PACKAGING.parent / "grafana" / "streamwarden.json").read_text())
EVENTS = {each["name"]: each["expr"].replace("$stream", "flights") for each in DASHBOARD["annotations"]["list"]}
OF_STREAM = '{stream="flights", query=""}'
UP = 'streamwarden_stream_state{stream="flights", query="", streamwarden_stream_state="down"}'
DRILL = 'streamwarden_drill_verdict{stream="flights", query="", streamwarden_drill_verdict="RUNNING"}'
QUIET = {
    UP: "0x10",
    DRILL: "0x10",
    f"streamwarden_restarts_last_day{OF_STREAM}": "2x4 1x5",
    f"streamwarden_uptime_seconds{OF_STREAM}": "60+60x10",
}
"""Nothing happens; an older restart leaves the last 24 hours."""


def test_prometheus_understands_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    rules = [
        {"record": f"dashboard:{number}", "expr": expr.replace("$stream", "flights")}
        for number, expr in enumerate([*queries, *EVENTS.values()])
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = promtool("check", "rules", str(file))
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("event", "series"),
    [
        ("Crashes and outages", {f"streamwarden_restarts_last_day{OF_STREAM}": "0x2 1x5"}),
        ("Crashes and outages", {UP: "0x2 1x5"}),
        ("Drills", {DRILL: "0x2 1x5"}),
        ("Starts and deployments", {f"streamwarden_uptime_seconds{OF_STREAM}": "6000 6060 6120 5 65 125"}),
    ],
    ids=["restarted", "down", "drill", "started"],
)
def test_the_dashboard_marks_an_event_when_it_happens_and_nothing_else(
    tmp_path: Path, event: str, series: dict[str, str]
) -> None:
    marked = {name: name == event for name in EVENTS}
    assert_marked(tmp_path, QUIET | series, marked)
    assert_marked(tmp_path, QUIET, dict.fromkeys(EVENTS, False))


def assert_marked(tmp_path: Path, series: dict[str, str], marked: dict[str, bool]) -> None:
    """Assert which events are marked after four minutes, given one sample a minute."""
    tests = [
        {
            "expr": f"count({EVENTS[name]})",
            "eval_time": "4m",
            "exp_samples": [{"labels": "{}", "value": 1}] if expected else [],
        }
        for name, expected in marked.items()
    ]
    given = [{"series": name, "values": values} for name, values in series.items()]
    document = {
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": given, "promql_expr_test": tests}],
    }
    file = tmp_path / "events.yaml"
    file.write_text(yaml.safe_dump(document))
    judged = promtool("test", "rules", str(file))
    assert judged.returncode == 0, judged.stdout
