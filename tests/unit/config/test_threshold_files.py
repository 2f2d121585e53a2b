"""Thresholds of the project and of a stream: in the unit of their check, and each mistake reported."""

import pytest

from streamwarden.config.loading import load_thresholds
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.problems import ConfigFileError
from support.streams.projects import Project


def test_without_a_file_the_documented_defaults_hold(project: Project) -> None:
    assert load_thresholds(project.root) == DEFAULTS
    assert DEFAULTS.of("state_size")["critical"] == 5e9


def test_project_overrides_only_the_thresholds_that_it_names(project: Project) -> None:
    project.write("config/thresholds.yaml", "state_size: {warning: 2 GB}\ncheckpoint_duration: {critical: 1m}\n")
    thresholds = load_thresholds(project.root)
    assert thresholds.of("state_size") == {**DEFAULTS.of("state_size"), "warning": 2e9}
    assert thresholds.of("checkpoint_duration")["critical"] == 60.0
    assert thresholds.of("memory_usage") == DEFAULTS.of("memory_usage")


def test_all_mistakes_of_the_file_come_with_their_lines(project: Project) -> None:
    project.write(
        "config/thresholds.yaml",
        "state_size:\n  warning: 5 s\n  critical: lots\n  color: 3\nstat_size: {warning: 1}\nmemory_usage: high\n",
    )
    with pytest.raises(ConfigFileError) as caught:
        load_thresholds(project.root)
    assert [(problem.line, problem.dotted) for problem in caught.value.problems] == [
        (2, "state_size.warning"),
        (3, "state_size.critical"),
        (4, "state_size.color"),
        (5, "stat_size"),
        (6, "memory_usage"),
    ]


def test_a_stream_overrides_its_own_in_the_units_people_write(project: Project) -> None:
    spec = project.load(project.stream("a", "health: {thresholds: {state_size: {warning: 2 GB, critical: 4 GB}}}\n"))
    assert spec.health.thresholds == {"state_size": {"warning": 2e9, "critical": 4e9}}


@pytest.mark.parametrize(
    ("thresholds", "key"),
    [
        ("{state_size: {warning: 5 s}}", "health.thresholds.state_size.warning"),
        ("{state_size: {warning: 6 GB}}", "health.thresholds.state_size"),
        ("{state_size: {warning: true}}", "health.thresholds.state_size.warning"),
        ("{state: {warning: 1}}", "health.thresholds.state"),
        ("{state_size: 3}", "health.thresholds.state_size"),
        ("[state_size]", "health.thresholds"),
    ],
)
def test_a_streams_wrong_threshold_breaks_that_stream(project: Project, thresholds: str, key: str) -> None:
    project.stream("good")
    project.stream("bad", f"health: {{thresholds: {thresholds}}}\n")
    catalog = project.catalog()
    assert list(catalog.streams) == ["good"]
    error = catalog.broken["bad"]
    assert isinstance(error, ConfigFileError)
    assert [problem.dotted for problem in error.problems] == [key]
    assert error.problems[0].line == 7


def test_a_streams_limit_is_judged_beside_the_projects_other_limit(project: Project) -> None:
    """Warning at 6 GB is beyond the default critical limit, but not beyond the project's."""
    project.write("config/thresholds.yaml", "state_size: {critical: 10 GB}\n")
    project.stream("a", "health: {thresholds: {state_size: {warning: 6 GB}}}\n")
    assert project.catalog().broken == {}


def test_a_broken_thresholds_file_breaks_no_stream(project: Project) -> None:
    project.write("config/thresholds.yaml", "state_size: 3\n")
    project.stream("a")
    assert list(project.catalog().streams) == ["a"]


def test_a_drill_that_names_an_unknown_check_is_reported(project: Project) -> None:
    from streamwarden.config.loading import load_drills

    project.write(
        "config/drills/k.yaml",
        "name: k\nstream: a\nfault: {kind: kill_driver}\nsteady_state: {checks: [state_size, sate_size]}\n",
    )
    assert "steady_state.checks[1]: there is no check 'sate_size'" in str(load_drills(project.root)[1]["k"])
