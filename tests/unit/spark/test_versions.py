"""The names of Spark's internals in its versions."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from streamwarden.adapters.jvm.environments import own
from streamwarden.checkpoint.spark_support import CLASSES
from streamwarden.spark.internals.versions import NAMES, RUNNING, name_of


@pytest.mark.parametrize(
    ("version", "package"), [((3, 5), ""), ((4, 0), ""), ((4, 1), "runtime."), ((4, 3), "runtime.")]
)
def test_a_name_holds_until_the_next_one(version: tuple[int, int], package: str) -> None:
    assert name_of("TERMINATED", version) == f"org.apache.spark.sql.execution.streaming.{package}TERMINATED$"


def test_this_process_runs_on_the_version_of_its_environment() -> None:
    assert own().minor == RUNNING


def test_the_classes_of_the_installed_spark_have_the_names_that_hold_for_it() -> None:
    expected = {name_of(what) for what in NAMES} | set(CLASSES)
    (jar,) = Path(own().home).glob("jars/spark-sql_*.jar")
    with zipfile.ZipFile(jar) as opened:
        there = {name.removesuffix(".class").replace("/", ".") for name in opened.namelist()}
    assert expected - there == set()
