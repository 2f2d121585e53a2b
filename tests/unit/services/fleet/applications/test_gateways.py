"""Each cluster whose applications are asked about, or drilled, has a gateway; and what a gateway's log becomes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streamwarden.clusters import MANAGERS
from streamwarden.errors import ProcessError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.services.fleet.applications import GATEWAYS, application_of, log_copy
from streamwarden.services.fleet.applications.yarn import YarnApplication
from streamwarden.stream.spark import SparkSpec
from support.streams.health_windows import spec


class Logged:
    """An application of which the cluster has a log."""

    def __init__(self, text: str) -> None:
        self.text = text

    def describe(self) -> Mapping[str, Any] | None:
        return None

    def identifier(self) -> str | None:
        return None

    def kill(self) -> bool:
        return False

    def log(self, most: int) -> str:
        return self.text


def test_every_manager_that_is_asked_has_a_gateway() -> None:
    asked = {manager.title for manager in MANAGERS if manager.waits is not None}
    drilled = {manager.title for manager in MANAGERS if manager.drills_in_cluster}
    assert asked | drilled <= GATEWAYS.keys()


def test_a_local_driver_is_no_application() -> None:
    assert application_of(spec(), "orders-1", {}) is None
    found = application_of(spec(spark=SparkSpec(master="yarn")), "orders-1", {}, "http://manager:8088")
    assert isinstance(found, YarnApplication)


def test_a_log_is_appended_to_what_the_folder_has(tmp_path: Path) -> None:
    (tmp_path / files.LOG).write_text("submitted\n")
    assert log_copy.copy_log(Logged("the end\n"), tmp_path)
    assert (tmp_path / files.LOG).read_text() == "submitted\nthe end\n"


def test_a_log_that_is_not_there_in_time_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "THERE_WITHIN", 0.0)
    assert not log_copy.copy_log(Logged(""), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_hadoops_command_it_is_said_what_is_missing() -> None:
    found = application_of(
        spec(spark=SparkSpec(master="yarn")), "orders-1", {"PATH": "/nowhere"}, "http://manager:8088"
    )
    assert found is not None
    with pytest.raises(ProcessError, match="Hadoop's command yarn is not there"):
        found.log(1000)
