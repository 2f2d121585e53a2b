"""Thresholds as people write them, and the page and file that are made from the checks' declarations."""

from __future__ import annotations

import pytest
import yaml

from reference_pages.checks import checks_page, thresholds_file, written
from streamwarden.errors import ConfigError
from streamwarden.health.check import Check, ValueUnit
from streamwarden.health.checks import CHECKS
from streamwarden.health.thresholds import DEFAULTS, thresholds_from, validate_overrides

DOCUMENTED = {
    "state_size": (1 * 10**9, 5 * 10**9),
    "checkpoint_duration": (10.0, 30.0),
    "state_update_latency": (0.010, 0.050),
    "state_cleanup_time": (5.0, 15.0),
    "memory_usage": (2 * 10**9, 4 * 10**9),
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_documented_limits_are_the_defaults(name: str) -> None:
    limits = DEFAULTS.of(name)
    assert (limits["warning"], limits["critical"]) == DOCUMENTED[name]


def test_values_are_read_as_people_write_them() -> None:
    raw = {
        "state_size": {"warning": "512 MB", "critical": 2 * 10**9},
        "checkpoint_duration": {"warning": "2 seconds", "critical": "1m"},
        "state_update_latency": {"warning": "35 ms", "least_rows": 10},
        "late_rows": {"warning": "0.5 %", "critical": 0.02},
    }
    assert validate_overrides(raw, where="orders.yaml") == {
        "state_size": {"warning": 512e6, "critical": 2e9},
        "checkpoint_duration": {"warning": 2.0, "critical": 60.0},
        "state_update_latency": {"warning": 0.035, "least_rows": 10.0},
        "late_rows": {"warning": 0.005, "critical": 0.02},
    }


@pytest.mark.parametrize(
    ("raw", "where", "words"),
    [
        ({"state_sice": {}}, "f.state_sice", ["state_sice", "state_size"]),
        ({"state_size": {"warn": "1 GB"}}, "f.state_size.warn", ["warn", "warning, critical"]),
        ({"state_size": {"warning": "1 second"}}, "f.state_size.warning", ["1 second", "5 GB"]),
        ({"state_size": {"warning": True}}, "f.state_size.warning", ["True"]),
        ({"state_size": {"warning": None}}, "f.state_size.warning", ["None"]),
        ({"state_size": {"warning": -1}}, "f.state_size.warning", ["-1"]),
        ({"state_size": {"warning": [1]}}, "f.state_size.warning", ["[1]"]),
        ({"state_size": 7}, "f.state_size", ["7"]),
        ([1], "f", ["[1]"]),
        ({"restart_loop": {"warning": "two"}}, "f.restart_loop.warning", ["two"]),
        ({"late_rows": {"warning": float("nan")}}, "f.late_rows.warning", ["nan"]),
        ({"state_size": {"warning": "6 GB"}}, "f.state_size", ["6 GB", "5 GB", "at most"]),
        ({"state_growth": {"critical": "8 d"}}, "f.state_growth", ["7d", "8d", "at least"]),
    ],
)
def test_invalid_override_names_key_value_and_allowed_values(raw: object, where: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_overrides(raw, where="f")  # type: ignore[arg-type]
    assert caught.value.where == where
    for word in words:
        assert word in str(caught.value)
    assert caught.value.next_step


def test_limits_may_be_equal_and_must_agree_with_the_projects() -> None:
    assert validate_overrides({"state_size": {"warning": "5 GB"}}, where="f")
    project = thresholds_from({"state_size": {"critical": "9 GB"}}, where="thresholds.yaml")
    assert validate_overrides({"state_size": {"warning": "6 GB"}}, where="f", base=project)


def test_overrides_of_one_check_leave_the_others_alone() -> None:
    mine = DEFAULTS.with_overrides({"state_size": {"warning": 7.0}})
    assert mine.of("state_size") == {"warning": 7.0, "critical": 5e9}
    assert mine.of("memory_usage") == DEFAULTS.of("memory_usage")
    assert DEFAULTS.of("state_size")["warning"] == 1e9


def test_the_generated_thresholds_file_reads_back_as_the_defaults() -> None:
    assert thresholds_from(yaml.safe_load(thresholds_file()), where="thresholds.yaml") == DEFAULTS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_every_check_declares_its_documentation(check: Check) -> None:
    names = [threshold.name for threshold in check.thresholds]
    assert names[:2] == ["warning", "critical"]
    assert len(set(names)) == len(names)
    for text in (check.title, check.target, check.reads, check.unknown, check.advice, check.source):
        assert text.strip() == text
        assert text
    assert f"## {check.title}" in checks_page()


def test_check_names_are_unique_and_are_their_modules() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.judge.__module__.endswith(f".{check.name}") for check in CHECKS)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1e9, ValueUnit.BYTES, "1 GB"),
        (1.5e9, ValueUnit.BYTES, "1500 MB"),
        (0.01, ValueUnit.SECONDS, "10 ms"),
        (604800.0, ValueUnit.SECONDS, "7 d"),
        (90.0, ValueUnit.SECONDS, "90 s"),
        (0.001, ValueUnit.SHARE, "0.1 %"),
        (3.0, ValueUnit.TIMES, "3"),
        (2.5, ValueUnit.TIMES, "2.5"),
    ],
)
def test_a_value_is_written_so_that_it_reads_back(value: float, unit: ValueUnit, text: str) -> None:
    assert written(value, unit) == text
    assert unit.parse(text) == value
