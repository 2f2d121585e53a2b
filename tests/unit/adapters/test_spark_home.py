"""The environment of a process that runs on the installed Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.adapters.jvm.environments import own, spark_variables
from streamwarden.adapters.jvm.spark_home import QUICK, spark_home

JAVA = Path("/opt/java")


def test_it_names_java_and_the_installed_spark_whatever_the_shell_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/elsewhere")
    monkeypatch.setenv("JAVA_HOME", "/elsewhere")
    environment = spark_variables(own(), JAVA)
    assert (environment["SPARK_HOME"], environment["JAVA_HOME"]) == (str(spark_home()), str(JAVA))


def test_sparks_launcher_starts_fast_unless_the_shell_gives_it_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LAUNCHER_OPTS", raising=False)
    assert spark_variables(own(), JAVA)["SPARK_LAUNCHER_OPTS"].split() == list(QUICK)
    monkeypatch.setenv("SPARK_LAUNCHER_OPTS", "-Xss4m")
    assert spark_variables(own(), JAVA)["SPARK_LAUNCHER_OPTS"] == "-Xss4m"
