"""The replay publishes every real flight once, in whole files, in the order of departure, and goes on after a kill."""

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from streamwarden.errors import ConfigError
from streamwarden.services.replay import replay as replay_module
from streamwarden.services.replay.flights import FLIGHTS, _data_file, departures
from streamwarden.services.replay.replay import ReplayStats, replay

KEYS = ("flight_id", "event_time", "origin", "carrier", "dest", "tailnum", "departed_at", "dep_delay")


@pytest.fixture(scope="module")
def all_events() -> Any:
    return departures()


@pytest.fixture(autouse=True)
def _read_the_data_set_once(monkeypatch: pytest.MonkeyPatch, all_events: Any) -> None:
    monkeypatch.setattr(replay_module, "departures", lambda: all_events)


@dataclass
class Time:
    """A clock that only sleeping moves."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def published(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    for path in published(folder):
        for line in path.read_text().splitlines():
            yield json.loads(line)


def test_the_data_set_holds_every_flight_of_the_year_once(all_events: Any) -> None:
    assert len(all_events) == FLIGHTS
    assert all_events["flight_id"].is_unique
    assert int(all_events["departed_at"].isna().sum()) == 8255
    assert all_events["dep_delay"].isna().equals(all_events["departed_at"].isna())


def test_events_come_in_the_order_in_which_flights_really_departed(all_events: Any) -> None:
    assert all_events["order"].is_monotonic_increasing
    event_times = all_events["event_time"]
    assert (event_times < event_times.cummax()).any()  # so some are late


def test_departures_agree_with_the_clock_on_the_wall_through_midnight_and_both_changes_of_the_clock(
    all_events: Any,
) -> None:
    """`dep_time` is the wall clock in New York as a number, 2400 at midnight, with no day; it is not what we read."""
    raw = pd.read_csv(
        _data_file("flights.csv.zip"),
        usecols=["year", "month", "day", "carrier", "flight", "origin", "dep_time", "sched_dep_time"],
    )
    raw["flight_id"] = (
        (raw["year"] * 10_000 + raw["month"] * 100 + raw["day"]).astype(str)
        + "-"
        + raw["carrier"]
        + raw["flight"].astype(str)
        + "-"
        + raw["origin"]
    )
    both = all_events.merge(raw[["flight_id", "dep_time", "sched_dep_time"]], on="flight_id").dropna(subset="dep_time")
    for column, wall in (("event_time", "sched_dep_time"), ("departed_at", "dep_time")):
        local = pd.to_datetime(both[column]).dt.tz_convert("America/New_York")
        assert (local.dt.hour * 100 + local.dt.minute == both[wall] % 2400).all()
    assert len(both) == FLIGHTS - 8255
    assert (both["dep_time"] == 2400).sum() == 29


def test_each_line_is_one_flight_with_nulls_where_nothing_is_known(tmp_path: Path) -> None:
    stats = replay(tmp_path, rows_per_file=500, limit=2000)
    lines = list(rows(tmp_path))
    assert len(lines) == stats.flights == 2000
    assert all(tuple(line) == KEYS for line in lines)
    cancelled = [line for line in lines if line["departed_at"] is None]
    assert len(cancelled) == stats.cancelled > 0
    assert all(line["dep_delay"] is None for line in cancelled)
    assert all(type(line["dep_delay"]) is int for line in lines if line["departed_at"])
    assert len({line["flight_id"] for line in lines}) == 2000


def test_the_limit_never_cuts_a_file(tmp_path: Path) -> None:
    stats = replay(tmp_path, rows_per_file=300, limit=301)
    assert stats == ReplayStats(
        files_written=2,
        files_skipped=0,
        flights=600,
        cancelled=stats.cancelled,
        observations=0,
        first=stats.first,
        last=stats.last,
        seconds=stats.seconds,
    )
    assert [path.name for path in published(tmp_path)] == ["flights-000000-000299.json", "flights-000300-000599.json"]


def test_flights_and_weather_are_published_on_one_clock(tmp_path: Path) -> None:
    stats = replay(tmp_path, parts=("flights", "weather"), limit=5000)
    assert stats.flights == len(list(rows(tmp_path / "flights"))) == 5000
    weather = list(rows(tmp_path / "weather"))
    assert len(weather) == stats.observations > 300
    assert all(tuple(line) == ("observed_at", "origin", "temp", "wind_speed", "precip", "visib") for line in weather)
    assert len({(line["observed_at"], line["origin"]) for line in weather}) == len(weather)
    both = sorted([*published(tmp_path / "flights"), *published(tmp_path / "weather")], key=lambda p: p.stat().st_mtime)
    newest = {"departed_at": "", "observed_at": ""}
    for path in both:
        last = json.loads(path.read_text().splitlines()[-1])
        for key in newest.keys() & last.keys():
            newest[key] = last[key] or newest[key]
        ends = [datetime.fromisoformat(instant) for instant in newest.values() if instant]
        assert max(ends) - min(ends) < timedelta(hours=24), "neither side runs ahead"


def test_a_part_that_nothing_can_be_replayed_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to replay for the part 'planes'"):
        replay(tmp_path, parts=("flights", "planes"))


def test_the_last_file_of_the_year_holds_what_is_left(
    tmp_path: Path, all_events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    december = all_events.tail(250)
    monkeypatch.setattr(replay_module, "departures", lambda: december)
    stats = replay(tmp_path, rows_per_file=100)
    assert [len(path.read_text().splitlines()) for path in published(tmp_path)] == [100, 100, 50]
    assert stats.flights == 250
    assert stats.last == all_events["order"].iloc[-1].timestamp()


def test_a_replay_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    """A kill leaves whole files and perhaps one hidden half of a file; the rerun makes what one clean run makes."""
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    replay(whole, rows_per_file=100, limit=500)
    replay(resumed, rows_per_file=100, limit=200)
    (resumed / ".flights-000200-000299.json.part").write_text('{"flight_id": "hal')
    stats = replay(resumed, rows_per_file=100, limit=500)
    assert (stats.files_written, stats.files_skipped) == (3, 2)
    assert {path.name: path.read_bytes() for path in published(whole)} == {
        path.name: path.read_bytes() for path in published(resumed)
    }
    assert not list(resumed.glob(".*.part"))


def test_files_that_exist_are_not_touched(tmp_path: Path) -> None:
    replay(tmp_path, rows_per_file=100, limit=200)
    before = {path: path.stat().st_mtime_ns for path in published(tmp_path)}
    assert replay(tmp_path, rows_per_file=100, limit=200).files_skipped == 2
    assert {path: path.stat().st_mtime_ns for path in published(tmp_path)} == before


def test_spark_reads_the_files_in_the_order_in_which_they_were_published(tmp_path: Path) -> None:
    """It sorts by the millisecond of modification. Here the disk's clock stands at one that is over already."""
    replay(tmp_path, rows_per_file=10, limit=10)
    first = next(tmp_path.glob("flights-*.json"))
    ahead = first.stat().st_mtime_ns + 3_600_000_000_000
    os.utime(first, ns=(ahead, ahead))
    replay(tmp_path, rows_per_file=10, limit=50)
    published = sorted(tmp_path.glob("flights-*.json"))
    milliseconds = [path.stat().st_mtime_ns // 1_000_000 for path in published]
    assert len(published) == 5
    assert milliseconds == sorted(set(milliseconds))


def test_nothing_visible_is_ever_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever the replay reaches the disk, every visible file already is as long as it will ever be."""
    sizes: dict[str, int] = {}
    real = replay_module.os.fsync

    def watch(descriptor: int) -> None:
        for path in published(tmp_path):
            assert sizes.setdefault(path.name, path.stat().st_size) == path.stat().st_size > 0
        real(descriptor)

    monkeypatch.setattr(replay_module.os, "fsync", watch)
    replay(tmp_path, rows_per_file=100, limit=500)
    assert len(sizes) == 5


def test_a_file_is_published_when_its_last_flight_has_departed(tmp_path: Path) -> None:
    time = Time()
    stats = replay(tmp_path, rows_per_file=100, limit=500, speedup=3600.0, clock=time.clock, sleep=time.sleep)
    assert stats.first is not None
    assert stats.last is not None
    assert time.now - 1000.0 == pytest.approx((stats.last - stats.first) / 3600.0)
    assert len(time.slept) == 5


def test_a_resumed_replay_does_not_wait_for_what_is_there(tmp_path: Path, all_events: Any) -> None:
    replay(tmp_path, rows_per_file=100, limit=400)
    time = Time()
    replay(tmp_path, rows_per_file=100, limit=500, speedup=60.0, clock=time.clock, sleep=time.sleep)
    instants = [each.timestamp() for each in all_events["order"].iloc[400:500]]
    assert time.now - 1000.0 == pytest.approx((instants[-1] - instants[0]) / 60.0)


def test_without_a_speed_up_nothing_waits(tmp_path: Path) -> None:
    time = Time()
    replay(tmp_path, rows_per_file=100, limit=500, clock=time.clock, sleep=time.sleep)
    assert time.slept == []


def test_other_files_than_before_would_double_flights_and_are_refused(tmp_path: Path) -> None:
    replay(tmp_path, rows_per_file=100, limit=100)
    with pytest.raises(ConfigError, match="100, as in the replay that began here"):
        replay(tmp_path, rows_per_file=250)


def test_a_second_replay_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    with (tmp_path / ".replay.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another replay is writing"):
            replay(tmp_path, limit=100)
    assert replay(tmp_path, limit=100).files_written == 1  # the lock went with its holder


@pytest.mark.parametrize(
    "wrong", [{"speedup": 0.0}, {"speedup": -1.0}, {"speedup": float("inf")}, {"rows_per_file": 0}, {"limit": 0}]
)
def test_values_out_of_range_are_refused_by_name(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        replay(tmp_path / "never", **wrong)
    assert not (tmp_path / "never").exists()
