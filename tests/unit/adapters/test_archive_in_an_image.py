"""The class archive that an image's build makes is found in its containers."""

from __future__ import annotations

import importlib.metadata
import os
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.jvm import environments
from streamwarden.adapters.jvm.environments import SparkEnvironment, own
from streamwarden.services.fleet.launching import class_archive

BUILT = 1_700_000_000


@pytest.fixture
def spark(tmp_path: Path) -> SparkEnvironment:
    """An environment whose jars are as they were when the archive was made, with its time in nanoseconds."""
    made = replace(own(), prefix=tmp_path, home=tmp_path)
    folder, archives = tmp_path / "jars", tmp_path / "share" / "streamwarden"
    folder.mkdir()
    archives.mkdir(parents=True)
    os.utime(folder, ns=(0, BUILT * 10**9 + 123_456_789))
    (archives / f"classes-{class_archive._key(made, tmp_path)}-0.jsa").touch()
    return made


def test_a_layer_that_keeps_whole_seconds_changes_nothing(spark: SparkEnvironment, tmp_path: Path) -> None:
    assert class_archive.find(spark, tmp_path) is not None
    os.utime(spark.home / "jars", (0, BUILT))
    assert class_archive.find(spark, tmp_path) is not None


def test_another_spark_has_another_archive(spark: SparkEnvironment, tmp_path: Path) -> None:
    os.utime(spark.home / "jars", (0, BUILT + 1))
    assert class_archive.find(spark, tmp_path) is None


def test_it_is_made_before_streamwarden_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layer with the archive precedes the one with the project. There Streamwarden is on the search path alone."""

    def missing(name: str) -> importlib.metadata.Distribution:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    environments._here.cache_clear()
    assert (own().programs / "driver.py").is_file()
