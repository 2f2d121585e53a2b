"""A crash matrix whose Spark ends says so: the states that are left were not refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamwarden.spark.programs.crash_states import require_alive


def spark(is_stopped: Any) -> Any:
    context = SimpleNamespace(isStopped=is_stopped)
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context)))


def gone() -> bool:
    raise ConnectionRefusedError(111, "Connection refused")


def test_a_spark_that_runs_is_accepted() -> None:
    asked: list[str] = []
    require_alive(spark(lambda: bool(asked.append("is it stopped?"))))
    assert asked == ["is it stopped?"]


def test_a_stopped_spark_ends_the_program() -> None:
    with pytest.raises(RuntimeError, match="Spark has stopped"):
        require_alive(spark(lambda: True))


def test_a_jvm_that_is_gone_ends_the_program() -> None:
    with pytest.raises(ConnectionRefusedError):
        require_alive(spark(gone))
