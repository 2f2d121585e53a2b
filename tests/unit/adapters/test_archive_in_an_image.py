"""The class archive that an image's build made is found in its containers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamwarden.services.fleet.launching import class_archive

BUILT = 1_700_000_000


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Spark's jars as they were when the archive was made, with its time in nanoseconds."""
    folder = tmp_path / "jars"
    folder.mkdir()
    monkeypatch.setattr(class_archive, "spark_home", lambda: tmp_path)
    monkeypatch.setattr(class_archive, "_folder", lambda: tmp_path)
    os.utime(folder, ns=(0, BUILT * 10**9 + 123_456_789))
    (tmp_path / f"classes-{class_archive._key(tmp_path)}-0.jsa").touch()
    return folder


def test_a_layer_that_keeps_whole_seconds_changes_nothing(jars: Path) -> None:
    assert class_archive.find(jars.parent) is not None
    os.utime(jars, (0, BUILT))
    assert class_archive.find(jars.parent) is not None


def test_another_spark_has_another_archive(jars: Path) -> None:
    os.utime(jars, (0, BUILT + 1))
    assert class_archive.find(jars.parent) is None
