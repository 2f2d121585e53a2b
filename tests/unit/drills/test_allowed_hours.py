"""When a live stream may be hit: by the clock on the wall of one time zone."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from streamwarden.config.loading import load_drill
from streamwarden.drills.production import AllowedHours, ProductionSpec, Weekday
from streamwarden.drills.records.codec import decode, encode
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import ConfigError
from support.simulated.drill_live import HOURS, live_drill

BERLIN = AllowedHours(start="09:00", end="16:00", timezone="Europe/Berlin")


def at(text: str, zone: str = "Europe/Berlin") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("when", "allowed"),
    [
        ("2026-11-23T08:59:59", False),
        ("2026-11-23T09:00:00", True),
        ("2026-11-23T15:59:59", True),
        ("2026-11-23T16:00:00", False),
        ("2026-11-28T12:00:00", False),  # a Saturday
    ],
)
def test_the_start_is_allowed_and_the_end_is_not(when: str, allowed: bool) -> None:
    assert (at(when) in BERLIN) is allowed


def test_the_hours_follow_the_wall_clock_over_the_change_to_winter_time() -> None:
    """07:30 UTC is 09:30 in Berlin on the Friday before the change, and 08:30 on the Monday after it."""
    assert at("2026-10-23T07:30:00", "UTC") in BERLIN
    assert at("2026-10-26T07:30:00", "UTC") not in BERLIN
    assert at("2026-10-26T08:30:00", "UTC") in BERLIN


def test_the_day_is_that_of_the_time_zone() -> None:
    """Sunday evening in UTC is Monday morning in Tokyo."""
    tokyo = AllowedHours(start="00:00", end="24:00", days=(Weekday.MON,), timezone="Asia/Tokyo")
    assert at("2026-11-22T20:00:00", "UTC") in tokyo
    assert at("2026-11-22T10:00:00", "UTC") not in tokyo
    assert at("2026-11-23T23:59:59", "Asia/Tokyo") in tokyo


YAML = """name: night
stream: flights
fault: {{kind: kill_driver}}
target: production
production: {{allowed_hours: {hours}}}
{more}
"""


def load(folder: Path, hours: str, more: str = "") -> DrillSpec:
    path = folder / "config" / "drills" / "night.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(YAML.format(hours=hours, more=more))
    return load_drill(path, project=folder)


def test_a_file_is_read_and_its_journal_form_read_back(tmp_path: Path) -> None:
    drill = load(tmp_path, '{start: "09:00", end: "16:00", days: [mon, fri], timezone: Europe/Berlin}')
    assert drill.production == ProductionSpec(
        allowed_hours=AllowedHours(
            start="09:00", end="16:00", days=(Weekday.MON, Weekday.FRI), timezone="Europe/Berlin"
        )
    )
    assert decode(DrillSpec, encode(drill)) == drill


@pytest.mark.parametrize(
    ("hours", "key"),
    [
        ('{start: "9:00", end: "16:00"}', "start"),
        ('{start: "16:00", end: "09:00"}', "end"),
        ('{start: "09:00", end: "25:00"}', "end"),
        ('{start: "09:00", end: "16:00", days: []}', "days"),
        ('{start: "09:00", end: "16:00", days: [monday]}', "days"),
        ('{start: "09:00", end: "16:00", timezone: Mars/Olympus}', "timezone"),
        ('{start: "09:00", end: "16:00", timezone: ../etc/passwd}', "timezone"),
    ],
)
def test_hours_that_mean_nothing_are_refused_with_their_key(tmp_path: Path, hours: str, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"production\.allowed_hours\.{key}"):
        load(tmp_path, hours)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("fork: {rewind: 5}", "fork"),
        ("verification: {oracle: twin}", "verification.oracle"),
        ("verification: {key: [id]}", "verification.key"),
    ],
)
def test_a_drill_on_a_live_stream_says_nothing_of_a_fork_or_an_oracle(tmp_path: Path, more: str, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load(tmp_path, '{start: "09:00", end: "16:00"}', more)


def test_an_approver_has_an_id(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    hours = '{start: "09:00", end: "16:00"}, approvers: [""]'
    path.write_text(YAML.format(hours=hours, more=""))
    with pytest.raises(ConfigError, match=r"production\.approvers"):
        load_drill(path, project=tmp_path)


def test_a_drill_on_a_fork_has_no_hours(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    text = YAML.format(hours='{start: "09:00", end: "16:00"}', more="").replace("target: production\n", "")
    path.write_text(text)
    with pytest.raises(ConfigError, match="production"):
        load_drill(path, project=tmp_path)


def test_a_run_may_wait_for_a_person_as_long_as_its_file_says() -> None:
    assert live_drill().waits == 4 * 3600.0
    assert live_drill(production=ProductionSpec(allowed_hours=HOURS, approval_within=60.0)).waits == 60.0
