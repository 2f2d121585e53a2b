"""A driver whose cluster has no room for it: after a minute it is named."""

from __future__ import annotations

import pytest

from streamwarden.health.checks.driver import resources_pending
from streamwarden.health.signals.resources import WAITED
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Measurement, Window
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.stream.spark import SparkSpec
from support.streams.health_windows import NOW, driver, ended, judge, spec, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN


def waited(seconds: float, *, ago: float = 5.0) -> Measurement:
    source = "resources in queue etl (not yet activated)"
    return Measurement(stream="orders", name=WAITED, at=NOW - ago, value=seconds, unit="seconds", source=source)


def seen(*samples: Measurement, master: str = "yarn", launched: float = 900.0, **changes: object) -> Window:
    settings = {"drivers": (driver(1, NOW - launched),), "driver_alive": True, **changes}
    return window(spec=spec(spark=SparkSpec(master=master)), measurements=samples, **settings)


def verdict(of: Window) -> Verdict:
    return judge(resources_pending.CHECK, of)


@pytest.mark.parametrize(("seconds", "status"), [(50, OK), (60, WARNING), (600, WARNING), (601, CRITICAL)])
def test_it_is_named_after_a_minute(seconds: float, status: Status) -> None:
    found = verdict(seen(waited(seconds)))
    assert (found.status, found.value) == (status, seconds)
    assert "it waits for resources in queue etl (not yet activated)" in found.reason


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(seen(), id="it never waited"),
        pytest.param(seen(waited(300, ago=30), waited(0)), id="it waits no longer"),
        pytest.param(seen(waited(300, ago=200)), id="the last answer is old"),
        pytest.param(seen(waited(300, ago=30), launched=20), id="an earlier driver waited"),
        pytest.param(
            seen(waited(300), drivers=(driver(1, NOW - 900, exit=ended(ExitKind.KILLED, NOW)),), driver_alive=False),
            id="it was killed",
        ),
        pytest.param(seen(waited(300), master="local[2]"), id="it has no cluster"),
    ],
)
def test_nothing_waits(of: Window) -> None:
    assert verdict(of).status is OK


def test_a_cluster_that_is_not_asked_is_unknown() -> None:
    assert verdict(seen(waited(300), master="spark://one:7077")).status is UNKNOWN
    assert verdict(seen(waited(300), drivers=())).status is UNKNOWN
